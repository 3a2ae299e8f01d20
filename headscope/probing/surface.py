"""Surface patterns: how much of each head's attention goes where, whatever the words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from headscope.errors import MergeError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.measures import MEASURES, Tokens, View, describe_tokens
from headscope.extraction.observers import (
    BOOTSTRAP,
    MIN_UNITS,
    Floats,
    Resampling,
    percentile_interval,
)
from headscope.results import HeadMap


@final
class Surface:
    """Adds up every surface measure for every head, under all resampling weights at once.

    Args:
        encoder: whose attention is watched.
        resampling: weights of the units.

    Attributes:
        sums: [C, M, L, H] float64, per weight column, measure, layer and head.
        counts: [C, M] float64 query rows.
        uniform: [M] float64 sums for attention uniform over the visible keys.
        units: the smallest ids of units seen, `MIN_UNITS` at most: enough to know if there are few.
    """

    needs: Literal["rows"] = "rows"

    def __init__(self, encoder: Encoder, resampling: Resampling) -> None:
        """Starts with empty sums."""
        self.encoder = encoder
        self.resampling = resampling
        n_columns = resampling.weights([0]).shape[1]
        self.sums: Floats = np.zeros((n_columns, len(MEASURES), encoder.n_layers, encoder.n_heads))
        self.counts: Floats = np.zeros((n_columns, len(MEASURES)))
        self.uniform: Floats = np.zeros(len(MEASURES))
        self.units: frozenset[int] = frozenset()
        self._open: _OpenBatch | None = None

    def update(self, layer: int, start: int, probs: Tensor, batch: Batch) -> None:
        """Takes in rows start, start + 1, ... of one layer: probs [B, H, rows, T]."""
        if self._open is None or self._open.batch is not batch:
            self._open = _OpenBatch.of(batch, self.encoder)
        self._open.add(layer, View(probs, start, self._open.tokens))

    def close(self, batch: Batch) -> None:
        """Adds the batch to the sums under every column of weights."""
        opened, self._open = self._open, None
        if opened is None or opened.batch is not batch:
            return
        weights = self.resampling.weights([s.unit for s in batch.sentences])
        totals = opened.totals.cpu().numpy()
        flat = totals.reshape(len(batch), -1)
        self.sums += (weights.T @ flat).reshape(self.sums.shape)
        rows = torch.stack([m.n_rows(opened.tokens) for m in MEASURES.values()], 1).cpu().numpy()
        self.counts += weights.T @ rows
        self.uniform += opened.uniform().cpu().numpy()
        seen = self.units | {s.unit for s in batch.sentences}
        self.units = frozenset(sorted(seen)[:MIN_UNITS])

    def __add__(self, other: Surface) -> Surface:
        """A new observer that has seen what both have seen.

        Raises:
            MergeError: other seed, corpus or size of model.
        """
        if self.resampling != other.resampling or self.sums.shape != other.sums.shape:
            raise MergeError(
                f"cannot add surface sums of {self.resampling}, {self.sums.shape[2:]} to those of "
                f"{other.resampling}, {other.sums.shape[2:]}"
            )
        whole = Surface(self.encoder, self.resampling)
        whole.sums = self.sums + other.sums
        whole.counts = self.counts + other.counts
        whole.uniform = self.uniform + other.uniform
        whole.units = frozenset(sorted(self.units | other.units)[:MIN_UNITS])
        return whole

    def result(self) -> dict[str, HeadMap]:
        """Measure -> map; undefined measures are maps of NaN that say why."""
        return {name: self._head_map(i, name) for i, name in enumerate(MEASURES)}

    def _head_map(self, index: int, name: str) -> HeadMap:
        measure, counts = MEASURES[name], self.counts[:, index]
        n = int(counts[0])
        if n == 0:
            nothing = np.full(self.sums.shape[2:], np.nan)
            return HeadMap(name, nothing, measure.units, 0, why_null=measure.why_none)
        item = HeadMap(
            name=name,
            values=self.sums[0, index] / n,
            units=measure.units,
            n=n,
            uniform=float(self.uniform[index] / n),
        )
        if len(self.units) < MIN_UNITS:
            reason = f"fewer than {MIN_UNITS} units to resample"
            return replace(item, why_no_interval=reason)
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates = self.sums[BOOTSTRAP, index] / counts[BOOTSTRAP, None, None]
        low, high = percentile_interval(replicates)
        return replace(item, low=low, high=high)


@dataclass
class _OpenBatch:
    """Sums of a batch that is still running through the model."""

    batch: Batch
    tokens: Tokens
    totals: Tensor
    """[B, M, L, H] float64."""

    @classmethod
    def of(cls, batch: Batch, encoder: Encoder) -> _OpenBatch:
        shape = (len(batch), len(MEASURES), encoder.n_layers, encoder.n_heads)
        totals = torch.zeros(shape, dtype=torch.float64, device=batch.valid.device)
        return cls(batch, describe_tokens(batch, encoder), totals)

    def add(self, layer: int, view: View) -> None:
        for index, measure in enumerate(MEASURES.values()):
            self.totals[:, index, layer] += measure.total(view)

    def uniform(self) -> Tensor:
        view = View(self.tokens.uniform, 0, self.tokens)
        return torch.stack([measure.total(view).sum() for measure in MEASURES.values()])
