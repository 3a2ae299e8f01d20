"""Surface measures summed over the query rows of one batch, in every way they are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from headscope.extraction.digest import EXACT_KEYS, Digest, digest, join
from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask
from headscope.extraction.measures import MEASURES
from headscope.extraction.observers import Block
from headscope.extraction.rows import Kept, Rows, Sight, WithoutFirst, sight
from headscope.extraction.tokens import Tokens, describe_tokens

WAYS = ("all", "without_first", "first_text", "second_text")
"""Ways in which every measure is taken: over all rows as they are; over all rows with the first
token left out and the rest renormalised; over the rows of one text of a pair, as they are."""

_Place = tuple[Mask | None, int, int]
"""Mask and rows: what facts depend on within a batch."""

N_TEXTLESS = 2
"""How many of them, the first ones, need no pairs."""

WAITING_BYTES = 16 * 2**20
"""Digests of layers that wait for others, so that measures are taken of all of them at once."""

_WITHOUT_FIRST = WAYS.index("without_first")


@dataclass(frozen=True)
class _Facts:
    """What is the same for every layer whose queries see the same keys, for some rows.

    Attributes:
        sight: how much the queries may see.
        queries: marks on their tokens.
        weights: [V, M, B, rows] float64, 1 at the rows for which the measure exists.
        active: [V][M] whether the measure exists for any of these rows.
        uniform, uniform_counts: [V, M] float64 sums for attention uniform over the visible keys.
    """

    sight: Sight
    queries: Tokens
    weights: Tensor
    active: list[list[bool]]
    uniform: Tensor
    uniform_counts: Tensor


class RowSums:
    """Sums over rows of a batch that is still running through the model; `finish` completes them.

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
        self._known: dict[_Place, _Facts] = {}
        self._waiting: dict[_Place, list[tuple[int, Digest]]] = {}
        self._bytes = 0

    def add(self, block: Block) -> None:
        """Takes in some rows of one layer."""
        place = (block.mask, block.start, block.stop)
        if place not in self._known:
            self._known[place] = self._found(block)
        found = digest(block, self.keys)
        self._waiting.setdefault(place, []).append((block.layer, found))
        self._bytes += found.values.nbytes
        if self._bytes > WAITING_BYTES:
            self.finish()

    def finish(self) -> None:
        """Brings the sums up to what was taken in."""
        for place, waiting in self._waiting.items():
            facts = self._known[place]
            layers = [layer for layer, _ in waiting]
            sums, undefined = self._sums(join([found for _, found in waiting]), facts)
            by_layer = (len(self.batch), len(layers), -1)
            self.sums[:, layers] += sums.view(*by_layer, *sums.shape[2:])
            self.undefined[:, layers] += undefined.view(*by_layer, undefined.shape[2])
            self.counts[:, layers] += facts.weights.sum(3).permute(2, 0, 1).unsqueeze(1)
            self.uniform[layers] += facts.uniform
            self.uniform_counts[layers] += facts.uniform_counts
        self._waiting, self._bytes = {}, 0

    def _sums(self, found: Digest, facts: _Facts) -> tuple[Tensor, Tensor]:
        """[B, H, V, M] sums, and [B, H, M] rows that are undefined without the first token."""
        rows = Kept(found, facts.sight, facts.queries, self.keys, self.has_sinks)
        without = WithoutFirst(rows)
        n_batch, n_heads = found.values.shape[:2]
        sums = self.sums.new_zeros(n_batch, n_heads, *self.sums.shape[3:])
        as_they_are = [place for place in range(len(self.ways)) if place != _WITHOUT_FIRST]
        for taken, ways in ((rows, as_they_are), (without, [_WITHOUT_FIRST])):
            for place, measure in enumerate(MEASURES.values()):
                if facts.active[ways[0]][place]:
                    weights = facts.weights[ways, place].permute(1, 2, 0)
                    sums[:, :, ways, place] = measure.value(taken) @ weights
        missing = (~without.defined).double()
        return sums, missing @ facts.weights[_WITHOUT_FIRST].permute(1, 2, 0)

    def _found(self, block: Block) -> _Facts:
        visible = block.visible()
        evenly = visible.to(torch.float64) / visible.sum(-1, keepdim=True).clamp(min=1)
        evenly = evenly if evenly.shape[3] <= EXACT_KEYS else evenly.float()
        found = digest(replace(block, probs=evenly, scores=None), self.keys)
        queries = self.queries.rows(block.start, block.stop)
        rows = Kept(found, sight(block), queries, self.keys, self.has_sinks)
        everywhere, without = self._weights(rows), self._weights(WithoutFirst(rows))
        by_way = [everywhere, without]
        for number in range(len(self.ways) - N_TEXTLESS):
            by_way.append(everywhere * (queries.has_texts & queries.sets[f"text {number}"]))
        weights = torch.stack(by_way)
        active = weights.flatten(2).any(2).tolist()
        nothing = self.uniform.new_zeros(2, *self.uniform.shape[1:])
        facts = _Facts(rows.sight, queries, weights, active, *nothing)
        sums, undefined = self._sums(found, facts)
        facts.uniform.copy_(sums.sum((0, 1)))
        facts.uniform_counts.copy_(weights.sum((2, 3)))
        facts.uniform_counts[_WITHOUT_FIRST] -= undefined.sum((0, 1))
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
