"""Surface patterns: how much of each head's attention goes where, whatever the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.measures import MEASURES, Tokens, Weights, describe_tokens
from headscope.extraction.observers import (
    BOOTSTRAP,
    MIN_UNITS,
    Block,
    Floats,
    Resampling,
    percentile_interval,
    refuse_unlike,
    run_of,
)
from headscope.results import HeadMap


@final
class Surface:
    """Adds up every surface measure for every head, under all resampling weights at once.

    Args:
        encoder: whose attention is watched.
        resampling: weights of the units.

    Attributes:
        sums: [C, L, H, M] float64, per weight column, layer, head and measure.
        counts: [C, M] float64 query rows.
        uniform: [M] float64 sums for attention uniform over the visible keys.
        units: per measure the smallest ids of units that have it, `MIN_UNITS` at most: enough to
            know if there are few.
    """

    needs: Literal["rows"] = "rows"

    def __init__(self, encoder: Encoder, resampling: Resampling) -> None:
        """Starts with empty sums."""
        self.encoder = encoder
        self.resampling = resampling
        n_columns = resampling.weights([0]).shape[1]
        self.sums: Floats = np.zeros((n_columns, encoder.n_layers, encoder.n_heads, len(MEASURES)))
        self.counts: Floats = np.zeros((n_columns, len(MEASURES)))
        self.uniform: Floats = np.zeros(len(MEASURES))
        self.units: list[frozenset[int]] = [frozenset() for _ in MEASURES]
        self._open: _OpenBatch | None = None

    def update(self, block: Block) -> None:
        """Takes in some rows of one layer, or all."""
        if self._open is None or self._open.batch is not block.batch:
            self._open = _OpenBatch.of(block.batch, self.encoder)
        self._open.add(block.layer, block.start, block.probs)

    def close(self, batch: Batch) -> None:
        """Adds the batch to the sums under every column of weights."""
        opened, self._open = self._open, None
        if opened is None or opened.batch is not batch:
            return
        weights = torch.from_numpy(self.resampling.weights([s.unit for s in batch.sentences])).T
        rows = torch.stack([m.n_rows(opened.tokens) for m in MEASURES.values()], 1).cpu()
        self.sums += (weights @ opened.totals.cpu().flatten(1)).view(self.sums.shape).numpy()
        self.counts += (weights @ rows).numpy()
        self.uniform += opened.uniform().cpu().numpy()
        units = np.array([s.unit for s in batch.sentences])
        bearing = [frozenset(units[has].tolist()) for has in (rows > 0).T.numpy()]
        self.units = _smallest(self.units, bearing)

    def __add__(self, other: Surface) -> Surface:
        """A new observer that has seen what both have seen.

        Raises:
            MergeError: other model, seed or corpus.
        """
        refuse_unlike(
            "surface sums",
            run_of(self.encoder, self.resampling),
            run_of(other.encoder, other.resampling),
        )
        whole = Surface(self.encoder, self.resampling)
        whole.sums = self.sums + other.sums
        whole.counts = self.counts + other.counts
        whole.uniform = self.uniform + other.uniform
        whole.units = _smallest(self.units, other.units)
        return whole

    def result(self) -> dict[str, HeadMap]:
        """Measure -> map; undefined measures are maps of NaN that say why."""
        return {name: self._head_map(i, name) for i, name in enumerate(MEASURES)}

    def _head_map(self, index: int, name: str) -> HeadMap:
        measure, counts = MEASURES[name], self.counts[:, index]
        n = int(counts[0])
        if n == 0:
            nothing = np.full(self.sums.shape[1:3], np.nan)
            return HeadMap(name, nothing, measure.units, 0, why_null=measure.why_none)
        item = HeadMap(
            name=name,
            values=self.sums[0, ..., index] / n,
            units=measure.units,
            n=n,
            uniform=float(self.uniform[index] / n),
        )
        if len(self.units[index]) < MIN_UNITS:
            reason = f"fewer than {MIN_UNITS} units to resample"
            return replace(item, why_no_interval=reason)
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = self.sums[BOOTSTRAP, ..., index] / counts[BOOTSTRAP, None, None]
        low, high = percentile_interval(replicates)
        return replace(item, low=low, high=high)


def _smallest(
    one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    pairs = zip(one, other, strict=True)
    return [frozenset(sorted(a | b)[:MIN_UNITS]) for a, b in pairs]


@dataclass
class _OpenBatch:
    """Sums of a batch that is still running through the model."""

    batch: Batch
    tokens: Tokens
    totals: Tensor
    """[B, L, H, M] float64."""
    weights: Weights

    @classmethod
    def of(cls, batch: Batch, encoder: Encoder) -> _OpenBatch:
        shape = (len(batch), encoder.n_layers, encoder.n_heads, len(MEASURES))
        totals = torch.zeros(shape, dtype=torch.float64, device=batch.valid.device)
        tokens = describe_tokens(batch, encoder)
        return cls(batch, tokens, totals, Weights(tokens, 0, 1))

    def add(self, layer: int, start: int, probs: Tensor) -> None:
        stop = start + probs.shape[2]
        if (self.weights.start, self.weights.stop) != (start, stop):
            self.weights = Weights(self.tokens, start, stop)
        self.totals[:, layer] += self.weights.totals(probs)

    def uniform(self) -> Tensor:
        """[M] sums for attention uniform over the visible keys."""
        whole = Weights(self.tokens, 0, self.tokens.valid.shape[1])
        return whole.totals(self.tokens.uniform).sum((0, 1))
