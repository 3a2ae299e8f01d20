"""Surface measures of attention: each a sum over query rows, and the number of rows it exists for.

To add one: a function from `View` to [B, H] sums, and a line in `MEASURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder


@dataclass(frozen=True)
class Tokens:
    """What the measures know about the tokens of a batch.

    Attributes:
        valid: [B, T] True at tokens, False at padding.
        cls, separator, special, punctuation, punctuation_words, punctuation_all: [B, T] True at
            the tokens of which a mass is taken.
        annotated: [B] True where the sentence has parts of speech.
        causal: whether no query sees a later key.
    """

    valid: Tensor
    cls: Tensor
    separator: Tensor
    special: Tensor
    punctuation: Tensor
    punctuation_words: Tensor
    punctuation_all: Tensor
    annotated: Tensor
    causal: bool

    @cached_property
    def n_rows(self) -> Tensor:
        """[B] float64 number of query rows."""
        return self.valid.sum(1).to(torch.float64)

    @cached_property
    def first(self) -> Tensor:
        """[B, T] True at the first token."""
        where = torch.zeros_like(self.valid)
        where[:, 0] = True
        return where

    @cached_property
    def distances(self) -> Tensor:
        """[T, T] float64 |i - j|."""
        places = torch.arange(self.valid.shape[1], device=self.valid.device, dtype=torch.float64)
        return (places.unsqueeze(1) - places).abs()

    @cached_property
    def uniform(self) -> Tensor:
        """[B, 1, T, T] float64 attention uniform over the visible keys."""
        seen = self.valid.unsqueeze(1) & self.valid.unsqueeze(2)
        seen = (seen.tril() if self.causal else seen).to(torch.float64)
        return (seen / seen.sum(2, keepdim=True).clamp(min=1)).unsqueeze(1)


class View:
    """Rows start, start + 1, ... of one layer, with what several measures share.

    Attributes:
        probs: [B, H, rows, T], rows of padding set to 0.
        start: number of the first row.
    """

    def __init__(self, probs: Tensor, start: int, tokens: Tokens) -> None:
        """Drops rows of padding: a fully masked row is uniform, not empty."""
        self.start, self.stop = start, start + probs.shape[2]
        self.tokens = tokens
        rows = self.own_rows(tokens.valid)
        self.probs = probs if bool(rows.all()) else probs * rows[:, None, :, None]

    def own_rows(self, where: Tensor) -> Tensor:
        """The part of `where` [B, T] that belongs to this view's rows."""
        return where[:, self.start : self.stop]

    @cached_property
    def columns(self) -> Tensor:
        """[B, H, T] float64 attention that each key receives from all rows."""
        return self.probs.sum(2, dtype=torch.float64)

    @cached_property
    def entropies(self) -> Tensor:
        """[B, H, rows] float64 entropy of each row in nats, 0 ln 0 = 0."""
        return torch.special.entr(self.probs).sum(3, dtype=torch.float64)

    def mass(self, where: Tensor) -> Tensor:
        """[B, H] attention to the keys at which `where` [B, T] is True."""
        return (self.columns * where.unsqueeze(1)).sum(2)

    def diagonal(self, offset: int) -> Tensor:
        """[B, H] sum of A[i, i + offset] over the rows."""
        return self.probs.diagonal(self.start + offset, 2, 3).sum(2, dtype=torch.float64)

    def entropy(self, where: Tensor) -> Tensor:
        """[B, H] entropy of the rows at which `where` [B, T] is True, summed, in nats."""
        return (self.entropies * self.own_rows(where).unsqueeze(1)).sum(2)

    def distance(self) -> Tensor:
        """[B, H] sum over rows of the attention-weighted |i - j|, in tokens."""
        apart = self.tokens.distances[self.start : self.stop]
        flat = self.probs.flatten(2).to(torch.float64)
        return flat @ apart.flatten()


@dataclass(frozen=True)
class Measure:
    """A surface measure.

    Attributes:
        total: [B, H] float64, the sum over a view's rows.
        n_rows: [B] float64, the number of rows for which it exists.
        units: of its mean.
        why_none: why it does not exist, should there be no such row in the whole corpus.
    """

    total: Callable[[View], Tensor]
    n_rows: Callable[[Tokens], Tensor]
    units: str = "probability"
    why_none: str = "no sentence has such a row"


def _every_row(tokens: Tokens) -> Tensor:
    return tokens.n_rows


def _rows_after_first(tokens: Tokens) -> Tensor:
    return (tokens.n_rows - 1).clamp(min=0)


def _rows_before_last(tokens: Tokens) -> Tensor:
    return _rows_after_first(tokens) * (not tokens.causal)


def _rows_where_any(where: Callable[[Tokens], Tensor]) -> Callable[[Tokens], Tensor]:
    return lambda tokens: tokens.n_rows * where(tokens).any(1)


MEASURES: dict[str, Measure] = {
    "previous": Measure(lambda view: view.diagonal(-1), _rows_after_first),
    "next": Measure(
        lambda view: view.diagonal(1),
        _rows_before_last,
        why_none="a causal model cannot see the next token, and a single token has none",
    ),
    "self": Measure(lambda view: view.diagonal(0), _every_row),
    "first": Measure(lambda view: view.mass(view.tokens.first), _every_row),
    "cls": Measure(
        lambda view: view.mass(view.tokens.cls),
        _rows_where_any(lambda tokens: tokens.cls),
        why_none="the tokenizer adds no classification token",
    ),
    "separator": Measure(
        lambda view: view.mass(view.tokens.separator),
        _rows_where_any(lambda tokens: tokens.separator),
        why_none="the tokenizer adds no separator token",
    ),
    "special": Measure(
        lambda view: view.mass(view.tokens.special),
        _rows_where_any(lambda tokens: tokens.special),
        why_none="the tokenizer adds no special tokens",
    ),
    "punctuation": Measure(lambda view: view.mass(view.tokens.punctuation), _every_row),
    "punctuation_words": Measure(
        lambda view: view.mass(view.tokens.punctuation_words), _every_row
    ),
    "punctuation_all": Measure(
        lambda view: view.mass(view.tokens.punctuation_all),
        lambda tokens: tokens.n_rows * tokens.annotated,
        why_none="the data have no parts of speech (UPOS)",
    ),
    "entropy": Measure(lambda view: view.entropy(view.tokens.valid), _every_row, "nats"),
    "entropy_from_first": Measure(
        lambda view: view.entropy(view.tokens.first),
        lambda tokens: tokens.first.sum(1).to(torch.float64),
        "nats",
    ),
    "entropy_from_cls": Measure(
        lambda view: view.entropy(view.tokens.cls),
        lambda tokens: tokens.cls.sum(1).to(torch.float64),
        "nats",
        why_none="the tokenizer adds no classification token",
    ),
    "distance": Measure(lambda view: view.distance(), _every_row, "tokens"),
}


def describe_tokens(batch: Batch, encoder: Encoder) -> Tokens:
    """The masks of one batch."""
    ids, sentences = batch.input_ids, batch.sentences
    stops = torch.tensor(sorted(encoder.stop_ids), dtype=ids.dtype, device=ids.device)
    nowhere = torch.zeros_like(batch.valid)
    annotated = [any(tag != "_" for tag in sentence.upos) for sentence in sentences]
    return Tokens(
        valid=batch.valid,
        cls=nowhere if encoder.cls_id is None else (ids == encoder.cls_id) & batch.special,
        separator=nowhere
        if encoder.separator_id is None
        else (ids == encoder.separator_id) & batch.special,
        special=batch.special,
        punctuation=torch.isin(ids, stops) & batch.valid & ~batch.special,
        punctuation_words=_at_words(batch, [[w in (".", ",") for w in s.words] for s in sentences]),
        punctuation_all=_at_words(batch, [[t == "PUNCT" for t in s.upos] for s in sentences]),
        annotated=torch.tensor(annotated, device=ids.device),
        causal=encoder.causal,
    )


def _at_words(batch: Batch, marked: list[list[bool]]) -> Tensor:
    """[B, T] True at the pieces of marked words."""
    width = batch.n_words + 1
    table = torch.tensor([marks + [False] * (width - len(marks)) for marks in marked])
    # NO_WORD is -1 and lands on the last column, which is never marked.
    return torch.gather(table.to(batch.word_of.device), 1, batch.word_of % width)
