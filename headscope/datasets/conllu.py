"""CoNLL-U treebanks: read one sentence at a time, checked, and written back byte for byte."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TextIO

from headscope.datasets.files import check_file, lines, shown
from headscope.datasets.sentences import Sentence
from headscope.datasets.trees import tree_fault
from headscope.errors import ParseError

Row = tuple[str, ...]
"""The ten columns of a line: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC."""

ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)
N_COLUMNS = 10

_BLANK = " \t\r\n"
_NEWDOC = re.compile(r"#\s*newdoc(?![\w-])")
_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*$")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_EMPTY_NODE = re.compile(r"[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True)
class ConlluSentence:
    """One sentence of a CoNLL-U file with everything needed to write it back unchanged.

    Attributes:
        comments: the comment lines before the words, `#` included.
        rows: ten columns a line, for words, ranges such as `3-4` and empty nodes such as `8.1`.
        line: 1-based number of the line on which the sentence begins.
        ordinal: 0-based number of the sentence in the file, broken ones counted.
        document: 0-based number of its document in the file; 0 where none are marked.
        before: what stands in the file ahead of its first sentence, such as a byte-order mark.
        after: what stands between the last row and the next sentence: empty lines as a rule.
        ends: the end of each comment and row; left empty where all are line feeds.
    """

    comments: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int = 1
    ordinal: int = 0
    document: int = 0
    before: str = ""
    after: str = "\n"
    ends: tuple[str, ...] = ()

    @property
    def sent_id(self) -> str:
        """The name in `# sent_id`, else the 1-based number of the sentence in the file."""
        found = filter(None, map(_SENT_ID.match, self.comments))
        return next((match[1] for match in found if match[1]), str(self.ordinal + 1))

    @property
    def words(self) -> tuple[Row, ...]:
        """The rows of syntactic words: those with an integer ID."""
        return tuple(row for row in self.rows if row[ID].isdigit())

    @property
    def tokens(self) -> tuple[str, ...]:
        """The surface tokens: a range stands for the words it covers (zum, not zu + dem)."""
        tokens, covered = [], 0
        for row in self.rows:
            span = _RANGE.fullmatch(row[ID])
            if span:
                covered = int(span[2])
            if span or (row[ID].isdigit() and int(row[ID]) > covered):
                tokens.append(row[FORM])
        return tuple(tokens)

    def to_text(self) -> str:
        """The sentence as it stands in the file, empty lines around it included."""
        body = [*self.comments, *("\t".join(row) for row in self.rows)]
        ends = self.ends or ("\n",) * len(body)
        inner = "".join(text + end for text, end in zip(body, ends, strict=True))
        return f"{self.before}{inner}{self.after}"

    def to_sentence(self, ordinal: int, unit: int) -> Sentence:
        """Its syntactic words with HEAD and DEPREL; enhanced dependencies (DEPS) are not used."""
        words = self.words
        return Sentence(
            words=tuple(row[FORM] for row in words),
            heads=tuple(int(row[HEAD]) for row in words),
            relations=tuple(row[DEPREL] for row in words),
            upos=tuple(row[UPOS] for row in words),
            sent_id=self.sent_id,
            ordinal=ordinal,
            unit=unit,
            line=self.line,
        )

    @classmethod
    def from_sentence(cls, sentence: Sentence) -> ConlluSentence:
        """The same words as CoNLL-U rows; what a `Sentence` does not hold is `_`."""
        columns = (sentence.words, sentence.upos, sentence.heads, sentence.relations)
        return cls(
            comments=(f"# sent_id = {sentence.sent_id}",),
            rows=tuple(
                (str(number), form, "_", upos, "_", "_", str(head), relation, "_", "_")
                for number, (form, upos, head, relation) in enumerate(zip(*columns, strict=True), 1)
            ),
            line=sentence.line,
            ordinal=sentence.ordinal,
        )


def read_conllu(
    path: str | Path, *, skip_bad: bool = False, skipped: list[str] | None = None
) -> Iterator[ConlluSentence]:
    """The sentences of a CoNLL-U file (gzip where it ends in `.gz`), each checked to be a tree.

    Args:
        path: the file.
        skip_bad: leave broken sentences out instead of raising ParseError at the first.
        skipped: receives one message for each sentence left out.
    """
    path = Path(path)
    check_file(path)
    document = 0
    for ordinal, block in enumerate(_blocks(path)):
        document += block.opens_document and ordinal > 0
        try:
            sentence = _parse(path, block, ordinal)
        except ParseError as error:
            if not skip_bad:
                raise
            if skipped is not None:
                skipped.append(str(error))
        else:
            yield replace(sentence, document=document)


def write_conllu(sentences: Iterable[ConlluSentence], target: str | Path | TextIO) -> None:
    """Writes sentences so that what `read_conllu` gave comes out byte for byte.

    A path is written under a temporary name first and renamed at the end, so that a half-written
    file never stands there; `.gz` compresses. A text stream must not translate line ends.
    """
    if not isinstance(target, str | Path):
        target.writelines(sentence.to_text() for sentence in sentences)
        return
    path = Path(target).resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as raw:
            if path.suffix == ".gz":
                # no name and no time inside, so that equal sentences give equal bytes
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    _write(sentences, packed.write)
            else:
                _write(sentences, raw.write)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def is_row(text: str) -> bool:
    """Whether a line looks like CoNLL-U: ten columns, a proper ID, a number or `_` as HEAD."""
    row = text.rstrip("\r\n").split("\t")
    if len(row) != N_COLUMNS:
        return False
    known = row[ID].isdigit() or _RANGE.fullmatch(row[ID]) or _EMPTY_NODE.fullmatch(row[ID])
    return bool(known) and (row[HEAD] == "_" or row[HEAD].lstrip("-").isdigit())


def is_blank(text: str) -> bool:
    """Whether a line is empty but for spaces and tabs, which ends a sentence."""
    return not text.strip(_BLANK)


def opens_document(comment: str) -> bool:
    """Whether a comment is `# newdoc`, with or without a name."""
    return _NEWDOC.match(comment) is not None


def _write(sentences: Iterable[ConlluSentence], write: Callable[[bytes], object]) -> None:
    for sentence in sentences:
        write(sentence.to_text().encode("utf-8"))


@dataclass(slots=True)
class _Block:
    """The lines of one sentence, not yet looked at."""

    line: int
    lines: list[str]
    opens_document: bool
    before: str = ""
    after: str = ""


def _blocks(path: Path) -> Iterator[_Block]:
    waiting: _Block | None = None  # for the empty lines that follow it
    gap: list[str] = []
    number, orphan_newdoc = 1, False
    for blank, group in groupby(_unmarked(path, gap), is_blank):
        chunk = list(group)
        comments = [] if blank else [text for text in chunk if text.startswith("#")]
        newdoc = any(map(opens_document, comments))
        if blank or len(comments) == len(chunk):  # comments without words belong to the gap
            gap.extend(chunk)
            orphan_newdoc |= newdoc
        else:
            block = _Block(number, chunk, newdoc or orphan_newdoc)
            if waiting is None:
                block.before = "".join(gap)
            else:
                waiting.after = "".join(gap)
                yield waiting
            waiting, gap, orphan_newdoc = block, [], False
        number += len(chunk)
    if waiting is None:
        raise ParseError(path, 1, "no sentence (comments or empty lines only)", "CoNLL-U sentences")
    waiting.after = "".join(gap)
    yield waiting


def _unmarked(path: Path, gap: list[str]) -> Iterator[str]:
    """The lines, the byte-order mark of the first one moved to `gap`."""
    source = lines(path)
    for first in source:
        if first.startswith("\ufeff"):
            gap.append("\ufeff")
        yield first.removeprefix("\ufeff")
        yield from source


def _parse(path: Path, block: _Block, ordinal: int) -> ConlluSentence:
    comments: list[str] = []
    rows: list[Row] = []
    ends: list[str] = []
    for line, raw in enumerate(block.lines, block.line):
        text = raw.removesuffix("\n")
        text = text.removesuffix("\r") if text != raw else text
        ends.append(raw[len(text) :])
        if text.startswith("#"):
            if rows:
                raise ParseError(
                    path, line, "a comment between words", "comments before the first word",
                    "an empty line ends a sentence",
                )  # fmt: skip
            comments.append(text)
            continue
        row = tuple(text.split("\t"))
        if len(row) != N_COLUMNS:
            raise _wrong_columns(path, line, raw, len(row))
        rows.append(row)
    plain = all(end == "\n" for end in ends)
    sentence = ConlluSentence(
        comments=tuple(comments),
        rows=tuple(rows),
        line=block.line,
        ordinal=ordinal,
        before=block.before,
        after=block.after,
        ends=() if plain else tuple(ends),
    )
    _check_tree(path, sentence, _check_ids(path, sentence))
    return sentence


def _wrong_columns(path: Path, line: int, raw: str, n_columns: int) -> ParseError:
    todo = ""
    if n_columns == 1:
        todo = "columns are separated by tabs, not spaces; for running text use --format text"
    elif not raw.endswith("\n"):
        todo = "the file stops in the middle of a line: download it again"
    columns = f"{n_columns} tab-separated column{'s' if n_columns > 1 else ''}"
    found = f"{columns}, no CoNLL-U line: {shown(raw.rstrip(_BLANK))}"
    return ParseError(path, line, found, f"{N_COLUMNS} columns", todo)


def _check_ids(path: Path, sentence: ConlluSentence) -> list[int]:
    """The line number of each word, once the IDs are known to be in order."""
    places: list[int] = []
    last_covered, range_line = 0, 0
    for line, row in enumerate(sentence.rows, sentence.line + len(sentence.comments)):
        number = row[ID]
        if number == str(len(places) + 1):
            if not row[FORM]:
                raise ParseError(path, line, f"an empty FORM of word {number}", "a word form")
            places.append(line)
            continue
        span = _RANGE.fullmatch(number)
        if span:
            first, last = int(span[1]), int(span[2])
            if first != len(places) + 1 or last < first or first <= last_covered:
                raise ParseError(
                    path, line, f"the range {number}, which is not valid here",
                    f"a range that begins with word {len(places) + 1}, the next one",
                )  # fmt: skip
            last_covered, range_line = last, line
        elif not _EMPTY_NODE.fullmatch(number):
            raise ParseError(
                path, line, f"ID {shown(number)}", f"ID {len(places) + 1}, the next word",
                "IDs count 1, 2, 3 ... in each sentence; an empty line ends it",
            )  # fmt: skip
    if not places:
        raise ParseError(path, sentence.line, "a sentence without words", "at least one word")
    if last_covered > len(places):
        raise ParseError(
            path, range_line, f"a range that runs to word {last_covered}, past the sentence's end",
            f"a range within 1 to {len(places)}",
        )  # fmt: skip
    return places


def _check_tree(path: Path, sentence: ConlluSentence, places: Sequence[int]) -> None:
    name = f"in sentence {shown(sentence.sent_id, 80)}"
    heads = []
    for number, (line, row) in enumerate(zip(places, sentence.words, strict=True), 1):
        problem = _head_fault(row[HEAD], number, len(places))
        if problem:
            expected = f"0 for the root or the number of another word, at most {len(places)}"
            raise ParseError(path, line, f"{problem} {name}", expected)
        heads.append(int(row[HEAD]))
    fault = tree_fault(heads)
    if fault:
        where = [places[word - 1] for word in fault.words]
        raise ParseError(
            path, where[0], f"{fault.found} ({_spots(where)}) {name}",
            "a tree with one root (HEAD 0)", "correct it, or leave it out with --skip-bad",
        )  # fmt: skip


def _head_fault(head: str, number: int, n_words: int) -> str | None:
    if head == "_":
        return f"no dependency annotation (HEAD _ of word {number})"
    if not (head.isascii() and head.removeprefix("-").isdigit()):
        return f"HEAD {shown(head)}, which is not a number,"
    if head.startswith("-") or len(head) > len(str(n_words)) or int(head) > n_words:
        return f"HEAD {head[:12]}, which is no word of the sentence,"
    if int(head) == number:
        return f"word {number} as its own head"
    return None


def _spots(places: Sequence[int]) -> str:
    """Line numbers in words: `line 5`, `lines 10-12`, `lines 1, 3, 5 and 2 more`."""
    if len(places) == 1:
        return f"line {places[0]}"
    if len(places) == places[-1] - places[0] + 1:
        return f"lines {places[0]}-{places[-1]}"
    if len(places) > 4:
        return f"lines {', '.join(map(str, places[:3]))} and {len(places) - 3} more"
    return f"lines {', '.join(map(str, places[:-1]))} and {places[-1]}"
