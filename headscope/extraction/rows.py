"""Some query rows of attention, and what surface measures ask of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headscope.extraction.digest import OFFSETS, Digest, columns_of
from headscope.extraction.observers import Block
from headscope.extraction.tokens import Tokens
from headscope.shapes import PerRow

NO_MASS = 1e-9
"""What a row must have on other tokens than the first to be renormalised over them."""


@dataclass(frozen=True)
class Sight:
    """What queries may see, the same for all heads and for all layers that see alike.

    Attributes:
        n_keys: [B, rows] number of keys.
        first: [B, rows] whether the first key is one of them.
        cells: offset -> [B, rows] whether the key at that offset from the query is one of them.
    """

    n_keys: Tensor
    first: Tensor
    cells: dict[int, Tensor]


def sight(block: Block, offsets: Sequence[int] = OFFSETS) -> Sight:
    """What the queries of a block may see."""
    visible = block.visible()[:, 0]
    columns, exists = columns_of(block, (None, *offsets))
    at = columns.clamp(0, visible.shape[2] - 1).expand(len(visible), -1, -1)
    first, *cells = (visible.gather(2, at) & exists).unbind(2)
    return Sight(visible.sum(2), first, dict(zip(offsets, cells, strict=True)))


class Kept:
    """The rows as they are.

    Args:
        digest: some rows of one layer or of several.
        sight: what they may see.
        queries: marks on the tokens of these rows.
        keys: marks on the tokens of the keys, all of them.
        has_sinks: whether the model has sinks.
    """

    has_first = True

    def __init__(
        self, digest: Digest, sight: Sight, queries: Tokens, keys: Tokens, has_sinks: bool = False
    ) -> None:
        """Holds what it is given."""
        self.digest, self.sight, self.has_sinks = digest, sight, has_sinks
        self.queries, self.keys = queries, keys

    @property
    def total(self) -> PerRow:
        """Sum of each row."""
        return self.mass("all")

    @cached_property
    def entropy(self) -> PerRow:
        """Entropy of each row in nats, 0 ln 0 = 0."""
        first: PerRow = torch.special.entr(self.first)
        return self.digest["rest_entropy"] + first

    @property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        return self.digest["rest_distance"] + self.first * self.digest.row_numbers

    @property
    def n_visible(self) -> Tensor:
        """[B, rows] number of keys that the query may see."""
        return self.sight.n_keys

    @property
    def first(self) -> PerRow:
        """A[i, 0]."""
        return self.digest["first"]

    def mass(self, name: str) -> PerRow:
        """Attention to a set of tokens."""
        holds_first = self.keys.sets[name][:, :1].unsqueeze(1)
        return self.rest_mass(name) + self.first * holds_first

    def rest_mass(self, name: str) -> PerRow:
        """Attention to a set of tokens, the first token left out."""
        column = self.keys.columns[0].get(name)
        if column is None:
            return torch.zeros_like(self.first)
        return self.digest.mass(column)

    def has(self, name: str) -> Tensor:
        """[B, 1] whether the sentence has such a token."""
        return self.keys.any_of(name)

    def cell(self, offset: int) -> PerRow:
        """A[i, i + offset], 0 where there is no such key."""
        return self.digest.cell(offset)

    def has_cell(self, offset: int) -> Tensor:
        """[B, rows] whether the query may see the key at i + offset."""
        return self.sight.cells[offset]


class WithoutFirst:
    """The rows with the first token left out and the rest renormalised to sum to 1."""

    has_first = False
    has_sinks = False

    def __init__(self, rows: Kept) -> None:
        """Takes everything from the rows as they are."""
        self._rows = rows
        self.queries, self.keys = rows.queries, rows.keys

    @property
    def rest(self) -> PerRow:
        """Mass on other tokens than the first."""
        return self._rows.rest_mass("all")

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
        """Entropy of each row in nats: that of p / m is the rest's over m, plus ln m."""
        logs = torch.where(self.defined, self.rest.clamp(min=NO_MASS).log(), 0.0)
        return (self._rows.digest["rest_entropy"] * self._factor + logs).clamp(min=0)

    @cached_property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        return self._rows.digest["rest_distance"] * self._factor

    @property
    def n_visible(self) -> Tensor:
        """[B, rows] number of keys but the first that the query may see."""
        return self._rows.sight.n_keys - self._rows.sight.first.long()

    @property
    def first(self) -> PerRow:
        """Nothing: it was left out."""
        return torch.zeros_like(self.rest)

    def mass(self, name: str) -> PerRow:
        """Attention to a set of tokens."""
        return self._rows.rest_mass(name) * self._factor

    def has(self, name: str) -> Tensor:
        """[B, 1] whether the sentence has such a token besides the first."""
        return self.keys.any_of(name, skip=1)

    def cell(self, offset: int) -> PerRow:
        """A[i, i + offset], 0 where there is no such key or it is the first."""
        return self._rows.cell(offset) * self._not_first(offset) * self._factor

    def has_cell(self, offset: int) -> Tensor:
        """[B, rows] whether the query may see the key at i + offset, and it is not the first."""
        return self._rows.has_cell(offset) & self._not_first(offset)

    def _not_first(self, offset: int) -> Tensor:
        return self._rows.digest.row_numbers + offset != 0


Rows = Kept | WithoutFirst
"""What a measure is taken of; both answer the same questions, [B, H, rows] float64 a value."""
