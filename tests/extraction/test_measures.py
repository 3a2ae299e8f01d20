"""Surface measures: hand-computed maps, plain loops, padding, blocks of rows, what cannot exist."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from headscope.extraction.measures import MEASURES, Tokens, Weights, entropy

NAMES = list(MEASURES)


def tokens_of(length, width=None, causal=False, **marked):
    """One sentence of a batch, padded to `width`; `marked` names token -> places."""
    width = width or length
    valid = torch.arange(width).unsqueeze(0) < length
    masks = {
        name: torch.isin(torch.arange(width), torch.tensor(marked.get(name, []), dtype=torch.long))
        .unsqueeze(0)
        for name in ("cls", "separator", "special", "punctuation", "punctuation_words",
                     "punctuation_all")
    }  # fmt: skip
    return Tokens(valid=valid, annotated=torch.tensor([True]), causal=causal, **masks)


def sums(probs, tokens):
    """Measure -> sum over rows, for one head of one sentence."""
    whole = Weights(tokens, 0, probs.shape[2]).totals(probs)
    return dict(zip(NAMES, whole[0, 0].tolist(), strict=True))


def rows(tokens):
    return {name: float(measure.n_rows(tokens)[0]) for name, measure in MEASURES.items()}


MAP = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]]]])


def test_a_map_by_hand():
    tokens = tokens_of(3, cls=[0], separator=[2], special=[0, 2], punctuation=[1],
                       punctuation_words=[1], punctuation_all=[1])  # fmt: skip
    found = sums(MAP, tokens)
    expected = {
        "previous": 0.1 + 0.25, "next": 0.3 + 0.3, "self": 1.6, "first": 0.85, "cls": 0.85,
        "separator": 1.0, "special": 1.85, "punctuation": 1.15, "punctuation_words": 1.15,
        "punctuation_all": 1.15,
        "distance": (0.3 + 2 * 0.2) + (0.1 + 0.3) + (2 * 0.25 + 0.25),
    }  # fmt: skip
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6), name
    by_row = [scipy.stats.entropy(row) for row in MAP[0, 0].double().numpy()]
    assert found["entropy"] == pytest.approx(sum(by_row), abs=1e-6)
    assert found["entropy_from_first"] == found["entropy_from_cls"] == pytest.approx(by_row[0])
    assert rows(tokens) == {
        name: {"previous": 2, "next": 2}.get(name, 1 if "entropy_from" in name else 3)
        for name in NAMES
    }


def test_entropy_of_zeros_and_certainty():
    certain = torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]])
    found = entropy(certain)[0, 0]
    assert found[0].item() == pytest.approx(math.log(2))
    assert str(found[1].item()) == "0.0"


def test_entropy_equals_scipy_and_has_finite_gradients():
    probs = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)).softmax(3)
    probs[0, 0, 0] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    expected = scipy.stats.entropy(probs.double().numpy(), axis=3)
    np.testing.assert_allclose(entropy(probs).numpy(), expected, atol=1e-6)
    probs.requires_grad_()
    entropy(probs).sum().backward()
    assert bool(probs.grad.isfinite().all())


def random_map(length, width, seed=0):
    """A map over `length` tokens; rows of padding are uniform, as models leave them."""
    scores = torch.randn(1, 2, width, width, generator=torch.Generator().manual_seed(seed))
    scores[..., length:] = -torch.inf
    probs = scores.softmax(3)
    probs[:, :, length:] = 1 / width
    return probs


MARKS = {"cls": [4], "separator": [1, 3], "special": [1, 3, 4], "punctuation": [2],
         "punctuation_words": [2], "punctuation_all": [0, 2]}  # fmt: skip


@pytest.mark.parametrize("width", [5, 7, 10])
def test_equals_plain_loops_whatever_the_padding(width):
    length = 5
    tokens, probs = tokens_of(length, width, **MARKS), random_map(length, width)
    found = Weights(tokens, 0, width).totals(probs)[0, 1].tolist()
    a = probs[0, 1, :length, :length].double().numpy()
    i, j = np.indices(a.shape)
    by_row = scipy.stats.entropy(a, axis=1)
    expected = {
        "previous": a[j == i - 1].sum(), "next": a[j == i + 1].sum(), "self": np.trace(a),
        "first": a[:, 0].sum(), "distance": (a * abs(i - j)).sum(), "entropy": by_row.sum(),
        "entropy_from_first": by_row[0], "entropy_from_cls": by_row[4],
    } | {name: a[:, places].sum() for name, places in MARKS.items()}  # fmt: skip
    for name, value in zip(NAMES, found, strict=True):
        assert value == pytest.approx(expected[name], abs=1e-6), name


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_blocks_of_rows_added_equal_the_whole(block):
    tokens, probs = tokens_of(6, 8, **MARKS), random_map(6, 8)
    whole = Weights(tokens, 0, 8).totals(probs)
    parts = sum(
        Weights(tokens, start, min(start + block, 8)).totals(probs[:, :, start : start + block])
        for start in range(0, 8, block)
    )
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


def test_transposing_the_map_changes_the_measures():
    tokens = tokens_of(3)
    plain, turned = sums(MAP, tokens), sums(MAP.transpose(2, 3).contiguous(), tokens)
    assert (plain["previous"], plain["next"]) == (turned["next"], turned["previous"])
    assert plain["first"] != turned["first"]


@pytest.mark.parametrize("causal", [False, True])
def test_uniform_attention_by_hand(causal):
    tokens = tokens_of(3, 5, causal=causal)
    uniform = tokens.uniform[0, 0]
    visible = [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]] if causal else [[1 / 3] * 3] * 3
    np.testing.assert_allclose(uniform[:3, :3].numpy(), visible)
    assert not uniform[:, 3:].any()


def test_measures_that_cannot_exist_have_no_rows():
    bare = rows(tokens_of(4, causal=True))
    for name in ("next", "cls", "separator", "special", "entropy_from_cls"):
        assert bare[name] == 0, name
        assert len(MEASURES[name].why_none) > 20
    assert bare["punctuation"] == bare["previous"] + 1 == 4
    assert rows(tokens_of(1))["previous"] == rows(tokens_of(1))["next"] == 0
