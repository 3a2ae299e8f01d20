"""Sentences in, padded batches of similar length out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from headscope.datasets import Sentence
from headscope.extraction.encoder import Encoder
from headscope.extraction.words import NO_WORD, Aligner, Pieces

WINDOW = 2048
"""Sentences read ahead to be sorted by length; bounds memory, whatever the corpus."""

BATCH_TOKENS = 1024
"""Tokens, padding included, that one batch holds at most (a single longer sentence is a batch)."""


@dataclass(frozen=True)
class Batch:
    """Sentences of similar length, padded on the right.

    Attributes:
        sentences: B of them.
        pieces: how each was cut.
        input_ids, type_ids: [B, T].
        valid: [B, T] True at tokens, False at padding.
        special: [B, T] True at special tokens.
        word_of: [B, T] word of each piece, `NO_WORD` at special tokens and padding.
        target: what a decoder reads, for the same sentences; None where there is no decoder beside
            an encoder.
        cross: whether the keys that the target's tokens attend to are those of this batch, and not
            their own.
    """

    sentences: tuple[Sentence, ...]
    pieces: tuple[Pieces, ...]
    input_ids: Tensor
    type_ids: Tensor
    valid: Tensor
    special: Tensor
    word_of: Tensor
    target: Batch | None = None
    cross: bool = False

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.sentences)

    @property
    def queries(self) -> Batch:
        """Whose tokens are the queries of the attention that is observed."""
        return self if self.target is None else self.target

    @property
    def keys(self) -> Batch:
        """Whose tokens are the keys."""
        return self if self.target is None or self.cross else self.target

    @cached_property
    def n_tokens(self) -> Tensor:
        """[B] tokens of each sentence, padding left out."""
        return self.valid.sum(1)

    @cached_property
    def n_words(self) -> int:
        """W, the number of words of the longest sentence."""
        return max(pieces.n_words for pieces in self.pieces)


@dataclass
class Tally:
    """What went into the batches and what was left out, counted as it streams by."""

    n_sentences: int = 0
    n_words: int = 0
    n_tokens: int = 0
    n_pieces: int = 0
    n_unknown: int = 0
    n_unknown_words: int = 0
    units: set[int] = field(default_factory=set)
    skipped: dict[str, int] = field(
        default_factory=lambda: {"too_long": 0, "misaligned": 0, "words_without_pieces": 0}
    )
    left_out: list[str] = field(default_factory=list)

    def add(self, sentence: Sentence, pieces: Pieces, unk_id: int | None) -> None:
        """Counts a sentence that goes into a batch."""
        self.n_sentences += 1
        self.n_words += pieces.n_words
        self.n_tokens += len(pieces.ids)
        self.n_pieces += int((~pieces.special).sum())
        unknown = pieces.word_of[(pieces.ids == unk_id) & ~pieces.special]
        self.n_unknown += len(unknown)
        self.n_unknown_words += len(np.unique(unknown))
        self.units.add(sentence.unit)
        self.skipped["words_without_pieces"] += int((~pieces.has_piece).sum())

    def leave_out(self, reason: str, sentence: Sentence, detail: str) -> None:
        """Counts a sentence that cannot be observed and notes which one it is."""
        self.skipped[reason] += 1
        if len(self.left_out) < 20:
            self.left_out.append(
                f"sentence {sentence.sent_id} (line {sentence.line}, {len(sentence.words)} words) "
                f"was left out: {detail}"
            )

    @property
    def unk_rate(self) -> float:
        """Share of pieces, special tokens left out, that are the unknown token."""
        return self.n_unknown / self.n_pieces if self.n_pieces else 0.0

    @property
    def unk_word_rate(self) -> float:
        """Share of words that hold an unknown token."""
        return self.n_unknown_words / self.n_words if self.n_words else 0.0

    @property
    def pieces_per_word(self) -> float:
        """Mean number of pieces of a word; high where a tokenizer spells words out."""
        return self.n_pieces / self.n_words if self.n_words else 0.0


def batches(
    encoder: Encoder,
    sentences: Iterable[Sentence],
    *,
    tally: Tally | None = None,
    batch_tokens: int = BATCH_TOKENS,
    max_map_tokens: int | None = None,
    takes: Callable[[int, int], bool] | None = None,
) -> Iterator[Batch]:
    """Batches of similar length, in an order that depends on the sentences alone.

    Sentences longer than the model takes or than `max_map_tokens`, and those whose pieces cannot be
    aligned with their words, are left out and counted in `tally`. Memory is bounded by `WINDOW`
    sentences. `takes` says of each batch, by the number of sentences and the tokens of the longest,
    whether it is made; all sentences are counted.
    """
    tally = Tally() if tally is None else tally
    aligner = Aligner(encoder.tokenizer)
    stream = iter(sentences)
    while window := list(islice(stream, WINDOW)):
        kept: list[tuple[Sentence, Pieces]] = []
        aligned = aligner.align([sentence.words for sentence in window])
        for sentence, pieces in zip(window, aligned, strict=True):
            if pieces is None:
                tally.leave_out("misaligned", sentence, "its pieces do not fit its words")
            elif not len(pieces.ids):
                tally.leave_out("misaligned", sentence, "its words have no piece at all")
            elif pieces.ids.max() >= encoder.n_ids:
                # The text of a pad token that was added without a row of its own.
                tally.leave_out("misaligned", sentence, "it holds a token without a vector")
            elif encoder.max_length is not None and len(pieces.ids) > encoder.max_length:
                limit = f"{len(pieces.ids)} tokens, and the model takes {encoder.max_length}"
                tally.leave_out("too_long", sentence, limit)
            elif max_map_tokens is not None and len(pieces.ids) > max_map_tokens:
                limit = f"{len(pieces.ids)} tokens, and whole maps are kept up to {max_map_tokens}"
                tally.leave_out("too_long", sentence, limit)
            else:
                tally.add(sentence, pieces, encoder.unk_id)
                kept.append((sentence, pieces))
        kept.sort(key=lambda item: -len(item[1].ids))
        groups = _groups(kept, batch_tokens, encoder.equal_lengths)
        for group in groups:
            if takes is None or takes(len(group), len(group[0][1].ids)):
                yield collate(encoder, group)


def _groups(
    kept: list[tuple[Sentence, Pieces]], batch_tokens: int, equal_lengths: bool
) -> Iterator[list[tuple[Sentence, Pieces]]]:
    """Sentences of falling length, cut into groups; `equal_lengths`: without any padding."""
    start = 0
    while start < len(kept):
        length = len(kept[start][1].ids)
        group = kept[start : start + max(1, batch_tokens // length)]
        if equal_lengths:
            group = [item for item in group if len(item[1].ids) == length]
        yield group
        start += len(group)


def collate(
    encoder: Encoder,
    group: Sequence[tuple[Sentence, Pieces]],
    targets: Sequence[tuple[Sentence, Pieces]] | None = None,
) -> Batch:
    """One batch, on the device of the encoder, and beside it what a decoder reads, if any."""
    length = max(len(pieces.ids) for _, pieces in group)
    shape = (len(group), length)
    ids = np.full(shape, encoder.pad_id, dtype=np.int64)
    types = np.zeros(shape, dtype=np.int64)
    valid = np.zeros(shape, dtype=bool)
    special = np.zeros(shape, dtype=bool)
    word_of = np.full(shape, NO_WORD, dtype=np.int64)
    for row, (_, pieces) in enumerate(group):
        n_tokens = len(pieces.ids)
        ids[row, :n_tokens] = pieces.ids
        types[row, :n_tokens] = pieces.type_ids
        valid[row, :n_tokens] = True
        special[row, :n_tokens] = pieces.special
        word_of[row, :n_tokens] = pieces.word_of
    tensors = [
        torch.from_numpy(array).to(encoder.device)
        for array in (ids, types, valid, special, word_of)
    ]
    sentences = tuple(sentence for sentence, _ in group)
    return Batch(
        sentences,
        tuple(pieces for _, pieces in group),
        *tensors,
        target=collate(encoder, targets) if targets else None,
        cross=encoder.info.attention == "cross",
    )
