import pytest

from headscope.datasets import Sentence
from headscope.datasets.remarks import remarked

NFD = "e\u0301"


def sentences(*names, word="x"):
    for ordinal, name in enumerate(names):
        yield Sentence((word,), (0,), ("root",), ("X",), name, ordinal, ordinal, ordinal + 1)


def test_nothing_to_say():
    warnings = []
    assert len(list(remarked(sentences("a", "b", "3"), warnings))) == 3
    assert warnings == []


def test_repeated_ids_are_read_and_told_once():
    warnings = []
    assert len(list(remarked(sentences("a", "a", "b", "a"), warnings))) == 4
    assert len(warnings) == 1
    assert "given before: 2, the first 'a' at line 2" in warnings[0]


def test_text_not_in_nfc_is_told():
    warnings = []
    list(remarked(sentences("a", "b", word=NFD), warnings))
    assert len(warnings) == 1
    assert "NFC: 2, the first 'a' at line 1" in warnings[0]


def test_remarks_come_also_when_reading_stops_early():
    warnings = []
    reading = remarked(sentences("a", "b", word=NFD), warnings)
    next(reading)
    reading.close()
    assert "NFC: 1" in warnings[0]


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (2, 2), (5, 3), (None, 3)])
def test_limit(limit, count):
    assert len(list(remarked(sentences("a", "b", "c"), [], limit))) == count
