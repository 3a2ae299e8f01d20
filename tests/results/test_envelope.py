import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from headscope.results import plain, pointer
from tests.synthetic import provenance, surface


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([[1.0, np.nan], [np.inf, -np.inf]]), [[1.0, None], [None, None]]),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        ((1, (2.5, None)), [1, [2.5, None]]),
        ({1: {"a": float("inf")}}, {"1": {"a": None}}),
        ("text", "text"),
    ],
)
def test_plain_leaves_only_json_types(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("values", "nsubj"), "/values/nsubj"),
        (("values", 0, 1), "/values/0/1"),
        (("a/b~c",), "/a~1b~0c"),
        (("~1",), "/~01"),
        ((), ""),
    ],
)
def test_pointer_escapes_as_rfc_6901_says(parts, expected):
    assert pointer(*parts) == expected


def test_results_are_frozen(surface_result):
    result = surface_result()
    with pytest.raises(FrozenInstanceError):
        result.control = result


def test_dict_carries_where_the_numbers_come_from(surface_result):
    document = surface_result().to_dict()
    assert document["kind"] == "surface"
    assert document["version"] == 1
    assert document["model"]["n_layers"] == 3
    assert document["data"]["skipped"] == {"too_long": 1}
    assert document["settings"] == {"rows": "mean", "measures": ["previous", "cls"], "block": 64}
    assert document["warnings"] == ["<b>one</b> warning"]
    assert document["control"] is None


def test_asking_twice_gives_equal_answers(surface_result):
    result = surface_result(control=surface_result(shift=0.3))
    assert result.to_json() == result.to_json()


def test_notebook_cell_escapes_names_and_warnings(surface_result, dependency_result):
    for result in (surface_result(), dependency_result()):
        html = result._repr_html_()
        assert "<img" not in html
        assert "&lt;img src=x onerror=" in html
        assert "<b>one</b>" not in html
        assert "&lt;b&gt;one&lt;/b&gt; warning" in html


def test_notebook_cell_escapes_relations(dependency_result):
    html = dependency_result(labels=("<script>alert(1)</script>",))._repr_html_()
    assert "<script>" not in html


def test_notebook_cell_says_how_many_rows_it_leaves_out(dependency_result):
    few = dependency_result(labels=[f"r{i}" for i in range(18)])
    many = dependency_result(labels=[f"r{i}" for i in range(1300)])
    assert "more rows" not in few._repr_html_()
    assert "1,282 more rows" in many._repr_html_()


def test_headline_counts_what_was_analysed(surface_result):
    line = surface_result().headline()
    assert line.startswith("surface: ")
    assert "3 layers x 2 heads" in line
    assert line.endswith("on dev.conllu: 300 sentences, 5,224 words, gold annotation")


def test_a_result_by_itself_is_one_short_line(surface_result, dependency_result):
    for result in (surface_result(), dependency_result()):
        assert repr(result) == f"<{type(result).__name__} {result.headline()}>"
        assert "\n" not in repr(result)


def test_the_headline_says_whose_attention_and_what_a_decoder_reads():
    assert "(6 layers x 12 heads, encoder attention) on" in surface().headline()
    origin = provenance(attention="decoder", settings={"target": "copy"})
    assert "12 heads, decoder attention, target: copy) on" in surface(origin).headline()
    origin = provenance(attention="cross", settings={"target": "column"})
    assert "12 heads, cross-attention, target: column) on" in surface(origin).headline()


def test_tables_of_texts_have_rows():
    table = provenance(format="pairs", unit="sentence", n_sentences=30)
    assert ": 30 rows, 5,224 words" in surface(table).headline()
    assert table.data.unit_name == "row"
    assert provenance(format="text", unit="sentence").data.unit_name == "sentence"
    one = provenance(n_layers=1, n_heads=2, n_sentences=1, n_words=1)
    assert "(1 layer x 2 heads, " in surface(one).headline()
    assert ": 1 sentence, 1 word, " in surface(one).headline()
