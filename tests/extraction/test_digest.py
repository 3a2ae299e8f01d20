"""Digests of rows: entropy, precision of long rows, several layers side by side."""

import numpy as np
import pytest
import scipy.stats
import torch
from jaxtyping import TypeCheckError

from headscope.extraction.digest import EXACT_KEYS, OFFSETS, digest, entropy, join
from headscope.extraction.rows import WithoutFirst
from tests.drawn import Drawn, block_of, kept, marks


def test_a_digest_holds_cells_distances_and_masses():
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)[None, None]
    tokens = marks(3, separator={2}, special={0, 2})
    found = digest(block_of(probs, tokens.valid, start=1), tokens)
    expected = {"first": [0.5, 0.1], "rest_distance": [0.2, 0.6], "rest_entropy": None}
    expected["rest_entropy"] = [
        -(p * np.log(p) + q * np.log(q)) for p, q in ((0.3, 0.2), (0.6, 0.3))
    ]
    for name, numbers in expected.items():
        assert found[name][0, 0].tolist() == pytest.approx(numbers), name
    cells = [found.cell(offset)[0, 0].tolist() for offset in OFFSETS]
    assert cells == [[0.5, 0.6], [0.3, 0.3], [0.2, 0.0]]
    columns, _ = tokens.columns
    assert found.mass(columns["all"])[0, 0].tolist() == pytest.approx([0.5, 0.9])
    assert found.mass(columns["special"])[0, 0].tolist() == pytest.approx([0.2, 0.3])
    assert found.row_numbers.tolist() == [1, 2]


def test_layers_side_by_side_are_as_they_were():
    drawn = [Drawn(seed) for seed in (0, 1)]
    parts = [digest(d.block(2, 6), drawn[0].tokens) for d in drawn]
    both = join(parts)
    assert both.start == 2
    for name in ("first", "rest_entropy", "rest_distance"):
        assert torch.equal(both[name], torch.cat([part[name] for part in parts], 1)), name


def test_long_rows_in_float32_are_as_good_as_in_float64():
    n_keys = EXACT_KEYS + 476
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1, 2, 40, n_keys, generator=generator, dtype=torch.float64) * 3
    scores[..., 0] += 15  # most rows have nearly all on the first token
    exact, single = scores.softmax(3), scores.float()
    tokens = marks(n_keys, special={0, 7, 900}, punctuation=set(range(3, n_keys, 5)))
    start = n_keys - 40
    long = kept(block_of(exact, tokens.valid, start=start), tokens)
    for scored in (None, single):
        probs = single.softmax(3)
        rows = kept(block_of(probs, tokens.valid, start=start, scores=scored), tokens)
        pairs = (long, rows), (WithoutFirst(long), WithoutFirst(rows))
        for expected, found in pairs:
            assert torch.allclose(found.entropy, expected.entropy, rtol=1e-4, atol=1e-6)
            assert torch.allclose(found.distance, expected.distance, rtol=1e-4)
            for name in ("all", "special", "punctuation"):
                assert torch.allclose(found.mass(name), expected.mass(name), rtol=1e-4)
    assert (WithoutFirst(long).rest < 0.01).any()


@pytest.mark.parametrize("n_keys", [40, EXACT_KEYS + 40])
def test_entropy_of_large_scores_is_as_good_as_of_small_ones(n_keys):
    scores = torch.randn(1, 2, 7, n_keys, generator=torch.Generator().manual_seed(0)) * 2 + 5000
    exact = scores.double().softmax(3)
    expected = scipy.stats.entropy(exact.numpy(), axis=3)
    tokens = marks(n_keys)
    rows = kept(block_of(scores.softmax(3), tokens.valid, scores=scores), tokens)
    assert rows.entropy.numpy() == pytest.approx(expected, abs=1e-5)


def test_entropy_of_hard_rows():
    # C073: zeros, certainty, subnormal numbers; 0.0 and never -0.0.
    rows = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [1.0, 1e-45, 0.0]]
    for dtype in (torch.float32, torch.float64):
        (found,) = entropy(torch.tensor(rows, dtype=dtype).view(1, 1, 4, 3))[0]
        assert found.dtype == torch.float64
        assert found[0].item() == pytest.approx(0.693147, abs=1e-6)
        assert str(found[1].item()) == "0.0"
        assert found[2].item() == pytest.approx(0.562335, abs=1e-6)
        assert 0 <= found[3].item() < 1e-37
    assert "-0." not in str(entropy(torch.eye(4).view(1, 1, 4, 4)))


def test_entropy_equals_scipy():
    probs = Drawn(2).probs.clone()
    probs[..., 3:5] = 0
    probs = probs / probs.sum(3, keepdim=True).clamp(min=1e-9)
    expected = np.nan_to_num(scipy.stats.entropy(probs.numpy(), axis=3))
    assert entropy(probs).numpy() == pytest.approx(expected, abs=1e-12)
    assert entropy(probs.float()).numpy() == pytest.approx(expected, abs=1e-6)
    assert (entropy(probs).numpy() >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sink", [False, True])
def test_entropy_from_scores_equals_entropy_of_their_softmax(dtype, sink):
    scores = (torch.randn(2, 3, 9, 12, generator=torch.Generator().manual_seed(0)) * 4).to(dtype)
    scores[..., 10:] = torch.finfo(dtype).min
    scores[0, 0, 0, 1:] = torch.finfo(dtype).min
    probs = scores.softmax(3, dtype=torch.float32)
    if sink:  # the last column is a score without a key
        scores[..., 9] = 2.0
        probs = scores.softmax(3, dtype=torch.float32)[..., :9]
        scores = scores[..., :9]
    before = scores.clone()
    tokens = marks(probs.shape[3], valid=torch.ones(2, probs.shape[3], dtype=torch.bool))
    found = kept(block_of(probs, tokens.valid, scores=scores), tokens).entropy
    assert torch.allclose(found, entropy(probs.double()), atol=2e-6)
    assert torch.equal(scores, before)


def test_an_emptied_row_has_no_entropy_whatever_its_scores():
    scores = torch.full((1, 1, 1, 3), torch.nan)
    tokens, probs = marks(3), torch.zeros(1, 1, 1, 3)
    assert kept(block_of(probs, tokens.valid, scores=scores), tokens).entropy.tolist() == [[[0.0]]]


def test_entropy_of_zeros_has_finite_gradients():
    probs = torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]], requires_grad=True)
    entropy(probs).sum().backward()
    assert torch.isfinite(probs.grad).all()


def test_shapes_of_signatures_are_checked_in_tests():
    with pytest.raises(TypeCheckError, match="probs"):
        entropy(torch.zeros(3, 3))
