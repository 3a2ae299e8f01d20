"""Rows of tables, and what is said of broken ones."""

import pytest

from headscope.datasets.tables import json_row, no_column, numbered_lines, tsv_row
from headscope.errors import ParseError


def test_lines_are_numbered_as_an_editor_does(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes("\ufeffa\tb\r\n\n1\t2\n".encode())
    assert list(numbered_lines(path)) == [(1, "a\tb"), (3, "1\t2")]


def test_cells_by_column(tmp_path):
    assert tsv_row(tmp_path, 2, '"x\t', ["a", "b"]) == {"a": '"x', "b": ""}
    with pytest.raises(ParseError, match="3 tab-separated columns; expected 2, as in the header"):
        tsv_row(tmp_path, 2, "1\t2\t3", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "found"),
    [("{", "broken JSON"), ("[1]", "JSON '"), ("[" * 100_000, "JSON that is too deep")],
)
def test_objects_by_line(tmp_path, text, found):
    assert json_row(tmp_path, 1, '{"a": 1}') == {"a": 1}
    with pytest.raises(ParseError, match=found):
        json_row(tmp_path, 1, text)


def test_a_missing_column_is_told_with_those_that_are_there(tmp_path):
    error = no_column(tmp_path / "t.tsv", 1, "text", [f"c{i}" for i in range(9)], "text and label")
    assert "no column 'text' among 'c0'" in str(error)
    assert "'c7', ...; expected text and label" in str(error)
    assert "among none;" in str(no_column(tmp_path, 1, "text", [], "text"))
