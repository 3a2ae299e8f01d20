"""What surface measures need of some query rows of attention: a few numbers a row, without keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headscope.extraction.observers import Block
from headscope.extraction.tokens import Tokens
from headscope.shapes import PerRow, Probs

EXACT_KEYS = 1024
"""Up to so many keys a row is summed in float64; longer ones in float32, and rows in float64."""

OFFSETS = (-1, 0, 1)
"""Places of keys, seen from the query, whose attention measures ask for."""

_OWN = ("first", "rest_entropy", "rest_distance")


@dataclass(frozen=True)
class Digest:
    """Query rows start, start + 1, ... of one layer or, head beside head, of several.

    Attributes:
        start: number of the first row.
        values: [B, H, 3 + O + N, rows] float64: A[i, 0]; entropy and distance without the first
            token; A[i, i + offset] for each of the O offsets; attention to each set of
            `Tokens.columns`, the first token left out.
        offsets: the O offsets.
    """

    start: int
    values: Tensor
    offsets: Sequence[int] = OFFSETS

    def __getitem__(self, name: str) -> PerRow:
        """[B, H, rows]: `first`, `rest_entropy` or `rest_distance`."""
        return self.values[:, :, _OWN.index(name)]

    def cell(self, offset: int) -> PerRow:
        """[B, H, rows] A[i, i + offset], 0 where there is no such key."""
        return self.values[:, :, len(_OWN) + self.offsets.index(offset)]

    def mass(self, column: int) -> PerRow:
        """[B, H, rows] attention to a set by its column in `Tokens.columns`."""
        return self.values[:, :, len(_OWN) + len(self.offsets) + column]

    @property
    def row_numbers(self) -> Tensor:
        """[rows] places of the queries."""
        stop = self.start + self.values.shape[3]
        return torch.arange(self.start, stop, device=self.values.device)


def join(parts: Sequence[Digest]) -> Digest:
    """The same rows of several layers, head beside head."""
    return replace(parts[0], values=torch.cat([part.values for part in parts], 1))


def digest(block: Block, keys: Tokens, offsets: Sequence[int] = OFFSETS) -> Digest:
    """What measures need of a block; keys: marks on all tokens of the keys."""
    columns, exists = columns_of(block, (None, *offsets))
    at = columns.clamp(0, block.probs.shape[3] - 1).expand(*block.probs.shape[:2], -1, -1)
    cells = block.probs.gather(3, at).double().mul_(exists).transpose(2, 3)
    first, last = block.first_key, block.first_key + block.probs.shape[3]
    weights = keys.columns[1][:, first:last].transpose(1, 2)
    of_rows = _exactly if block.probs.shape[3] <= EXACT_KEYS else _of_long
    sums, distance = of_rows(block, weights)
    rest = torch.stack([_rest_entropy(block, sums[:, :, keys.columns[0]["all"]]), distance], 2)
    values = torch.cat([cells[:, :, :1], rest, cells[:, :, 1:], sums], 2)
    return Digest(block.start, values, offsets)


def columns_of(block: Block, offsets: Sequence[int | None]) -> tuple[Tensor, Tensor]:
    """[rows, O] columns of the keys at each offset from the query, and whether they are there.

    None stands for the first token.
    """
    rows = torch.arange(block.start, block.stop, device=block.probs.device)
    places = [torch.zeros_like(rows) if o is None else rows + o for o in offsets]
    columns = torch.stack(places, 1) - block.first_key
    return columns, (columns >= 0) & (columns < block.probs.shape[3])


def _exactly(block: Block, weights: Tensor) -> tuple[Tensor, PerRow]:
    """Sums over sets of tokens [B, H, N, rows], and distances, of rows that are not long."""
    rows, keys = _places(block)
    # One product a sequence, the few weights on its left: a product a head takes twice as long.
    all_rows = block.probs.double().flatten(1, 2)
    n_batch, n_heads, n_rows, _ = block.probs.shape
    sums = (weights @ all_rows.transpose(1, 2)).view(n_batch, -1, n_heads, n_rows).transpose(1, 2)
    apart = ((keys - rows.unsqueeze(1)).abs() * (keys > 0)).to(block.probs.dtype)
    return sums, (block.probs * apart).sum(-1, dtype=torch.float64)


def _of_long(block: Block, weights: Tensor) -> tuple[Tensor, PerRow]:
    """The same of long rows, which are read once for all, and a second time around the diagonal.

    Keys before and after the block's own places count by their distance from its start. Row i is
    i - start further from the ones, and nearer to the others; only the part around the diagonal is
    weighed cell by cell.
    """
    start, stop, (rows, keys) = block.start, block.stop, _places(block)
    before, after = (keys < start) & (keys > 0), keys >= stop
    parts = [before, before * (start - keys), after, after * (keys - start)]
    by_distance = torch.stack(parts).to(weights.dtype).expand(len(weights), -1, -1)
    both = torch.cat([weights, by_distance], 1).unsqueeze(1).to(block.probs.dtype)
    product = (both @ block.probs.transpose(2, 3)).double()
    before, to_before, after, to_after = product[:, :, -4:].unbind(2)
    further = (rows - start).double()
    near = (keys >= start) & (keys < stop) & (keys > 0)
    apart = (keys[near] - rows.unsqueeze(1)).abs()
    around = (block.probs[..., near] * apart).sum(-1).double()
    distance = to_before + further * before + to_after - further * after + around
    return product[:, :, :-4], distance


def _places(block: Block) -> tuple[Tensor, Tensor]:
    """Numbers of the block's rows, and of its keys."""
    first, device = block.first_key, block.probs.device
    keys = torch.arange(first, first + block.probs.shape[3], device=device)
    return torch.arange(block.start, block.stop, device=device), keys


def _rest_entropy(block: Block, mass: PerRow) -> PerRow:
    """What keys other than the first, which have this mass, add to the entropy of each row.

    Of rows whose scores are at hand no logarithm is taken but one: ln p is the score minus that of
    the strongest key, plus the logarithm of the strongest p.
    """
    # As a difference from the whole it would be lost in rounding where the first key has most.
    rest = slice(0 if block.first_key else 1, None)
    if block.scores is None:
        return entropy(block.probs[..., rest])
    # Softmax is taken of half-precision scores in float32, and so are its logarithms.
    probs, scores = block.probs, block.scores.to(block.probs.dtype)
    best, strongest = scores.amax(-1), probs.amax(-1).double()
    logs = strongest.clamp(min=torch.finfo(probs.dtype).tiny).log()
    # Counted from the strongest: what tells large scores apart would be lost in rounding.
    below, probs = scores[..., rest] - best.unsqueeze(-1), probs[..., rest]
    if probs.shape[3] < EXACT_KEYS:
        total = below.mul_(probs).sum(-1, dtype=torch.float64)
    else:
        # A sum in float64 would hold the whole block in float64.
        total = torch.einsum("bhrk,bhrk->bhr", below, probs).double()
    found = -total - logs * mass
    # An emptied row of padding, whose scores may be NaN, has none.
    return torch.where(mass > 0, found.clamp(min=0), 0.0)


def entropy(probs: Probs) -> PerRow:
    """Entropy of each row in nats, 0 ln 0 = 0: [B, H, rows, T] -> [B, H, rows] float64.

    >>> entropy(torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]]))
    tensor([[[0.6931, 0.0000]]], dtype=torch.float64)
    """
    # The smallest number in place of 0 keeps logarithm and gradient finite; 0 times it is 0.
    logs = probs.clamp(min=torch.finfo(probs.dtype).tiny).log_()
    # 0 minus the sum, for the negative of 0 is printed as -0.0.
    return 0.0 - logs.mul_(probs).sum(-1, dtype=torch.float64)
