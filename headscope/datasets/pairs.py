"""Tables of texts and pairs of texts, TSV or JSON lines: one row of the file is one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any

from headscope.datasets.files import fingerprint, shown
from headscope.datasets.sentences import Corpus, Sentence
from headscope.datasets.tables import json_row, no_column, numbered_lines, tsv_row
from headscope.datasets.text import Block, batched, parse, parser_note
from headscope.errors import InputError, ParseError, unknown

COLUMNS = ("text", "text_pair", "label", "target")
"""Columns that are read; all but the first may be absent, and others are passed over."""

_EXPECTED = "text, and text_pair, label and target where there are such"
_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can name halves of characters, UTF-8 cannot


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table; what is absent or holds white space only is None.

    Attributes:
        ordinal: 0-based number of the row, the header left out, broken rows counted.
        line: 1-based number of its line.
        text, text_pair, label, target: as the file has them.
    """

    ordinal: int
    line: int
    text: str
    text_pair: str | None
    label: str | None
    target: str | None

    def __len__(self) -> int:
        """Number of characters that are parsed."""
        return sum(len(text) for text in (self.text, self.text_pair, self.target) if text)


def open_pairs(
    path: Path, *, columns: Mapping[str, str] | None = None, skip_bad: bool = False
) -> Corpus:
    """A corpus of parsed rows; the whole file is checked now, before anything slow begins.

    Args:
        path: TSV with a header line, or one JSON object a line.
        columns: what the file calls a column of `COLUMNS`, where it has another name for it.
        skip_bad: leave broken rows out and list them in `Corpus.skipped`.

    Raises:
        InputError: there is no row, or a broken one, or no parser.
    """
    names = {"text": "text", **(columns or {})}
    for column in names:
        if column not in COLUMNS:
            raise unknown("column", column, COLUMNS)
    faults: list[str] = []
    n_rows = sum(1 for _ in read_rows(path, names, faults if skip_bad else None))
    if not n_rows and faults:
        raise ParseError(
            path, None, f"no good row among {len(faults):,}", "at least one",
            f"the first is broken so: {faults[0]}",
        )  # fmt: skip
    if not n_rows:
        raise ParseError(path, 1, "no row of texts", "rows below the header, or JSON lines")
    note = parser_note()
    skipped: list[str] = []

    def read() -> Iterator[Sentence]:
        for rows in batched(read_rows(path, names, skipped if skip_bad else None)):
            yield from _parsed(rows)

    sha256 = fingerprint(path)
    return Corpus(
        path.name, sha256, "pairs", "sentence", "parsed", note, read, skipped, n_sentences=n_rows
    )


def has_texts(first: str) -> bool:
    """Whether the first line of a file is that of a table with a column `text`."""
    if first.startswith("{"):
        return '"text"' in first
    header = first.rstrip("\r").split("\t")
    return len(header) > 1 and "text" in header


def columns_of(given: str) -> dict[str, str]:
    """Names of columns as the command line takes them.

    >>> columns_of("text=premise,text_pair=hypothesis")
    {'text': 'premise', 'text_pair': 'hypothesis'}
    """
    names = dict(part.partition("=")[::2] for part in given.split(","))
    if not all(names.values()):
        raise InputError(
            f"--columns: found {shown(given)}; expected pairs such as text=premise,label=gold_label"
        )
    return names


def read_rows(
    path: Path, names: Mapping[str, str], skipped: list[str] | None = None
) -> Iterator[Row]:
    """The rows in order; lines without any character are passed over.

    Args:
        path: the table.
        names: of columns that must be there, by `COLUMNS`; `text` is one of them.
        skipped: receives a message for each broken row; where None, the first one is raised.
    """
    numbered = numbered_lines(path)
    number, first = next(numbered, (1, ""))
    if not first:
        return
    header = None
    if first.startswith("{") or ".jsonl" in path.name.lower():
        numbered = chain([(number, first)], numbered)
    else:
        header = _header(path, number, first, names)
    for ordinal, (line, content) in enumerate(numbered):
        try:
            if header is None:
                cells = json_row(path, line, content)
            else:
                cells = tsv_row(path, line, content, header)
            row = _row(path, line, ordinal, _texts(path, line, cells, names))
        except ParseError as error:
            if skipped is None:
                raise
            skipped.append(str(error))
        else:
            yield row


def _header(path: Path, line: int, text: str, names: Mapping[str, str]) -> list[str]:
    header = text.split("\t")
    for name in names.values():
        if name not in header:
            raise no_column(path, line, name, header, _EXPECTED)
    for name in (names.get(column, column) for column in COLUMNS):
        if header.count(name) > 1:
            raise ParseError(path, line, f"{header.count(name)} columns '{name}'", "one")
    return header


def _texts(
    path: Path, line: int, cells: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, str | None]:
    """Each of `COLUMNS` in one row; None where it is absent, null or white space."""
    for name in names.values():
        if name not in cells:
            raise no_column(path, line, name, list(cells), _EXPECTED)
    texts: dict[str, str | None] = {}
    for column in COLUMNS:
        value = cells.get(names.get(column, column))
        if column == "label" and isinstance(value, bool | int | float):
            value = json.dumps(value)
        if not isinstance(value, str | None):
            raise ParseError(path, line, f"{column} {shown(json.dumps(value))}", "a string")
        if value is not None and _SURROGATE.search(value):
            raise ParseError(path, line, f"half a character in {shown(value)}", "Unicode text")
        texts[column] = value if value and value.strip() else None
    return texts


def _row(path: Path, line: int, ordinal: int, texts: Mapping[str, str | None]) -> Row:
    text = texts["text"]
    if text is None:
        raise ParseError(path, line, "an empty text", "at least one word")
    return Row(ordinal, line, text, texts["text_pair"], texts["label"], texts["target"])


def _parsed(rows: Sequence[Row]) -> Iterator[Sentence]:
    firsts = _annotated([row.text for row in rows])
    seconds = iter(_annotated([row.text_pair for row in rows if row.text_pair]))
    targets = iter(_annotated([row.target for row in rows if row.target]))
    for row, first in zip(rows, firsts, strict=True):
        whole = _joined([first, next(seconds)]) if row.text_pair else first
        yield replace(
            _placed(whole, row),
            n_first=len(first.words) if row.text_pair else None,
            label=row.label,
            target=_placed(next(targets), row) if row.target else None,
        )


def _placed(sentence: Sentence, row: Row) -> Sentence:
    number = row.ordinal
    return replace(sentence, sent_id=str(number + 1), ordinal=number, unit=number, line=row.line)


def _annotated(texts: Sequence[str]) -> list[Sentence]:
    """Every text, parsed, as one sentence."""
    blocks = []
    for text in texts:
        block = Block()
        block.add(text, 1)
        blocks.append(block.cut())
    parsed = iter(parse(chain.from_iterable(blocks)))
    return [_joined(list(chain.from_iterable(islice(parsed, len(parts))))) for parts in blocks]


def _joined(sentences: Sequence[Sentence]) -> Sentence:
    """One sentence with the words of all; heads go on naming the same words."""
    starts = accumulate((len(sentence.words) for sentence in sentences), initial=0)
    return replace(
        sentences[0],
        words=tuple(word for sentence in sentences for word in sentence.words),
        heads=tuple(
            head and head + start
            for sentence, start in zip(sentences, starts, strict=False)
            for head in sentence.heads
        ),
        relations=tuple(name for sentence in sentences for name in sentence.relations),
        upos=tuple(tag for sentence in sentences for tag in sentence.upos),
    )
