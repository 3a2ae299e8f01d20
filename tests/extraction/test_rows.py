"""Rows of attention: the first token left out, sinks, windows, keys cut off."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from headscope.extraction.rows import WithoutFirst
from tests.drawn import Drawn, block_of, kept, marks, mask_of_rows


def rows_of(rows, *, causal=False, window=None, start=0, sinks=False, **places):
    """Rows of one head of one sequence."""
    probs = torch.tensor(rows, dtype=torch.float64)[None, None]
    n_keys = probs.shape[3]
    tokens = marks(n_keys, **places)
    mask = mask_of_rows(causal=causal, window=window, width=n_keys)
    block = block_of(probs, tokens.valid, mask=mask, start=start)
    return kept(block, tokens, sinks, offsets=range(-5, 3))


def values(found):
    return found.flatten().tolist()


ROW = [0.65, 0.08, 0.04, 0.03, 0.09, 0.11]
REST = [0.228571, 0.114286, 0.085714, 0.257143, 0.314286]


def test_the_first_token_left_out_and_the_rest_renormalised():
    # C015; as the last row, so that every offset back is a cell of it.
    rows = rows_of([ROW], start=5, causal=True, special={0, 2}, separator={5})
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
    without = WithoutFirst(rows_of([[1.0, 0, 0], [1.0, 0, 0], [0.2, 0.3, 0.5]], causal=True))
    assert values(without.defined) == [False, False, True]
    for found in (without.total, without.entropy, without.distance, without.mass("all")):
        assert values(found)[:2] == [0.0, 0.0]
    assert values(without.n_visible) == [0, 1, 2]


def test_a_tiny_rest_is_renormalised_exactly():
    rows = rows_of([[1 - 4e-8, 1e-8, 3e-8]])
    without = WithoutFirst(rows)
    assert values(without.cell(2)) == pytest.approx([0.75], rel=1e-6)
    assert values(without.entropy) == pytest.approx([scipy.stats.entropy([1, 3])], rel=1e-6)
    assert not WithoutFirst(rows_of([[1 - 1e-12, 1e-12, 0.0]])).defined.any()


def test_what_a_row_lacks_is_on_the_sink():
    rows = rows_of([[0.3, 0.2, 0.1]], sinks=True)
    assert values(rows.total) == pytest.approx([0.6])
    expected = -(0.3 * math.log(0.3) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert values(rows.entropy) == pytest.approx([expected])
    without = WithoutFirst(rows)
    assert values(without.cell(1)) == pytest.approx([2 / 3])
    assert values(without.entropy) == pytest.approx([scipy.stats.entropy([2, 1])])
    assert not without.has_sinks


def test_the_last_row_of_a_window_sees_as_many_keys_as_the_window_holds():
    # C011: T = 8, window 4, causal.
    rows = rows_of(np.eye(8), causal=True, window=4)
    assert values(rows.n_visible) == [1, 2, 3, 4, 4, 4, 4, 4]
    assert values(WithoutFirst(rows).n_visible) == [0, 1, 2, 3, 4, 4, 4, 4]
    assert values(rows.has_cell(-1))[3:] == [True] * 5
    assert values(rows.has_cell(-4)) == [False] * 8
    assert not rows.has_cell(1).any()


@pytest.mark.parametrize("without_first", [False, True])
@pytest.mark.parametrize("sinks", [False, True])
def test_keys_that_no_row_sees_can_be_cut_off(without_first, sinks):
    drawn = Drawn(causal=True, window=3, sinks=sinks)
    for start, stop, keys in ((6, 9, slice(4, 9)), (3, 5, slice(1, 5)), (0, 2, slice(0, 2))):
        both = []
        for cut in (slice(None), keys):
            rows = kept(drawn.block(start, stop, cut), drawn.tokens, sinks, range(-2, 2))
            both.append(WithoutFirst(rows) if without_first else rows)
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
