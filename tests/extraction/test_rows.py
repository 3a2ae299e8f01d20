"""Rows of attention: entropy, the first token left out, sinks, windows, blocks, precision."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from jaxtyping import TypeCheckError

from headscope.extraction.rows import EXACT_KEYS, Kept, WithoutFirst, entropy
from tests.drawn import Drawn, block_of, marks, mask_of_rows


def kept(rows, *, causal=False, window=None, start=0, sinks=False, scores=None, **places):
    """Rows of one head of one sequence."""
    probs = torch.tensor(rows, dtype=torch.float64)[None, None]
    n_keys = probs.shape[3]
    tokens = marks(n_keys, **places)
    mask = mask_of_rows(causal=causal, window=window, width=n_keys)
    block = block_of(probs, tokens.valid, mask=mask, start=start, scores=scores)
    return Kept(block, tokens, tokens, sinks)


def values(found):
    return found.flatten().tolist()


ROW = [0.65, 0.08, 0.04, 0.03, 0.09, 0.11]
REST = [0.228571, 0.114286, 0.085714, 0.257143, 0.314286]


def test_the_first_token_left_out_and_the_rest_renormalised():
    # C015; as the last row, so that every offset back is a cell of it.
    rows = kept([ROW], start=5, causal=True, special={0, 2}, separator={5})
    assert values(rows.first) == [0.65]
    without = WithoutFirst(rows)
    cells = [values(without.cell(offset))[0] for offset in (-4, -3, -2, -1, 0)]
    assert cells == pytest.approx(REST, abs=1e-6)
    assert values(without.total) == [1.0]
    assert values(without.mass("special")) == pytest.approx([0.114286], abs=1e-6)
    assert values(without.mass("separator")) == pytest.approx([0.314286], abs=1e-6)
    assert values(without.entropy) == pytest.approx([scipy.stats.entropy(REST)], abs=1e-6)
    expected = sum(p * away for p, away in zip(REST, (4, 3, 2, 1, 0), strict=True))
    assert values(without.distance) == pytest.approx([expected], abs=1e-5)
    assert (values(rows.n_visible), values(without.n_visible)) == ([6], [5])
    assert values(without.first) == [0.0]
    assert (values(without.cell(-5)), values(without.has_cell(-5))) == ([0.0], [False])


def test_rows_with_nothing_but_the_first_token_are_undefined():
    # C016: never 0/0, 1 or uniform.
    without = WithoutFirst(kept([[1.0, 0, 0], [1.0, 0, 0], [0.2, 0.3, 0.5]], causal=True))
    assert values(without.defined) == [False, False, True]
    for found in (without.total, without.entropy, without.distance, without.mass("all")):
        assert values(found)[:2] == [0.0, 0.0]
    assert values(without.n_visible) == [0, 1, 2]


def test_a_tiny_rest_is_renormalised_exactly():
    rows = kept([[1 - 4e-8, 1e-8, 3e-8]])
    without = WithoutFirst(rows)
    assert values(without.cell(2)) == pytest.approx([0.75], rel=1e-6)
    assert values(without.entropy) == pytest.approx([scipy.stats.entropy([1, 3])], rel=1e-6)
    assert not WithoutFirst(kept([[1 - 1e-12, 1e-12, 0.0]])).defined.any()


def test_what_a_row_lacks_is_on_the_sink():
    rows = kept([[0.3, 0.2, 0.1]], sinks=True)
    assert values(rows.total) == pytest.approx([0.6])
    expected = -(0.3 * math.log(0.3) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert values(rows.entropy) == pytest.approx([expected])
    without = WithoutFirst(rows)
    assert values(without.cell(1)) == pytest.approx([2 / 3])
    assert values(without.entropy) == pytest.approx([scipy.stats.entropy([2, 1])])
    assert not without.has_sinks


def test_the_last_row_of_a_window_sees_as_many_keys_as_the_window_holds():
    # C011: T = 8, window 4, causal.
    rows = kept(np.eye(8), causal=True, window=4)
    assert values(rows.n_visible) == [1, 2, 3, 4, 4, 4, 4, 4]
    assert values(WithoutFirst(rows).n_visible) == [0, 1, 2, 3, 4, 4, 4, 4]
    assert values(rows.has_cell(-1))[3:] == [True] * 5
    assert values(rows.has_cell(-4)) == [False] * 8
    assert not rows.has_cell(1).any()


@pytest.mark.parametrize("way", [Kept, WithoutFirst])
@pytest.mark.parametrize("sinks", [False, True])
def test_keys_that_no_row_sees_can_be_cut_off(way, sinks):
    drawn = Drawn(causal=True, window=3, sinks=sinks)
    for start, stop, keys in ((6, 9, slice(4, 9)), (3, 5, slice(1, 5)), (0, 2, slice(0, 2))):
        both = []
        for cut in (slice(None), keys):
            rows = Kept(drawn.block(start, stop, cut), drawn.tokens, drawn.tokens, sinks)
            both.append(rows if way is Kept else WithoutFirst(rows))
        whole, part = both
        real = drawn.tokens.valid[:, None, start:stop]
        for name in ("first", "total", "entropy", "distance", "n_visible"):
            expected, found = (getattr(rows, name) * 1.0 for rows in both)
            assert torch.allclose(found * real, expected * real, atol=1e-12), name
        for offset in (-2, -1, 0, 1):
            assert torch.allclose(part.cell(offset) * real, whole.cell(offset) * real)
            assert torch.equal(
                part.has_cell(offset) & real[:, 0], whole.has_cell(offset) & real[:, 0]
            )
        for name in drawn.tokens.sets:
            assert torch.allclose(part.mass(name) * real, whole.mass(name) * real, atol=1e-12)


def test_long_rows_in_float32_are_as_good_as_in_float64():
    n_keys = EXACT_KEYS + 476
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1, 2, 40, n_keys, generator=generator, dtype=torch.float64) * 3
    scores[..., 0] += 15  # most rows have nearly all on the first token
    exact, single = scores.softmax(3), scores.float()
    tokens = marks(n_keys, special={0, 7, 900}, punctuation=set(range(3, n_keys, 5)))
    start = n_keys - 40
    long = Kept(block_of(exact, tokens.valid, start=start), tokens, tokens)
    for scored in (None, single):
        probs = single.softmax(3)
        rows = Kept(block_of(probs, tokens.valid, start=start, scores=scored), tokens, tokens)
        pairs = (long, rows), (WithoutFirst(long), WithoutFirst(rows))
        for expected, found in pairs:
            assert torch.allclose(found.entropy, expected.entropy, rtol=1e-4, atol=1e-6)
            assert torch.allclose(found.distance, expected.distance, rtol=1e-4)
            for name in ("all", "special", "punctuation"):
                assert torch.allclose(found.mass(name), expected.mass(name), rtol=1e-4)
    assert (WithoutFirst(long).rest < 0.01).any()


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
    found = Kept(block_of(probs, tokens.valid, scores=scores), tokens, tokens).entropy
    assert torch.allclose(found, entropy(probs.double()), atol=2e-6)
    assert torch.equal(scores, before)


def test_an_emptied_row_has_no_entropy_whatever_its_scores():
    scores = torch.full((1, 1, 1, 3), torch.nan)
    assert values(kept([[0.0, 0.0, 0.0]], scores=scores).entropy) == [0.0]


def test_entropy_of_zeros_has_finite_gradients():
    probs = torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]], requires_grad=True)
    entropy(probs).sum().backward()
    assert torch.isfinite(probs.grad).all()


def test_shapes_of_signatures_are_checked_in_tests():
    with pytest.raises(TypeCheckError, match="probs"):
        entropy(torch.zeros(3, 3))
