"""Surface measures: numbers found by hand, which rows they have, and reasons where they have none.

Agreement with plain loops, padding, blocks and windows: tests/probing/test_row_sums.py.
"""

import math

import pytest
import torch

from headscope.extraction.measures import MEASURES
from headscope.extraction.rows import WithoutFirst
from tests.drawn import block_of, kept, marks, mask_of_rows
from tests.loops import NAMES

FULL = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
CAUSAL = [[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.2, 0.5, 0.3]]
PLACES = {
    "cls": {0},
    "separator": {2},
    "special": {0, 2},
    "punctuation": {1},
    "punctuation_words": {1, 2},
    "punctuation_all": {1},
    "segment": [0, 0, 1],
    "text": [-1, 0, 1],
}


def rows_of(probs, *, causal=False, sinks=False, places=PLACES):
    probs = torch.tensor(probs, dtype=torch.float64)[None, None]
    n = probs.shape[3]
    tokens = marks(n, **places)
    block = block_of(probs, tokens.valid, mask=mask_of_rows(causal=causal, width=n))
    return kept(block, tokens, sinks)


def measured(rows, name):
    """[value or None where it does not exist] of the rows of the only head."""
    measure = MEASURES[name]
    there = measure.exists(rows) & rows.queries.valid
    return [
        value if exists else None
        for value, exists in zip(measure.value(rows)[0, 0].tolist(), there[0].tolist(), strict=True)
    ]


H = [1.0296530, 0.8979457, 0.9502705]
BY_HAND = {  # of the rows of FULL, and of FULL without its first column
    "previous": ([None, 0.1, 0.2], [None, None, 0.25]),
    "next": ([0.3, 0.3, None], [0.6, 1 / 3, None]),
    "self": ([0.5, 0.6, 0.6], [None, 2 / 3, 0.75]),
    "first": ([0.5, 0.1, 0.2], [None] * 3),
    "cls": ([0.5, 0.1, 0.2], [None] * 3),
    "separator": ([0.2, 0.3, 0.6], [0.4, 1 / 3, 0.75]),
    "special": ([0.7, 0.4, 0.8], [0.4, 1 / 3, 0.75]),
    "punctuation": ([0.3, 0.6, 0.2], [0.6, 2 / 3, 0.25]),
    "punctuation_words": ([0.5, 0.9, 0.8], [1.0, 1.0, 1.0]),
    "punctuation_all": ([0.3, 0.6, 0.2], [0.6, 2 / 3, 0.25]),
    "other_segment": ([0.2, 0.3, 0.4], [0.4, 1 / 3, 0.25]),
    "other_text": ([None, 0.3, 0.2], [None, 1 / 3, 0.25]),
    "sink": ([None] * 3, [None] * 3),
    "entropy": (H, [0.6730117, 0.6365142, 0.5623351]),
    "entropy_relative": (
        [h / math.log(3) for h in H],
        [h / math.log(2) for h in (0.6730117, 0.6365142, 0.5623351)],
    ),
    "entropy_from_first": ([H[0], None, None], [0.6730117, None, None]),
    "entropy_from_cls": ([H[0], None, None], [0.6730117, None, None]),
    "distance": ([0.7, 0.4, 0.6], [1.4, 1 / 3, 0.25]),
}


def close(found, expected):
    assert [value is None for value in found] == [value is None for value in expected]
    for value, right in zip(found, expected, strict=True):
        assert value is None or value == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("name", MEASURES)
def test_numbers_found_by_hand(name):
    as_they_are, without_first = BY_HAND[name]
    rows = rows_of(FULL)
    close(measured(rows, name), as_they_are)
    close(measured(WithoutFirst(rows), name), without_first)


def test_a_causal_model_by_hand():
    rows = rows_of(CAUSAL, causal=True)
    close(measured(rows, "next"), [None] * 3)
    close(measured(rows, "previous"), [None, 0.3, 0.5])
    close(measured(rows, "entropy_relative"), [None, 0.6108643 / math.log(2), 0.9372306])
    without = WithoutFirst(rows)
    close(measured(without, "self"), [None, 1.0, 0.375])
    # One key is left of two: no row but the last sees two.
    close(measured(without, "entropy_relative"), [None, None, 0.6615632 / math.log(2)])


def test_the_uniform_value_of_relative_entropy_is_one():
    rows = rows_of([[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], causal=True)
    close(measured(rows, "entropy_relative"), [None, 1.0, 1.0])


def test_sinks_take_what_rows_lack():
    rows = rows_of([[0.3, 0.2, 0.1], [0.5, 0.25, 0.25]], sinks=True)
    assert measured_two(rows, "sink") == pytest.approx([0.4, 0.0])
    assert MEASURES["sink"].value(rows_of([[1.0, 1e-7, 0.0]])).item() == 0.0
    assert not MEASURES["sink"].exists(WithoutFirst(rows)).any()


def measured_two(rows, name):
    return MEASURES[name].value(rows)[0, 0].tolist()


def test_a_transposed_map_gives_other_numbers():
    there = rows_of(FULL)
    back = rows_of([list(column) for column in zip(*FULL, strict=True)])
    assert sum(measured(there, "previous")[1:]) == pytest.approx(sum(measured(back, "next")[:2]))
    for name in ("previous", "first", "separator", "entropy_from_first", "other_segment"):
        pairs = zip(measured(there, name), measured(back, name), strict=True)
        assert any(a is not None and a != pytest.approx(b) for a, b in pairs), name


BARE = {"segment": [0] * 3, "text": [-1] * 3, "annotated": False}


def test_measures_that_cannot_exist_have_no_rows_and_a_reason_of_their_own():
    rows = rows_of(CAUSAL, causal=True, places=BARE)
    missing = {name for name in MEASURES if measured(rows, name) == [None] * 3}
    assert missing == {
        "next", "cls", "separator", "special", "punctuation_all", "other_segment", "other_text",
        "sink", "entropy_from_cls",
    }  # fmt: skip
    for name in missing:
        assert MEASURES[name].why_none != MEASURES["self"].why_none


def test_other_segment_is_of_segments_0_and_1_alone():
    rows = rows_of(FULL, places={**PLACES, "segment": [2, 0, 1]})
    close(measured(rows, "other_segment"), [None, 0.3, 0.2])


def test_loops_and_measures_have_the_same_names_in_the_same_order():
    assert tuple(MEASURES) == NAMES


def test_measures_that_compare_places_of_queries_and_keys():
    square = {name for name, measure in MEASURES.items() if measure.square}
    assert square == {"previous", "next", "self", "other_segment", "other_text", "distance"}
