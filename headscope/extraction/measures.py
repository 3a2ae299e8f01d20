"""Surface measures of attention: each a sum over query rows, and the number of rows it exists for.

To add one: a line in `MEASURES` that says by which weights the cells of the map are summed.
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
    def uniform(self) -> Tensor:
        """[B, 1, T, T] float64 attention uniform over the visible keys."""
        seen = self.valid.unsqueeze(1) & self.valid.unsqueeze(2)
        seen = (seen.tril() if self.causal else seen).to(torch.float64)
        return (seen / seen.sum(2, keepdim=True).clamp(min=1)).unsqueeze(1)


@dataclass(frozen=True)
class Cells:
    """The cells of query rows start..stop-1, as weights that make a measure a weighted sum."""

    tokens: Tokens
    start: int
    stop: int

    @cached_property
    def offsets(self) -> Tensor:
        """[1, rows, T] j - i of every cell."""
        places = torch.arange(self.tokens.valid.shape[1], device=self.tokens.valid.device)
        return (places - places[self.start : self.stop].unsqueeze(1)).unsqueeze(0)

    def at_offset(self, offset: int) -> Tensor:
        """[1, rows, T] True at A[i, i + offset]."""
        return self.offsets == offset

    def to(self, where: Tensor) -> Tensor:
        """[B, 1, T] True in the columns at which `where` [B, T] is True."""
        return where.unsqueeze(1)


@dataclass(frozen=True)
class Measure:
    """A surface measure: its sum over query rows, and the number of rows for which it exists.

    One of `cells` and `entropy_rows` is given.

    Attributes:
        n_rows: [B] float64 number of rows for which it exists.
        cells: weights of the cells, broadcastable to [B, rows, T]; the sum is over A times these.
        entropy_rows: [B, T] True at the rows whose entropy is summed.
        units: of its mean.
        why_none: why it does not exist, should there be no such row in the whole corpus.
    """

    n_rows: Callable[[Tokens], Tensor]
    cells: Callable[[Cells], Tensor] | None = None
    entropy_rows: Callable[[Tokens], Tensor] | None = None
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
    "previous": Measure(_rows_after_first, lambda cells: cells.at_offset(-1)),
    "next": Measure(
        _rows_before_last,
        lambda cells: cells.at_offset(1),
        why_none="a causal model cannot see the next token, and a single token has none",
    ),
    "self": Measure(_every_row, lambda cells: cells.at_offset(0)),
    "first": Measure(_every_row, lambda cells: cells.to(cells.tokens.first)),
    "cls": Measure(
        _rows_where_any(lambda tokens: tokens.cls),
        lambda cells: cells.to(cells.tokens.cls),
        why_none="the tokenizer adds no classification token",
    ),
    "separator": Measure(
        _rows_where_any(lambda tokens: tokens.separator),
        lambda cells: cells.to(cells.tokens.separator),
        why_none="the tokenizer adds no separator token",
    ),
    "special": Measure(
        _rows_where_any(lambda tokens: tokens.special),
        lambda cells: cells.to(cells.tokens.special),
        why_none="the tokenizer adds no special tokens",
    ),
    "punctuation": Measure(_every_row, lambda cells: cells.to(cells.tokens.punctuation)),
    "punctuation_words": Measure(
        _every_row, lambda cells: cells.to(cells.tokens.punctuation_words)
    ),
    "punctuation_all": Measure(
        lambda tokens: tokens.n_rows * tokens.annotated,
        lambda cells: cells.to(cells.tokens.punctuation_all),
        why_none="the data have no parts of speech (UPOS)",
    ),
    "entropy": Measure(_every_row, entropy_rows=lambda tokens: tokens.valid, units="nats"),
    "entropy_from_first": Measure(
        lambda tokens: tokens.first.sum(1).to(torch.float64),
        entropy_rows=lambda tokens: tokens.first,
        units="nats",
    ),
    "entropy_from_cls": Measure(
        lambda tokens: tokens.cls.sum(1).to(torch.float64),
        entropy_rows=lambda tokens: tokens.cls,
        units="nats",
        why_none="the tokenizer adds no classification token",
    ),
    "distance": Measure(_every_row, lambda cells: cells.offsets.abs(), units="tokens"),
}


def entropy(probs: Tensor) -> Tensor:
    """Entropy of each row in nats, 0 ln 0 = 0: [..., T] -> [...] float64.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    tiny = torch.finfo(probs.dtype).tiny
    products = probs * probs.clamp(min=tiny).log()
    return products.sum(-1).to(torch.float64).neg().clamp(min=0.0)


class Weights:
    """All measures of one block of rows, as weights by which its attention is summed.

    Args:
        tokens: of the batch.
        start, stop: the block's rows.
    """

    def __init__(self, tokens: Tokens, start: int, stop: int) -> None:
        """Rows of padding get weight 0: a fully masked row is uniform, not empty."""
        self.start, self.stop = start, stop
        cells = Cells(tokens, start, stop)
        rows = tokens.valid[:, start:stop]
        shape = (*rows.shape, tokens.valid.shape[1])
        linear = [m.cells(cells) * rows.unsqueeze(2) for m in MEASURES.values() if m.cells]
        chosen = [m.entropy_rows(tokens) for m in MEASURES.values() if m.entropy_rows]
        self._cells = torch.stack([w.expand(shape) for w in linear], 1).flatten(2).double()
        self._rows = torch.stack([w[:, start:stop] & rows for w in chosen], 2).double()

    def totals(self, probs: Tensor) -> Tensor:
        """[B, H, rows, T] attention -> [B, H, M] float64 sums, in the order of `MEASURES`."""
        masses = probs.double().flatten(2) @ self._cells.transpose(1, 2)
        entropies = entropy(probs) @ self._rows
        return torch.cat([masses, entropies], 2)[:, :, _ORDER]


# `Weights.totals` sums masses and entropies apart; this puts them back into the order of MEASURES.
_BY_KIND = [n for n, m in MEASURES.items() if m.cells] + [
    n for n, m in MEASURES.items() if m.entropy_rows
]
_ORDER = [_BY_KIND.index(name) for name in MEASURES]


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
