"""Surface measures summed over the query rows of one batch, in every way they are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask
from headscope.extraction.measures import MEASURES
from headscope.extraction.observers import Block
from headscope.extraction.rows import EXACT_KEYS, Kept, Rows, Sight, WithoutFirst
from headscope.extraction.tokens import describe_tokens

WAYS = ("all", "without_first", "first_text", "second_text")
"""Ways in which every measure is taken: over all rows as they are; over all rows with the first
token left out and the rest renormalised; over the rows of one text of a pair, as they are."""

N_TEXTLESS = 2
"""How many of them, the first ones, need no pairs."""

_NAMES = tuple(MEASURES)


@dataclass(frozen=True)
class _Facts:
    """What is the same for every layer whose queries see the same keys, for some rows.

    Attributes:
        sight: how much the queries may see.
        weights: way -> [M, B, rows] float64, 1 at the rows for which the measure exists.
        active: way -> places of the measures that exist for any of these rows.
        uniform, uniform_counts: [V, M] float64 sums for attention uniform over the visible keys.
    """

    sight: Sight
    weights: dict[str, Tensor]
    active: dict[str, list[int]]
    uniform: Tensor
    uniform_counts: Tensor


class RowSums:
    """Sums over rows of a batch that is still running through the model.

    V ways: all of `WAYS` where the batch has pairs, else only those that take no text; M measures.

    Args:
        block: the first of the batch.
        encoder: whose attention it is.

    Attributes:
        ways: the V ways.
        sums: [B, L, H, V, M] float64.
        undefined: [B, L, H, M] float64 rows without mass once the first token is left out.
        counts: [B, L, V, M] float64 rows for which the measure exists.
        uniform, uniform_counts: [L, V, M] float64.
    """

    def __init__(self, block: Block, encoder: Encoder) -> None:
        """Starts with empty sums."""
        self.batch, self.has_sinks = block.batch, encoder.has_sinks
        self.square = block.keys is block.batch
        self.queries = describe_tokens(block.batch, encoder)
        self.keys = self.queries if self.square else describe_tokens(block.keys, encoder)
        self.ways = WAYS if self.queries.has_texts.any() else WAYS[:N_TEXTLESS]
        zeros = partial(torch.zeros, dtype=torch.float64, device=block.probs.device)
        batch, layers, heads = len(block.batch), encoder.n_layers, encoder.n_heads
        taken = (len(self.ways), len(MEASURES))
        self.sums = zeros(batch, layers, heads, *taken)
        self.undefined = zeros(batch, layers, heads, len(MEASURES))
        self.counts = zeros(batch, layers, *taken)
        self.uniform = zeros(layers, *taken)
        self.uniform_counts = zeros(layers, *taken)
        self._known: dict[tuple[Mask | None, int, int], _Facts] = {}

    def add(self, block: Block) -> None:
        """Takes in some rows of one layer."""
        facts = self._facts(block)
        sums, undefined = self._sums(self._kept(block, facts.sight), facts)
        self.sums[:, block.layer] += sums
        self.undefined[:, block.layer] += undefined
        for place, way in enumerate(self.ways):
            self.counts[:, block.layer, place] += facts.weights[way].sum(2).T
        self.uniform[block.layer] += facts.uniform
        self.uniform_counts[block.layer] += facts.uniform_counts

    def _kept(self, block: Block, sight: Sight | None = None) -> Kept:
        return Kept(block, self.queries, self.keys, self.has_sinks, sight)

    def _sums(self, rows: Kept, facts: _Facts) -> tuple[Tensor, Tensor]:
        """[B, H, V, M] sums, and [B, H, M] rows that are undefined without the first token."""
        n_batch, n_heads = rows.block.probs.shape[:2]
        sums = self.sums.new_zeros(n_batch, n_heads, *self.sums.shape[3:])
        undefined = self.sums.new_zeros(n_batch, n_heads, len(MEASURES))
        without = WithoutFirst(rows)
        for place, way in enumerate(self.ways):
            if not (active := facts.active[way]):
                continue
            values = _values(without if way == "without_first" else rows, active)
            weights = facts.weights[way][active]
            sums[:, :, place, active] = torch.einsum("mbhr,mbr->bhm", values, weights)
            if way == "without_first":
                missing = (~without.defined).double()
                undefined[..., active] = torch.einsum("bhr,mbr->bhm", missing, weights)
        return sums, undefined

    def _facts(self, block: Block) -> _Facts:
        key = (block.mask, block.start, block.stop)
        if key not in self._known:
            self._known[key] = self._found(block)
        return self._known[key]

    def _found(self, block: Block) -> _Facts:
        visible = block.visible()
        evenly = visible.to(torch.float64) / visible.sum(-1, keepdim=True).clamp(min=1)
        evenly = evenly if evenly.shape[3] <= EXACT_KEYS else evenly.float()
        rows = self._kept(replace(block, probs=evenly, scores=None))
        weights = {"all": self._weights(rows), "without_first": self._weights(WithoutFirst(rows))}
        for number, way in enumerate(self.ways[N_TEXTLESS:]):
            of_text = rows.queries.has_texts & rows.queries.sets[f"text {number}"]
            weights[way] = weights["all"] * of_text
        active = {
            way: held.flatten(1).any(1).nonzero().flatten().tolist()
            for way, held in weights.items()
        }
        nothing = self.uniform.new_zeros(2, *self.uniform.shape[1:])
        facts = _Facts(rows.sight, weights, active, *nothing)
        sums, undefined = self._sums(rows, facts)
        facts.uniform.copy_(sums.sum((0, 1)))
        for place, way in enumerate(self.ways):
            facts.uniform_counts[place] = weights[way].sum((1, 2))
        facts.uniform_counts[WAYS.index("without_first")] -= undefined.sum((0, 1))
        return facts

    def _weights(self, rows: Rows) -> Tensor:
        """[M, B, rows] 1 at the rows, padding left out, for which each measure exists."""
        valid = rows.queries.scored
        nowhere = torch.zeros_like(valid)
        there = [
            valid & m.exists(rows) if self.square or not m.square else nowhere
            for m in MEASURES.values()
        ]
        return torch.stack(there).double()


def _values(rows: Rows, places: Sequence[int]) -> Tensor:
    """[n, B, H, rows] float64 values of the measures at these places of `MEASURES`."""
    return torch.stack([MEASURES[_NAMES[place]].value(rows) for place in places])
