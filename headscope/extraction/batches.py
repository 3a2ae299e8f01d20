"""Sentences in, padded batches of similar length out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headscope.datasets import Sentence
from headscope.errors import InputError, ModelError
from headscope.extraction.encoder import Encoder
from headscope.extraction.words import NO_WORD, Aligner, Pieces

WINDOW = 2048
"""Sentences read ahead to be sorted by length; bounds memory, whatever the corpus."""

BATCH_TOKENS = 1024
"""Tokens, padding included, that one batch holds at most (a single longer sentence is a batch)."""

Target = Literal["column", "copy"]
"""What a decoder beside an encoder reads: the target that the data have, or the sentence itself."""

_Item = list[tuple[Sentence, Pieces]]
"""A sentence, and its target where there is one."""


class _LeftOut(Exception):
    """A sentence that cannot be observed: which count it goes into, and why."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


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
        segment_of: [B, T] 0 at pieces of the first text, 1 of the second, `NO_WORD` elsewhere.
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
    segment_of: Tensor
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
    def scored(self) -> Tensor:
        """[B, T] True at the tokens whose rows count: all but padding and repeated context."""
        n_context = [sentence.n_context for sentence in self.sentences]
        if not any(n_context):
            return self.valid
        known = torch.tensor(n_context, device=self.valid.device).unsqueeze(1)
        return self.valid & ((self.word_of >= known) | (self.word_of == NO_WORD))

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
        """Counts a sentence that goes into a batch, or its target where that has the queries."""
        new = pieces.special | (pieces.word_of >= sentence.n_context)
        self.n_sentences += sentence.n_sentences
        self.n_words += pieces.n_words - sentence.n_context
        self.n_tokens += int(new.sum())
        self.n_pieces += int((new & ~pieces.special).sum())
        unknown = pieces.word_of[(pieces.ids == unk_id) & new & ~pieces.special]
        self.n_unknown += len(unknown)
        self.n_unknown_words += len(np.unique(unknown))
        self.units.add(sentence.unit)
        without = ~pieces.has_piece[sentence.n_context :]
        self.skipped["words_without_pieces"] += int(without.sum())

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
    target: Target = "column",
    takes: Callable[[int, int], bool] | None = None,
) -> Iterator[Batch]:
    """Batches of similar length, in an order that depends on the sentences alone.

    Sentences longer than the model takes or than `max_map_tokens`, and those whose pieces cannot be
    aligned with their words, are left out and counted in `tally`; so are those whose target is so,
    where a decoder reads one. Counted are the texts whose tokens are the queries. Memory is bounded
    by `WINDOW` sentences.

    Args:
        encoder: of the batches.
        sentences: are read once.
        tally: is told what goes in and what is left out.
        batch_tokens: tokens that a batch holds, padding included, of the longer of both texts.
        max_map_tokens: longest text that goes in, if any length will not do.
        target: what a decoder reads, see `Target`.
        takes: says of each batch, by the number of items and the tokens of the longest text,
            whether it is made; all sentences are counted. None: every batch.

    Raises:
        InputError: there is no target where one is read.
    """
    tally = Tally() if tally is None else tally
    aligner = Aligner(encoder.tokenizer)
    stream = iter(sentences)
    while window := list(islice(stream, WINDOW)):
        sides = [_aligned(aligner, window)]
        if encoder.has_target:
            sides.append(_aligned(aligner, [_target(item, target) for item in window]))
        kept: list[_Item] = []
        for texts in zip(*sides, strict=True):
            try:
                item = [
                    (text, _observable(encoder, pieces, max_map_tokens, is_target=side > 0))
                    for side, (text, pieces) in enumerate(texts)
                ]
            except _LeftOut as why:
                tally.leave_out(why.reason, texts[0][0], str(why))
            else:
                kept.append(item)
                tally.add(*item[-1], encoder.unk_id)
        kept.sort(key=_lengths, reverse=True)
        for group in _groups(kept, batch_tokens, encoder.equal_lengths):
            if takes is None or takes(len(group), _lengths(group[0])[0]):
                yield collate(encoder, *zip(*group, strict=True))


def refuse_target(encoder: Encoder, target: Target) -> None:
    """Stops where a target is asked for and nobody reads one.

    Raises:
        ModelError: in that case.
    """
    if target == "copy" and not encoder.has_target:
        several = encoder.config.is_encoder_decoder
        remedy = "--attention decoder or cross, or no --target" if several else "no --target"
        raise ModelError(
            f"{encoder.info.name}: found --target copy, and its {encoder.info.attention_name} "
            f"reads no target; expected {remedy}"
        )


def _aligned(
    aligner: Aligner, sentences: Sequence[Sentence]
) -> list[tuple[Sentence, Pieces | None]]:
    words = [sentence.words for sentence in sentences]
    pieces = aligner.align(words, [sentence.n_first for sentence in sentences])
    return list(zip(sentences, pieces, strict=True))


def _target(sentence: Sentence, target: Target) -> Sentence:
    if target == "copy":
        return sentence
    if sentence.target is None:
        raise InputError(
            f"sentence {sentence.sent_id} (line {sentence.line}): found no target, and the decoder "
            "of this model reads one; expected a column 'target' in a table of texts, or --target "
            "copy, which takes the sentence itself"
        )
    return sentence.target


def _observable(
    encoder: Encoder, pieces: Pieces | None, max_map_tokens: int | None, *, is_target: bool
) -> Pieces:
    """The pieces as the model is given them; raises _LeftOut where it cannot be."""
    what = "its target: " if is_target else ""
    if pieces is None:
        raise _LeftOut("misaligned", f"{what}its pieces do not fit its words")
    if not len(pieces.ids):
        raise _LeftOut("misaligned", f"{what}its words have no piece at all")
    if pieces.ids.max() >= encoder.n_ids:
        # The text of a pad token that was added without a row of its own.
        raise _LeftOut("misaligned", f"{what}it holds a token without a vector")
    if is_target:
        pieces = _shifted(encoder, pieces)
    n_tokens = len(pieces.ids)
    if encoder.max_length is not None and n_tokens > encoder.max_length:
        limit = f"{n_tokens} tokens, and the model takes {encoder.max_length}"
        raise _LeftOut("too_long", what + limit)
    if max_map_tokens is not None and n_tokens > max_map_tokens:
        limit = f"{n_tokens} tokens, and whole maps are kept up to {max_map_tokens}"
        raise _LeftOut("too_long", what + limit)
    return pieces


def _shifted(encoder: Encoder, pieces: Pieces) -> Pieces:
    """What a decoder is given to write these pieces: a token to start with, and all but the last.

    The last is dropped where it is special: nothing is to follow an end token.
    """
    moved = encoder.start_id is None
    start = int(pieces.ids[-1]) if encoder.start_id is None else encoder.start_id
    kept = slice(-1) if moved or pieces.special[-1] else slice(None)
    names = pieces.special_names[:-1] if pieces.special[-1] else pieces.special_names
    return replace(
        pieces,
        ids=np.append(start, pieces.ids[kept]),
        type_ids=np.append(0, pieces.type_ids[kept]),
        special=np.append(True, pieces.special[kept]),
        word_of=np.append(NO_WORD, pieces.word_of[kept]),
        segment_of=np.append(NO_WORD, pieces.segment_of[kept]),
        special_names=(encoder.tokenizer.id_to_token(start) or str(start), *names),
    )


def _lengths(item: _Item) -> tuple[int, ...]:
    """Tokens of the longer text, then of each."""
    own = [len(pieces.ids) for _, pieces in item]
    return max(own), *own


def _groups(kept: list[_Item], batch_tokens: int, equal_lengths: bool) -> Iterator[list[_Item]]:
    """Items of falling length, cut into groups; `equal_lengths`: without any padding."""
    start = 0
    while start < len(kept):
        lengths = _lengths(kept[start])
        group = kept[start : start + max(1, batch_tokens // lengths[0])]
        if equal_lengths:
            group = [item for item in group if _lengths(item) == lengths]
        yield group
        start += len(group)


def collate(
    encoder: Encoder,
    group: Sequence[tuple[Sentence, Pieces]],
    targets: Sequence[tuple[Sentence, Pieces]] | None = None,
) -> Batch:
    """One batch, on the device of the encoder, and beside it what a decoder reads, if any."""
    pieces = tuple(cut for _, cut in group)
    length = max(len(cut.ids) for cut in pieces)

    def padded(rows: Iterable[npt.NDArray[Any]], blank: int | bool) -> Tensor:
        filled = np.full((len(group), length), blank)
        for place, row in zip(filled, rows, strict=True):
            place[: len(row)] = row
        return torch.from_numpy(filled).to(encoder.device)

    return Batch(
        sentences=tuple(sentence for sentence, _ in group),
        pieces=pieces,
        input_ids=padded((cut.ids for cut in pieces), encoder.pad_id),
        type_ids=padded((cut.type_ids for cut in pieces), 0),
        valid=padded((np.ones(len(cut.ids), dtype=bool) for cut in pieces), False),
        special=padded((cut.special for cut in pieces), False),
        word_of=padded((cut.word_of for cut in pieces), NO_WORD),
        segment_of=padded((cut.segment_of for cut in pieces), NO_WORD),
        target=collate(encoder, targets) if targets else None,
        cross=encoder.info.attention == "cross",
    )
