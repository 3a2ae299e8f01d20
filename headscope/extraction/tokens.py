"""What surface measures know about the tokens of a batch: which are special, which are stops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.shapes import Where

MASSES = ("cls", "separator", "special", "punctuation", "punctuation_words", "punctuation_all")
"""Sets of tokens of which a mass is taken, by the name of their measure."""


@dataclass(frozen=True)
class Tokens:
    """Marks on the tokens of a batch, or on those of some of its places.

    Attributes:
        valid: [B, T] True at tokens, False at padding.
        scored: [B, T] True at the tokens whose rows count.
        first: [B, T] True at the first token.
        sets: name -> [B, T] True at the tokens of a set: each of `MASSES`, `all`, and the segments
            and texts `segment 0`, `segment 1`, `text 0`, `text 1`.
        annotated: [B, 1] True where the sentence has parts of speech.
        has_segments: [B, 1] True where the tokenizer tells segments apart.
        has_texts: [B, 1] True where there are two texts.
    """

    valid: Where
    scored: Where
    first: Where
    sets: dict[str, Where]
    annotated: Tensor
    has_segments: Tensor
    has_texts: Tensor

    def rows(self, start: int, stop: int) -> Tokens:
        """The marks on the places from start to stop."""
        return replace(
            self,
            valid=self.valid[:, start:stop],
            scored=self.scored[:, start:stop],
            first=self.first[:, start:stop],
            sets={name: where[:, start:stop] for name, where in self.sets.items()},
        )

    def any_of(self, name: str, skip: int = 0) -> Tensor:
        """[B, 1] whether the sentence has a token of the set, its first `skip` tokens left out."""
        return self.sets[name][:, skip:].any(1, keepdim=True)

    @cached_property
    def columns(self) -> tuple[dict[str, int], Tensor]:
        """Name -> column, and the columns [B, T, N] float64: 1 at tokens of a set but the first."""
        rest = {name: where & ~self.first for name, where in self.sets.items()}
        # Products with a set that is empty throughout are left out: most batches have few sets.
        held = [name for name, where in rest.items() if name == "all" or where.any()]
        for kind, told in (("segment", self.has_segments), ("text", self.has_texts)):
            if not told.any():
                held = [name for name in held if not name.startswith(f"{kind} ")]
        places = {name: place for place, name in enumerate(held)}
        return places, torch.stack([rest[name] for name in held], 2).double()


def describe_tokens(batch: Batch, encoder: Encoder) -> Tokens:
    """The marks on one batch."""
    ids, sentences = batch.input_ids, batch.sentences
    stops = torch.tensor(sorted(encoder.stop_ids), dtype=ids.dtype, device=ids.device)
    annotated = [any(tag != "_" for tag in sentence.upos) for sentence in sentences]
    places = [
        _special(batch, encoder.cls_id),
        _special(batch, encoder.separator_id),
        batch.special,
        torch.isin(ids, stops) & batch.valid & ~batch.special,
        _at_words(batch, [[w in (".", ",") for w in s.words] for s in sentences]),
        _at_words(batch, [[t == "PUNCT" for t in s.upos] for s in sentences]),
    ]
    valid, segment, text = batch.valid, batch.type_ids, batch.segment_of
    first = torch.zeros_like(valid)
    first[:, 0] = valid[:, 0]
    sets = {"all": valid, **dict(zip(MASSES, places, strict=True))}
    for number in (0, 1):
        sets[f"segment {number}"] = valid & (segment == number)
        sets[f"text {number}"] = valid & (text == number)
    return Tokens(
        valid=valid,
        scored=batch.scored,
        first=first,
        sets=sets,
        annotated=torch.tensor(annotated, device=ids.device).unsqueeze(1),
        has_segments=sets["segment 1"].any(1, keepdim=True),
        has_texts=sets["text 1"].any(1, keepdim=True),
    )


def _special(batch: Batch, token_id: int | None) -> Where:
    if token_id is None:
        return torch.zeros_like(batch.valid)
    return (batch.input_ids == token_id) & batch.special


def _at_words(batch: Batch, marked: list[list[bool]]) -> Where:
    """[B, T] True at the pieces of marked words."""
    width = batch.n_words + 1
    table = torch.tensor([marks + [False] * (width - len(marks)) for marks in marked])
    # NO_WORD is -1 and lands on the last column, which is never marked.
    return torch.gather(table.to(batch.word_of.device), 1, batch.word_of % width)
