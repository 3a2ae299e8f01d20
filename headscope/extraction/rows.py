"""Some query rows of attention, and what surface measures ask of each of them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from headscope.extraction.observers import Block
from headscope.extraction.tokens import Tokens
from headscope.shapes import PerRow, Probs

EXACT_KEYS = 1024
"""Up to so many keys a row is summed in float64; longer ones in float32, and rows in float64."""

NO_MASS = 1e-9
"""What a row must have on other tokens than the first to be renormalised over them."""


class Kept:
    """The rows as they are.

    Args:
        block: some rows of one layer.
        queries: marks on the tokens of the queries, all of them.
        keys: marks on the tokens of the keys; the same for self-attention.
        visible: [B, 1, rows, K] of the block.
        has_sinks: whether the model has sinks.
    """

    has_first = True

    def __init__(
        self, block: Block, queries: Tokens, keys: Tokens, visible: Tensor, has_sinks: bool = False
    ) -> None:
        """Nothing is computed before it is asked for."""
        self.block, self.keys, self.visible = block, keys, visible
        self.queries = queries.rows(block.start, block.stop)
        self.has_sinks = has_sinks

    @cached_property
    def _probs(self) -> Probs:
        short = self.block.probs.shape[3] <= EXACT_KEYS
        return self.block.probs.double() if short else self.block.probs

    @cached_property
    def _key_numbers(self) -> Tensor:
        n_keys, first = self.block.probs.shape[3], self.block.first_key
        return torch.arange(first, first + n_keys, device=self.block.probs.device)

    @cached_property
    def _row_numbers(self) -> Tensor:
        return torch.arange(self.block.start, self.block.stop, device=self.block.probs.device)

    @cached_property
    def _masses(self) -> Tensor:
        """[B, H, rows, N] attention to each set of tokens."""
        first, n_keys = self.block.first_key, self.block.probs.shape[3]
        sets = self.keys.columns[1][:, first : first + n_keys].to(self._probs.dtype)
        return (self._probs @ sets.unsqueeze(1)).double()

    @property
    def total(self) -> PerRow:
        """Sum of each row."""
        return self.mass("all")

    @cached_property
    def entropy(self) -> PerRow:
        """Entropy of each row in nats, 0 ln 0 = 0."""
        scores = self.block.scores
        if scores is None:
            return entropy(self.block.probs)
        return _entropy_by_scores(self.block.probs, scores, self.total)

    @cached_property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        apart = (self._key_numbers - self._row_numbers.unsqueeze(1)).abs().to(self._probs.dtype)
        return (self._probs * apart).sum(-1).double()

    @cached_property
    def n_visible(self) -> Tensor:
        """[B, rows] number of keys that the query may see."""
        return self.visible.sum(-1).squeeze(1)

    @cached_property
    def sees_first(self) -> Tensor:
        """[B, rows] whether the query may see the first key."""
        if self.block.first_key:
            return torch.zeros_like(self.visible[:, 0, :, 0])
        return self.visible[:, 0, :, 0]

    @cached_property
    def first(self) -> PerRow:
        """A[i, 0]."""
        column = self.block.probs[..., 0].double()
        return torch.zeros_like(column) if self.block.first_key else column

    def mass(self, name: str) -> PerRow:
        """Attention to a set of tokens."""
        place = self.keys.columns[0].get(name)
        if place is None:
            return torch.zeros_like(self.first)
        return self._masses[..., place]

    def has(self, name: str) -> Tensor:
        """[B, 1] whether the sentence has such a token."""
        return self.keys.any_of(name)

    def cell(self, offset: int) -> PerRow:
        """A[i, i + offset], 0 where there is no such key."""
        columns, exists = self._columns(offset)
        at = columns.clamp(0, self.block.probs.shape[3] - 1).view(1, 1, -1, 1)
        cells = self.block.probs.gather(3, at.expand(*self.block.probs.shape[:2], -1, -1))
        return cells.squeeze(3).double() * exists

    def has_cell(self, offset: int) -> Tensor:
        """[B, rows] whether the query may see the key at i + offset."""
        columns, exists = self._columns(offset)
        at = columns.clamp(0, self.block.probs.shape[3] - 1).view(1, -1, 1)
        seen = self.visible[:, 0].gather(2, at.expand(len(self.visible), -1, -1)).squeeze(2)
        return seen & exists

    def _columns(self, offset: int) -> tuple[Tensor, Tensor]:
        columns = self._row_numbers + offset - self.block.first_key
        return columns, (columns >= 0) & (columns < self.block.probs.shape[3])


class WithoutFirst:
    """The rows with the first token left out and the rest renormalised to sum to 1."""

    has_first = False
    has_sinks = False

    def __init__(self, rows: Kept) -> None:
        """Takes everything from the rows as they are."""
        self._rows = rows
        self.queries = rows.queries

    @cached_property
    def rest(self) -> PerRow:
        """Mass on other tokens than the first."""
        return self._rows.total - self._rows.first

    @cached_property
    def defined(self) -> Tensor:
        """[B, H, rows] whether the row has such mass."""
        return self.rest > NO_MASS

    @cached_property
    def _factor(self) -> PerRow:
        return torch.where(self.defined, 1 / self.rest.clamp(min=NO_MASS), 0.0)

    @property
    def total(self) -> PerRow:
        """Sum of each row: 1, or 0 where it is undefined."""
        return self.defined.double()

    @cached_property
    def entropy(self) -> PerRow:
        """Entropy of each row in nats: that of p / m is (H + p0 ln p0) / m + ln m."""
        first: PerRow = torch.special.entr(self._rows.first)
        logs = torch.where(self.defined, self.rest.clamp(min=NO_MASS).log(), 0.0)
        return ((self._rows.entropy - first) * self._factor + logs).clamp(min=0)

    @cached_property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        return (self._rows.distance - self._rows.first * self._rows._row_numbers) * self._factor

    @cached_property
    def n_visible(self) -> Tensor:
        """[B, rows] number of keys but the first that the query may see."""
        return self._rows.n_visible - self._rows.sees_first.long()

    @property
    def first(self) -> PerRow:
        """Nothing: it was left out."""
        return torch.zeros_like(self.rest)

    def mass(self, name: str) -> PerRow:
        """Attention to a set of tokens."""
        holds_first = self._rows.keys.sets[name][:, :1].unsqueeze(1)
        return (self._rows.mass(name) - self._rows.first * holds_first) * self._factor

    def has(self, name: str) -> Tensor:
        """[B, 1] whether the sentence has such a token besides the first."""
        return self._rows.keys.any_of(name, skip=1)

    def cell(self, offset: int) -> PerRow:
        """A[i, i + offset], 0 where there is no such key or it is the first."""
        return self._rows.cell(offset) * self._not_first(offset) * self._factor

    def has_cell(self, offset: int) -> Tensor:
        """[B, rows] whether the query may see the key at i + offset, and it is not the first."""
        return self._rows.has_cell(offset) & self._not_first(offset)

    def _not_first(self, offset: int) -> Tensor:
        return self._rows._row_numbers + offset != 0


Rows = Kept | WithoutFirst
"""What a measure is taken of; both answer the same questions, [B, H, rows] float64 a value."""


def entropy(probs: Probs) -> PerRow:
    """Entropy of each row in nats, 0 ln 0 = 0: [B, H, rows, T] -> [B, H, rows] float64.

    >>> entropy(torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]]))
    tensor([[[0.6931, 0.0000]]], dtype=torch.float64)
    """
    # The smallest number in place of 0 keeps logarithm and gradient finite; 0 times it is 0.
    logs = probs.clamp(min=torch.finfo(probs.dtype).tiny).log_()
    # 0 minus the sum, for the negative of 0 is printed as -0.0.
    return 0.0 - logs.mul_(probs).sum(-1, dtype=torch.float64)


def _entropy_by_scores(probs: Probs, scores: Tensor, total: PerRow) -> PerRow:
    """The same from the scores whose softmax the rows are: no logarithm but one a row.

    ln p is the score minus that of the strongest key, plus the logarithm of the strongest key's p.
    """
    below = scores - scores.amax(-1, keepdim=True)
    strongest = probs.amax(-1).double().clamp(min=torch.finfo(probs.dtype).tiny)
    exact = torch.float64 if probs.shape[3] <= EXACT_KEYS else probs.dtype
    found = -below.mul_(probs).sum(-1, dtype=exact).double() - strongest.log() * total
    return found.clamp(min=0)
