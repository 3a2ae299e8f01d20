"""Rows of tables: tab-separated values, or one JSON object a line; told with file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headscope.datasets.files import lines, shown
from headscope.errors import ParseError

_SHOWN_COLUMNS = 8


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, without their ends and the byte-order mark, and their numbers."""
    for number, raw in enumerate(lines(path), 1):
        text = raw.removeprefix("\ufeff") if number == 1 else raw
        text = text.removesuffix("\n").removesuffix("\r")
        if text:
            yield number, text


def no_column(
    path: Path, line: int | None, name: str, found: Sequence[str], expected: str
) -> ParseError:
    """The error for a column that is not there, with those that are."""
    named = ", ".join(shown(column, 20) for column in found[:_SHOWN_COLUMNS])
    more = ", ..." if len(found) > _SHOWN_COLUMNS else ""
    return ParseError(
        path, line, f"no column '{name}' among {named or 'none'}{more}",
        expected,
        "rename the columns, or name them: --columns text=NAME,text_pair=NAME",
    )  # fmt: skip


def tsv_row(path: Path, line: int, text: str, header: Sequence[str]) -> dict[str, Any]:
    """Column -> cell of one line, whose cells are as many as the header's."""
    cells = text.split("\t")  # quotes are letters like others, as in the files of GLUE
    if len(cells) != len(header):
        raise ParseError(
            path, line, f"{len(cells)} tab-separated column{'s' if len(cells) > 1 else ''}",
            f"{len(header)}, as in the header", "a text holds no tab",
        )  # fmt: skip
    return dict(zip(header, cells, strict=True))


def json_row(path: Path, line: int, text: str) -> dict[str, Any]:
    """The object that one line holds."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        what = f"broken JSON (column {error.colno}: {error.msg})"
        raise ParseError(path, line, what, "one JSON object a line") from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        raise ParseError(path, line, "JSON that is too deep", "one JSON object a line") from None
    if not isinstance(found, dict):
        raise ParseError(path, line, f"JSON {shown(text)}", "one JSON object a line")
    return found
