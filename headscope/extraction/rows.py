"""Some query rows of attention, and what surface measures ask of each of them."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Sight:
    """What queries may see.

    Attributes:
        n_keys: [B, rows] number of keys.
        first: [B, rows] whether the first key is one of them.
    """

    n_keys: Tensor
    first: Tensor


class Kept:
    """The rows as they are.

    Args:
        block: some rows of one layer.
        queries: marks on the tokens of the queries, all of them.
        keys: marks on the tokens of the keys; the same for self-attention.
        has_sinks: whether the model has sinks.
        sight: of these queries, where it is known.
    """

    has_first = True

    def __init__(
        self,
        block: Block,
        queries: Tokens,
        keys: Tokens,
        has_sinks: bool = False,
        sight: Sight | None = None,
    ) -> None:
        """Nothing is computed before it is asked for."""
        self.block, self.keys, self.has_sinks = block, keys, has_sinks
        self.queries = queries.rows(block.start, block.stop)
        if sight is not None:
            self.sight = sight
        self._cells: dict[int, PerRow] = {}

    @cached_property
    def _visible(self) -> Tensor:
        """[B, rows, K] True where the query may see the key."""
        return self.block.visible()[:, 0]

    @cached_property
    def sight(self) -> Sight:
        """How much the queries may see."""
        first = self._visible[:, :, 0]
        if self.block.first_key:
            first = torch.zeros_like(first)
        return Sight(self._visible.sum(2), first)

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
    def _sums(self) -> Tensor:
        """[B, H, N, rows] attention to each set of tokens, the first token left out.

        Of long rows these are followed by four sums for the distance (`_by_distance`): rows are
        read once for all.
        """
        first, n_keys = self.block.first_key, self.block.probs.shape[3]
        weights = self.keys.columns[1][:, first : first + n_keys].transpose(1, 2)
        if n_keys > EXACT_KEYS:
            by_distance = self._by_distance().to(weights.dtype).expand(len(weights), -1, -1)
            weights = torch.cat([weights, by_distance], 1)
        # The few weights stand first: as columns on the right, this product takes twice as long.
        product = weights.unsqueeze(1).to(self._probs.dtype) @ self._probs.transpose(2, 3)
        return product.double()

    @property
    def total(self) -> PerRow:
        """Sum of each row."""
        return self.mass("all")

    @cached_property
    def entropy(self) -> PerRow:
        """Entropy of each row in nats, 0 ln 0 = 0."""
        first: PerRow = torch.special.entr(self.first)
        return self.rest_entropy + first

    @cached_property
    def rest_entropy(self) -> PerRow:
        """What keys other than the first add to it, exact where the first has nearly all."""
        rest = slice(0 if self.block.first_key else 1, None)
        if self.block.scores is None:
            return entropy(self.block.probs[..., rest])
        return self._rest_entropy_by_scores(self.block.scores, rest)

    def _rest_entropy_by_scores(self, scores: Tensor, rest: slice) -> PerRow:
        """The same from the scores whose softmax the rows are: no logarithm but one a row.

        ln p is the score minus that of the strongest key, plus the logarithm of the strongest p.
        """
        # Softmax is taken of half-precision scores in float32, and so are its logarithms.
        probs, scores = self.block.probs, scores.to(self.block.probs.dtype)
        best, strongest = scores.amax(-1), probs.amax(-1).double()
        logs = strongest.clamp(min=torch.finfo(probs.dtype).tiny).log()
        mass = self.rest_mass("all")
        if probs.shape[3] <= EXACT_KEYS:
            below = (scores[..., rest] - best.unsqueeze(-1)).mul_(probs[..., rest])
            found = -below.sum(-1, dtype=torch.float64) - logs * mass
        else:
            # One product a row, without a second map.
            product = torch.einsum("bhrk,bhrk->bhr", probs[..., rest], scores[..., rest]).double()
            found = (best.double() - logs) * mass - product
        # An emptied row of padding, whose scores may be NaN, has none.
        return torch.where(mass > 0, found.clamp(min=0), 0.0)

    @property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        return self.rest_distance + self.first * self._row_numbers

    @cached_property
    def rest_distance(self) -> PerRow:
        """The same without j = 0: a difference would be lost in rounding where j = 0 has most."""
        if self.block.probs.shape[3] > EXACT_KEYS:
            return self._rest_distance_by_parts()
        apart = (self._key_numbers - self._row_numbers.unsqueeze(1)).abs().to(self._probs.dtype)
        apart[:, self._key_numbers == 0] = 0
        return (self._probs * apart).sum(-1).double()

    def _rest_distance_by_parts(self) -> PerRow:
        """Keys before and after the block's own places by their distance from its start.

        Row i is i - start further from the ones, and nearer to the others; only the part around the
        diagonal is weighed cell by cell.
        """
        start, stop, keys = self.block.start, self.block.stop, self._key_numbers
        before, to_before, after, to_after = self._sums[:, :, -4:].unbind(2)
        further = (self._row_numbers - start).double()
        sums = to_before + further * before + to_after - further * after
        near = (keys >= start) & (keys < stop) & (keys > 0)
        apart = (keys[near] - self._row_numbers.unsqueeze(1)).abs()
        return sums + (self._probs[..., near] * apart).sum(-1).double()

    def _by_distance(self) -> Tensor:
        """[4, K] the keys before the block, their distance from its start, and those after it."""
        start, keys = self.block.start, self._key_numbers
        before, after = (keys < start) & (keys > 0), keys >= self.block.stop
        return torch.stack([before, before * (start - keys), after, after * (keys - start)])

    @property
    def n_visible(self) -> Tensor:
        """[B, rows] number of keys that the query may see."""
        return self.sight.n_keys

    @cached_property
    def first(self) -> PerRow:
        """A[i, 0]."""
        column = self.block.probs[..., 0].double()
        return torch.zeros_like(column) if self.block.first_key else column

    def mass(self, name: str) -> PerRow:
        """Attention to a set of tokens."""
        holds_first = self.keys.sets[name][:, :1].unsqueeze(1)
        return self.rest_mass(name) + self.first * holds_first

    def rest_mass(self, name: str) -> PerRow:
        """Attention to a set of tokens, the first token left out."""
        place = self.keys.columns[0].get(name)
        if place is None:
            return torch.zeros_like(self.first)
        return self._sums[:, :, place]

    def has(self, name: str) -> Tensor:
        """[B, 1] whether the sentence has such a token."""
        return self.keys.any_of(name)

    def cell(self, offset: int) -> PerRow:
        """A[i, i + offset], 0 where there is no such key."""
        if offset not in self._cells:
            columns, exists = self._columns(offset)
            at = columns.clamp(0, self.block.probs.shape[3] - 1).view(1, 1, -1, 1)
            cells = self.block.probs.gather(3, at.expand(*self.block.probs.shape[:2], -1, -1))
            self._cells[offset] = cells.squeeze(3).double() * exists
        return self._cells[offset]

    def has_cell(self, offset: int) -> Tensor:
        """[B, rows] whether the query may see the key at i + offset."""
        columns, exists = self._columns(offset)
        at = columns.clamp(0, self.block.probs.shape[3] - 1).view(1, -1, 1)
        seen = self._visible.gather(2, at.expand(len(self._visible), -1, -1)).squeeze(2)
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
        return (self._rows.rest_entropy * self._factor + logs).clamp(min=0)

    @cached_property
    def distance(self) -> PerRow:
        """sum_j A[i,j] |i - j|."""
        return self._rows.rest_distance * self._factor

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
