"""Surface measures of attention: each a sum over query rows, and the number of rows it exists for.

To add one: a line in `MEASURES` that says which cells or rows of the map are summed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.shapes import PerRow, Probs, Where


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

    valid: Where
    cls: Where
    separator: Where
    special: Where
    punctuation: Where
    punctuation_words: Where
    punctuation_all: Where
    annotated: Tensor
    causal: bool

    @cached_property
    def n_rows(self) -> Tensor:
        """[B] float64 number of query rows."""
        return self.valid.sum(1).to(torch.float64)

    @cached_property
    def first(self) -> Where:
        """[B, T] True at the first token."""
        where = torch.zeros_like(self.valid)
        where[:, 0] = self.valid[:, 0]
        return where

    @cached_property
    def uniform(self) -> Probs:
        """[B, 1, T, T] float64 attention uniform over the visible keys."""
        seen = self.valid.unsqueeze(1) & self.valid.unsqueeze(2)
        seen = (seen.tril() if self.causal else seen).to(torch.float64)
        return (seen / seen.sum(2, keepdim=True).clamp(min=1)).unsqueeze(1)


@dataclass(frozen=True)
class Measure:
    """A surface measure: its sum over query rows, and the number of rows for which it exists.

    One of `keys`, `offset`, `by_offset` and `entropy_rows` says what is summed.

    Attributes:
        n_rows: [B] float64 number of rows for which it exists.
        keys: [B, T] True at the tokens whose columns are summed.
        offset: the cells A[i, i + offset] are summed.
        by_offset: weights of all cells, as a function of j - i; A times these is summed.
        entropy_rows: [B, T] True at the rows whose entropy is summed.
        units: of its mean.
        why_none: why it does not exist, should there be no such row in the whole corpus.
    """

    n_rows: Callable[[Tokens], Tensor]
    keys: Callable[[Tokens], Tensor] | None = None
    offset: int | None = None
    by_offset: Callable[[Tensor], Tensor] | None = None
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
    "previous": Measure(_rows_after_first, offset=-1),
    "next": Measure(
        _rows_before_last,
        offset=1,
        why_none="a causal model cannot see the next token, and a single token has none",
    ),
    "self": Measure(_every_row, offset=0),
    "first": Measure(_every_row, keys=lambda tokens: tokens.first),
    "cls": Measure(
        _rows_where_any(lambda tokens: tokens.cls),
        keys=lambda tokens: tokens.cls,
        why_none="the tokenizer adds no classification token",
    ),
    "separator": Measure(
        _rows_where_any(lambda tokens: tokens.separator),
        keys=lambda tokens: tokens.separator,
        why_none="the tokenizer adds no separator token",
    ),
    "special": Measure(
        _rows_where_any(lambda tokens: tokens.special),
        keys=lambda tokens: tokens.special,
        why_none="the tokenizer adds no special tokens",
    ),
    "punctuation": Measure(_every_row, keys=lambda tokens: tokens.punctuation),
    "punctuation_words": Measure(_every_row, keys=lambda tokens: tokens.punctuation_words),
    "punctuation_all": Measure(
        lambda tokens: tokens.n_rows * tokens.annotated,
        keys=lambda tokens: tokens.punctuation_all,
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
    "distance": Measure(_every_row, by_offset=torch.abs, units="tokens"),
}


def entropy(probs: Probs) -> PerRow:
    """Entropy of each row in nats, 0 ln 0 = 0: [B, H, rows, T] -> [B, H, rows] float64.

    >>> entropy(torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]]))
    tensor([[[0.6931, 0.0000]]], dtype=torch.float64)
    """
    # The smallest number in place of 0 keeps logarithm and gradient finite; 0 times it is 0.
    logs = probs.clamp(min=torch.finfo(probs.dtype).tiny).log_()
    # 0 minus the sum, for the negative of 0 is printed as -0.0.
    return 0.0 - logs.mul_(probs).sum(-1, dtype=torch.float64)


class Weights:
    """All measures of one block of rows, as weights by which its attention is summed.

    Args:
        tokens: of the batch.
        start, stop: the block's rows.
    """

    def __init__(self, tokens: Tokens, start: int, stop: int) -> None:
        """Rows of padding get weight 0: a fully masked row is uniform, not empty."""
        self.start, self.stop = start, stop
        rows = tokens.valid[:, start:stop]
        places = torch.arange(tokens.valid.shape[1], device=rows.device)
        offsets = places - places[start:stop].unsqueeze(1)
        measures = MEASURES.values()
        keys = [m.keys(tokens) for m in measures if m.keys]
        cells = [m.by_offset(offsets) * rows.unsqueeze(2) for m in measures if m.by_offset]
        chosen = [m.entropy_rows(tokens)[:, start:stop] & rows for m in measures if m.entropy_rows]
        self._rows = rows.double().unsqueeze(1)
        self._keys = torch.stack(keys, 2).double()
        self._cells = torch.stack([weights.flatten(1) for weights in cells], 1).double()
        self._chosen = torch.stack(chosen, 2).double()

    def totals(self, probs: Probs) -> Tensor:
        """[B, H, rows, T] attention -> [B, H, M] float64 sums, in the order of `MEASURES`."""
        exact = probs.double()
        columns = (self._rows.unsqueeze(2) @ exact).squeeze(2)
        diagonals = [self._diagonal(exact, offset) for offset in _OFFSETS]
        # The few weights stand first: with one column last, this product takes ten times as long.
        weighted = (self._cells @ exact.flatten(2).transpose(1, 2)).transpose(1, 2)
        kinds = [
            columns @ self._keys,
            torch.stack(diagonals, 2),
            weighted,
            entropy(probs) @ self._chosen,
        ]
        return torch.cat(kinds, 2)[:, :, _ORDER]

    def _diagonal(self, exact: Tensor, offset: int) -> Tensor:
        """[B, H] sum of A[i, i + offset] over the rows that have this cell."""
        cells = exact.diagonal(self.start + offset, dim1=2, dim2=3)
        first = max(0, -(self.start + offset))
        return (cells * self._rows[:, :, first : first + cells.shape[2]]).sum(2)


_OFFSETS = [m.offset for m in MEASURES.values() if m.offset is not None]
# `Weights.totals` sums kind by kind; this puts the sums back into the order of MEASURES.
_BY_KIND = [
    *(name for name, m in MEASURES.items() if m.keys),
    *(name for name, m in MEASURES.items() if m.offset is not None),
    *(name for name, m in MEASURES.items() if m.by_offset),
    *(name for name, m in MEASURES.items() if m.entropy_rows),
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


def _at_words(batch: Batch, marked: list[list[bool]]) -> Where:
    """[B, T] True at the pieces of marked words."""
    width = batch.n_words + 1
    table = torch.tensor([marks + [False] * (width - len(marks)) for marks in marked])
    # NO_WORD is -1 and lands on the last column, which is never marked.
    return torch.gather(table.to(batch.word_of.device), 1, batch.word_of % width)
