"""Documents cut into windows of whole sentences, as long as the model takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from headscope.datasets import OUTSIDE, Corpus, Sentence
from headscope.errors import HeadscopeError, InputError
from headscope.extraction.encoder import Encoder
from headscope.extraction.observation import MAX_MAP_TOKENS
from headscope.extraction.words import Aligner

_READ_AHEAD = 256
"""Sentences that are tokenized at once."""


@dataclass(frozen=True)
class Windows:
    """How documents are cut.

    Attributes:
        tokens: that a window holds at most, special ones included; None: as many as the model
            takes (1,024 where it numbers no positions, or where whole maps are wanted).
        stride: sentences of a window that are repeated at the start of the next one. They are
            attended to there, and are not scored again.
    """

    tokens: int | None = None
    stride: int = 0

    def __post_init__(self) -> None:
        """Refuses numbers that make no sense."""
        if self.tokens is not None and self.tokens < 3:
            raise HeadscopeError(f"windows of {self.tokens} tokens; expected 3 or more")
        if self.stride < 0:
            raise HeadscopeError(f"a stride of {self.stride} sentences; expected 0 or more")

    def length(self, encoder: Encoder, *, wants_maps: bool) -> int:
        """Tokens that a window of this model holds at most."""
        limits = [encoder.max_length, self.tokens]
        if wants_maps or encoder.route == "maps" or all(limit is None for limit in limits):
            limits.append(MAX_MAP_TOKENS)
        return min(limit for limit in limits if limit is not None)


def windowed(corpus: Corpus, encoder: Encoder, windows: Windows, *, wants_maps: bool) -> Corpus:
    """The same corpus, each of whose sentences is a window of whole ones.

    Windows are packed greedily from the start of a document; where the data mark no documents, the
    file is one, and windows are what intervals resample. A sentence longer than a window is cut
    into several; arcs between them are missing.

    Raises:
        InputError: pairs of texts, which have no documents, or a record, which is cut already.
    """
    if corpus.format == "pairs" or corpus.record is not None:
        what = "a record of attention" if corpus.record else "a table of texts"
        raise InputError(
            f"{corpus.name}: found {what}, whose items are not cut into windows; leave out "
            "--windows"
        )
    length = windows.length(encoder, wants_maps=wants_maps)

    def read() -> Iterator[Sentence]:
        measured = _measured(corpus.read(), Aligner(encoder.tokenizer))
        special = encoder.tokenizer.num_special_tokens_to_add(is_pair=False)
        one = corpus.unit != "document"
        for ordinal, group in enumerate(_packed(measured, length - special, windows.stride, one)):
            joined = _joined(group, ordinal)
            yield replace(joined, unit=ordinal) if one else joined

    cut = f"windows of whole sentences, up to {length:,} tokens"
    cut += f", the last {windows.stride} of each repeated in the next" if windows.stride else ""
    return replace(
        corpus,
        read=read,
        note=f"{corpus.note}; {cut}" if corpus.note else cut,
        unit="document" if corpus.unit == "document" else "window",
        n_sentences=None,
    )


@dataclass(frozen=True)
class _Measured:
    """A sentence and the number of pieces of each of its words."""

    sentence: Sentence
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.sizes)


def _measured(sentences: Iterable[Sentence], aligner: Aligner) -> Iterator[_Measured]:
    stream = iter(sentences)
    while some := list(islice(stream, _READ_AHEAD)):
        cut = aligner.align([sentence.words for sentence in some])
        for sentence, pieces in zip(some, cut, strict=True):
            counts = [0] * len(sentence.words)
            for word in () if pieces is None else pieces.word_of[~pieces.special].tolist():
                counts[word] += 1
            # What cannot be aligned alone is a window alone, and is left out by name later.
            yield _Measured(sentence, tuple(counts) if pieces is not None else (10**9,))


@dataclass(frozen=True)
class _Group:
    """The sentences of a window, the first `n_context` of which were scored before."""

    sentences: tuple[Sentence, ...]
    n_context: int = 0


def _packed(
    measured: Iterable[_Measured], room: int, stride: int, one_document: bool
) -> Iterator[_Group]:
    held: list[_Measured] = []
    n_context = 0
    for item in measured:
        new = bool(held) and not one_document and held[-1].sentence.unit != item.sentence.unit
        if new or sum(one.size for one in held) + item.size > room:
            if len(held) > n_context:
                yield _Group(tuple(one.sentence for one in held), n_context)
            held = [] if new else _repeated(held, stride, room - item.size)
            n_context = len(held)
        if item.size > room:
            yield from (_Group((part,)) for part in _parts(item, room))
            held, n_context = [], 0
        else:
            held.append(item)
    if len(held) > n_context:
        yield _Group(tuple(one.sentence for one in held), n_context)


def _repeated(held: list[_Measured], stride: int, room: int) -> list[_Measured]:
    """The last sentences of a window, as many as the stride says and there is room for."""
    kept: list[_Measured] = []
    for item in reversed(held[len(held) - min(stride, len(held)) :]):
        if sum(one.size for one in kept) + item.size > room:
            break
        kept.insert(0, item)
    return kept


def _parts(item: _Measured, room: int) -> Iterator[Sentence]:
    """A sentence that is longer than a window, cut between words."""
    if len(item.sizes) != len(item.sentence.words):
        yield item.sentence
        return
    start, used = 0, 0
    for word, size in enumerate(item.sizes):
        if word > start and used + size > room:
            yield _part(item.sentence, start, word)
            start, used = word, 0
        used += size
    yield _part(item.sentence, start, len(item.sizes))


def _part(sentence: Sentence, start: int, stop: int) -> Sentence:
    def moved(head: int) -> int:
        if head == 0:
            return 0
        return head - start if start < head <= stop else OUTSIDE

    return replace(
        sentence,
        words=sentence.words[start:stop],
        heads=tuple(moved(head) for head in sentence.heads[start:stop]),
        relations=sentence.relations[start:stop],
        upos=sentence.upos[start:stop],
        n_sentences=int(start == 0),
    )


def _joined(group: _Group, ordinal: int) -> Sentence:
    """The sentences as one, whose heads still name the same words."""
    first, last = group.sentences[group.n_context], group.sentences[-1]
    heads: list[int] = []
    for sentence in group.sentences:
        start = len(heads)
        heads += [head + start if head > 0 else head for head in sentence.heads]
    context = group.sentences[: group.n_context]
    name = first.sent_id if first is last else f"{first.sent_id} to {last.sent_id}"
    return replace(
        first,
        words=tuple(word for sentence in group.sentences for word in sentence.words),
        heads=tuple(heads),
        relations=tuple(label for sentence in group.sentences for label in sentence.relations),
        upos=tuple(tag for sentence in group.sentences for tag in sentence.upos),
        sent_id=name,
        ordinal=ordinal,
        n_context=sum(len(sentence.words) for sentence in context),
        n_sentences=sum(s.n_sentences for s in group.sentences[group.n_context :]),
    )
