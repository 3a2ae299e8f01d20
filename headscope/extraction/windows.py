"""Documents cut into windows of whole sentences, as long as the model takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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
        aligner = Aligner(encoder.tokenizer)
        room = _Room(aligner, length - _n_special(encoder))
        measured = _measured(corpus.read(), aligner, encoder.n_ids)
        one = corpus.unit != "document"
        for ordinal, group in enumerate(_packed(measured, room, windows.stride, one)):
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


def _n_special(encoder: Encoder) -> int:
    """Tokens beside those of words; a decoder's first one replaces the end token, if any."""
    special = encoder.tokenizer.encode("a").special_tokens_mask
    added = encoder.has_target and encoder.start_id is not None and not special[-1]
    return sum(special) + int(added)


@dataclass(frozen=True)
class _Room:
    """What a window has for the pieces of its words."""

    aligner: Aligner
    size: int

    def n_leading(self, texts: Sequence[Sequence[str]]) -> int:
        """How many of the first texts fit in together; the first one counts in any case.

        Sizes of single texts do not tell: after a space the same word may have more pieces than at
        the start, or one piece with its neighbour.
        """

        def overflows(n: int) -> bool:
            (pieces,) = self.aligner.align([[word for text in texts[:n] for word in text]])
            return pieces is None or int((~pieces.special).sum()) > self.size

        n = len(texts)
        if n == 1 or not overflows(n):
            return n
        return bisect_left(range(2, n), True, key=overflows) + 1


@dataclass(frozen=True)
class _Measured:
    """A sentence and the number of pieces of each of its words, as it is cut alone."""

    sentence: Sentence
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.sizes)


def _measured(sentences: Iterable[Sentence], aligner: Aligner, n_ids: int) -> Iterator[_Measured]:
    stream = iter(sentences)
    while some := list(islice(stream, _READ_AHEAD)):
        cut = aligner.align([sentence.words for sentence in some])
        for sentence, pieces in zip(some, cut, strict=True):
            if pieces is None or pieces.ids.max(initial=0) >= n_ids:
                # What cannot be observed alone is a window alone, and is left out by name later.
                yield _Measured(sentence, (10**9,))
                continue
            counts = [0] * len(sentence.words)
            for word in pieces.word_of[~pieces.special].tolist():
                counts[word] += 1
            yield _Measured(sentence, tuple(counts))


@dataclass(frozen=True)
class _Group:
    """The sentences of a window, the first `n_context` of which were scored before."""

    sentences: tuple[Sentence, ...]
    n_context: int = 0


def _packed(
    measured: Iterable[_Measured], room: _Room, stride: int, one_document: bool
) -> Iterator[_Group]:
    stream = iter(measured)
    again: list[_Measured | None] = []  # read, and not in a window yet; the next one is the last
    held: list[_Measured] = []
    n_context = 0
    while True:
        item = again.pop() if again else next(stream, None)
        new = (
            item is not None
            and bool(held)
            and not one_document
            and held[-1].sentence.unit != item.sentence.unit
        )
        full = item is None or new or sum(one.size for one in held) + item.size > room.size
        if full and len(held) > n_context:
            held, n_context, rest = _fitting(held, n_context, room)
            yield _Group(tuple(one.sentence for one in held), n_context)
            again += [item, *reversed(rest)]
            following = again[-1]
            if following is None or (new and not rest):
                held = []
            else:
                held = _repeated(held, stride, room.size - following.size)
            n_context = len(held)
        elif item is None:
            return
        elif item.size > room.size:
            yield from (_Group((part,)) for part in _parts(item, room))
            held, n_context = [], 0
        else:
            held.append(item)


def _fitting(
    held: list[_Measured], n_context: int, room: _Room
) -> tuple[list[_Measured], int, list[_Measured]]:
    """What really fits, how many sentences of it are context, and what is left over.

    Context gives way, the oldest first, where it would leave no room for anything new.
    """
    while (n := room.n_leading([one.sentence.words for one in held])) <= n_context:
        held, n_context = held[1:], n_context - 1
    return held[:n], n_context, held[n:]


def _repeated(held: list[_Measured], stride: int, room: int) -> list[_Measured]:
    """The last sentences of a window, as many as the stride says and there is room for."""
    kept: list[_Measured] = []
    for item in reversed(held[len(held) - min(stride, len(held)) :]):
        if sum(one.size for one in kept) + item.size > room:
            break
        kept.insert(0, item)
    return kept


def _parts(item: _Measured, room: _Room) -> Iterator[Sentence]:
    """A sentence that is longer than a window, cut between words."""
    words, n_words = item.sentence.words, len(item.sizes)
    if n_words != len(words):
        yield item.sentence
        return
    start = 0
    while start < n_words:
        stop, used = start + 1, item.sizes[start]
        while stop < n_words and used + item.sizes[stop] <= room.size:
            used += item.sizes[stop]
            stop += 1
        stop = start + room.n_leading([(word,) for word in words[start:stop]])
        yield _part(item.sentence, start, stop)
        start = stop


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
