"""Examples of a task, read from its files; every fault is told with file and line."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headscope.datasets.files import check_file, fingerprint, lines, shown
from headscope.datasets.tables import json_row, no_column, numbered_lines, tsv_row
from headscope.datasets.tasks import Task
from headscope.errors import InputError, ParseError

UNLABELLED = ("-1", "", "-")
"""Labels of public test sets, and of items on which annotators did not agree."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example.

    Attributes:
        text: the only text, or the first.
        text_pair: the second, if there is one.
        label: place of the label, or a score; None where the file gives none.
        line: 1-based number of its line or, in a JSON array, of its item.
    """

    text: str
    text_pair: str | None
    label: float | int | None
    line: int


@dataclass(frozen=True)
class Split:
    """Examples of one file.

    Attributes:
        name: of the file.
        sha256: of the file, before any cut.
        examples: in the order of the file.
        labels: names of the labels by place; empty for regression.
        n_unlabelled: rows without a label, which are in `examples` as well.
        note: whether it is cut.
    """

    name: str
    sha256: str
    examples: tuple[Example, ...]
    labels: tuple[str, ...] = ()
    n_unlabelled: int = 0
    note: str = ""

    def cut(self, limit: int | None) -> Split:
        """The first so many examples."""
        if limit is None or limit >= len(self.examples):
            return self
        kept = self.examples[:limit]
        unlabelled = sum(example.label is None for example in kept)
        note = f"the first {limit:,} of {len(self.examples):,} examples"
        return replace(self, examples=kept, n_unlabelled=unlabelled, note=note)

    @property
    def labelled(self) -> tuple[Example, ...]:
        """Those that can be trained and scored on."""
        return tuple(example for example in self.examples if example.label is not None)


def find_file(task: Task, folder: Path, split: str) -> Path:
    """The file of a split in a folder.

    Raises:
        InputError: none of the names that such files have.
    """
    names = task.files[split]
    found = [folder / name for name in (*names, *(f"{name}.gz" for name in names))]
    for path in found:
        if path.is_file():
            return path
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    listed = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
    raise InputError(
        f"{folder}: found {listed or 'no such folder'}; expected {names[0]} (or .jsonl, .json, "
        f".csv) for the {split} split of {task.name}; name the file: --{split} FILE"
    )


def read_split(
    task: Task, path: Path, labels: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Split:  # fmt: skip
    """All examples of a file.

    Args:
        task: whose labels are known, or told by the training data.
        path: TSV, JSON lines or a JSON array.
        labels: those of the training data, for the other splits of a task that names none.
        columns: what the file calls `text`, `text_pair` and `label`, where it has other names.

    Raises:
        ParseError: a broken row, a missing column, an unknown label, a score out of bounds, or no
            row at all.
    """
    check_file(path)
    rows = list(_rows(task, path))
    if not rows:
        raise ParseError(path, 1, "no example", f"rows of {task.name} below the header")
    names = _names(task, path, rows[0], columns)
    known = task.labels or labels
    if task.kind == "classification" and known is None:
        known = _labels(path, rows, names["label"])
    reader = _Reader(task, path, names, {name: place for place, name in enumerate(known or ())})
    examples = tuple(reader.example(line, cells) for line, cells in rows)
    unlabelled = sum(example.label is None for example in examples)
    told = tuple(known or ()) if task.kind == "classification" else ()
    return Split(path.name, fingerprint(path), examples, told, unlabelled)


_Cells = tuple[int, dict[str, Any]]


def _rows(task: Task, path: Path) -> Iterator[_Cells]:
    numbered = numbered_lines(path)
    number, first = next(numbered, (1, ""))
    start = first.lstrip()
    if start.startswith("["):
        yield from _array(path)
    elif start.startswith("{"):
        yield number, json_row(path, number, first)
        for line, text in numbered:
            yield line, json_row(path, line, text)
    else:
        header = first.split("\t")
        if task.header is not None and len(header) == len(task.header) and "label" not in header:
            header = list(task.header)
            yield number, tsv_row(path, number, first, header)
        for line, text in numbered:
            yield line, tsv_row(path, line, _fitted(task, text, header), header)


def _fitted(task: Task, text: str, header: Sequence[str]) -> str:
    """The line with as many cells as the header; SNLI's have one for each annotator, gold last."""
    cells = text.split("\t")
    if not task.gold_last or len(cells) <= len(header):
        return text
    return "\t".join([*cells[: len(header) - 1], cells[-1]])


def _array(path: Path) -> Iterator[_Cells]:
    try:
        found = json.loads("".join(lines(path)).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        what = f"broken JSON (column {error.colno}: {error.msg})"
        raise ParseError(path, error.lineno, what, "a JSON array of objects") from None
    for number, item in enumerate(found, 1):
        if not isinstance(item, dict):
            what = f"item {number}, {shown(json.dumps(item))}"
            raise ParseError(path, None, what, "a JSON array of objects")
        yield number, item


def _names(
    task: Task, path: Path, first: _Cells, columns: Mapping[str, str] | None
) -> dict[str, str]:
    """What the file calls `text`, `text_pair` and `label`."""
    line, cells = first
    given = dict(columns or {})
    rows = [{**names, **given} for names in task.columns]
    for names in rows:
        if all(name in cells for name in names.values()):
            return names
    wanted = max(rows, key=lambda names: sum(name in cells for name in names.values()))
    missing = next(name for name in wanted.values() if name not in cells)
    expected = f"{', '.join(wanted.values())} for {task.name}"
    raise no_column(path, 1 if line == 2 else line, missing, list(cells), expected)


def _labels(path: Path, rows: Sequence[_Cells], column: str) -> tuple[str, ...]:
    found = sorted({_text_of(cells[column]) for _, cells in rows} - set(UNLABELLED))
    if len(found) < 2:
        raise ParseError(
            path, None, f"{len(found)} label in column '{column}'", "two or more in training data"
        )
    return tuple(found)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class _Reader:
    """How rows of one file become examples."""

    task: Task
    path: Path
    names: Mapping[str, str]
    places: Mapping[str, int]

    def example(self, line: int, cells: Mapping[str, Any]) -> Example:
        text = self._text(line, cells, "text")
        pair = self._text(line, cells, "text_pair") if "text_pair" in self.names else None
        name = self.names["label"]
        if name not in cells:
            raise self._error(line, f"no '{name}'", "a label in every row")
        label = _text_of(cells[name]).strip()
        read = self._score if self.task.kind == "regression" else self._place
        return Example(text, pair, read(line, label), line)

    def _text(self, line: int, cells: Mapping[str, Any], column: str) -> str:
        name = self.names[column]
        value = cells.get(name)
        if not isinstance(value, str) or not value.strip():
            what = f"an empty '{name}'" if isinstance(value, str) else f"no text in '{name}'"
            raise self._error(line, what, "at least one word")
        return value

    def _place(self, line: int, label: str) -> int | None:
        if label in UNLABELLED:
            return None
        name = self.task.aliases.get(label, label)
        if name not in self.places:
            also = [alias for alias in self.task.aliases if alias not in self.places]
            known = ", ".join([*self.places, *also])
            raise self._error(line, f"label {shown(label)}", f"one of {known}")
        return self.places[name]

    def _score(self, line: int, label: str) -> float | None:
        if label == "-1" and self.task.bounds is not None:
            return None
        low, high = self.task.bounds or (-math.inf, math.inf)
        expected = f"a number from {low:g} to {high:g}" if self.task.bounds else "a number"
        try:
            score = float(label)
        except ValueError:
            raise self._error(line, f"score {shown(label)}", expected) from None
        if not (low <= score <= high and math.isfinite(score)):
            raise self._error(line, f"score {shown(label)}", expected)
        return score

    def _error(self, line: int, found: str, expected: str) -> ParseError:
        return ParseError(self.path, line, found, expected)


def refuse_other_labels(train: Split, other: Split) -> None:
    """Refuses splits of a task whose labels are told by the data, when they are not the same.

    Raises:
        InputError: a training label that the other split has nowhere; it could not be scored.
    """
    seen = {other.labels[int(e.label)] for e in other.examples if e.label is not None}
    missing = [label for label in train.labels if label not in seen]
    if seen and missing:
        raise InputError(
            f"{other.name}: found no example of {', '.join(missing)}; expected the labels of "
            f"{train.name}: {', '.join(train.labels)}"
        )


def fingerprint_of(splits: Sequence[Split]) -> str:
    """SHA-256 over the files of several splits and their cuts."""
    told = "\n".join(f"{split.name} {split.sha256} {len(split.examples)}" for split in splits)
    return hashlib.sha256(told.encode()).hexdigest()
