"""Surface patterns: how much of each head's attention goes where, whatever the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Literal, final

import numpy as np
import torch

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.measures import MEASURES, NOT_SQUARE, Measure
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
from headscope.probing.row_sums import N_TEXTLESS, WAYS, RowSums
from headscope.results import HeadMap

_REASONS = {
    "without_first": "it does not exist once the first token is left out",
    "first_text": "the first text of no pair has such a row",
    "second_text": "the second text of no pair has such a row",
}
"""Way -> why a measure that exists for all tokens does not exist there."""


@final
class Surface:
    """Adds up every surface measure for every head, under all resampling weights at once.

    V ways, the first of `row_sums.WAYS` (all of them once a pair was seen), M measures, C columns
    of weights.

    Args:
        encoder: whose attention is watched.
        resampling: weights of the units.

    Attributes:
        sums: [C, L, H, V, M] float64.
        counts: [C, L, V, M] float64 query rows for which the measure exists.
        undefined: [C, L, H, M] float64 those of them that have no mass once the first token is
            left out.
        uniform: [L, V, M] float64 sums for attention uniform over the visible keys.
        uniform_counts: [L, V, M] float64 rows for which these exist.
        units: per way and measure the smallest ids of units that have it, `MIN_UNITS` at most:
            enough to know if there are few.
    """

    needs: Literal["rows"] = "rows"

    def __init__(self, encoder: Encoder, resampling: Resampling) -> None:
        """Starts with empty sums."""
        self.encoder = encoder
        self.resampling = resampling
        n_columns = resampling.weights([0]).shape[1]
        heads, ways = (encoder.n_layers, encoder.n_heads), (N_TEXTLESS, len(MEASURES))
        self.sums: Floats = np.zeros((n_columns, *heads, *ways))
        self.counts: Floats = np.zeros((n_columns, encoder.n_layers, *ways))
        self.undefined: Floats = np.zeros((n_columns, *heads, len(MEASURES)))
        self.uniform: Floats = np.zeros((encoder.n_layers, *ways))
        self.uniform_counts: Floats = np.zeros_like(self.uniform)
        self.units: list[frozenset[int]] = [frozenset()] * (ways[0] * ways[1])
        self._open: RowSums | None = None

    @property
    def ways(self) -> tuple[str, ...]:
        """The V ways."""
        return WAYS[: self.sums.shape[3]]

    def update(self, block: Block) -> None:
        """Takes in some rows of one layer, or all."""
        if self._open is None or self._open.batch is not block.batch:
            self._open = RowSums(block, self.encoder)
        self._open.add(block)

    def close(self, batch: Batch) -> None:
        """Adds the batch to the sums under every column of weights."""
        opened, self._open = self._open, None
        if opened is None or opened.batch is not batch:
            return
        opened.finish()
        units = np.array([s.unit for s in batch.sentences])
        weights = torch.from_numpy(self.resampling.weights(units)).T
        rows = opened.counts.cpu().sum(1).flatten(1)
        bearing = [frozenset(units[has].tolist()) for has in (rows > 0).T.numpy()]
        if len(opened.ways) > len(self.ways):
            self._take_texts()
        taken = slice(0, len(opened.ways))
        for name in ("sums", "counts"):
            held: Floats = getattr(self, name)[..., taken, :]
            held += (weights @ getattr(opened, name).cpu().flatten(1)).view(held.shape).numpy()
        undefined = opened.undefined.cpu()
        self.undefined += (weights @ undefined.flatten(1)).view(self.undefined.shape).numpy()
        self.uniform[:, taken] += opened.uniform.cpu().numpy()
        self.uniform_counts[:, taken] += opened.uniform_counts.cpu().numpy()
        self.units = _smallest(self.units, bearing)

    def _take_texts(self) -> None:
        """Makes room for the ways that only pairs have."""
        more = len(WAYS) - len(self.ways)
        for name in ("sums", "counts", "uniform", "uniform_counts"):
            held: Floats = getattr(self, name)
            room = [(0, 0)] * (held.ndim - 2) + [(0, more), (0, 0)]
            setattr(self, name, np.pad(held, room))
        self.units += [frozenset()] * (more * len(MEASURES))

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
        if len(WAYS) in (len(self.ways), len(other.ways)):
            whole._take_texts()
        for part in (self, other):
            taken = slice(0, len(part.ways))
            for name in ("sums", "counts", "uniform", "uniform_counts"):
                getattr(whole, name)[..., taken, :] += getattr(part, name)
            whole.undefined += part.undefined
            whole.units = _smallest(whole.units, part.units)
        return whole

    def result(self) -> dict[str, HeadMap]:
        """Measure -> map over all rows as they are; undefined ones are NaN and say why."""
        return {name: self._head_map("all", name) for name in MEASURES}

    def variants(self) -> dict[str, dict[str, HeadMap]]:
        """The other ways in which the measures are taken -> measure -> map."""
        others = self.ways[1:]
        return {way: {name: self._head_map(way, name) for name in MEASURES} for way in others}

    def _head_map(self, way: str, name: str) -> HeadMap:
        measure, place = MEASURES[name], (WAYS.index(way), list(MEASURES).index(name))
        rows = np.repeat(self.counts[(..., None, *place)], self.encoder.n_heads, axis=2)
        undefined = self.undefined[..., place[1]] if way == "without_first" else None
        rows = rows if undefined is None else rows - undefined
        n = int(self.counts[(0, slice(None), *place)].max())
        if not rows[0].any():
            nothing = np.full(self.sums.shape[1:3], np.nan)
            return HeadMap(name, nothing, measure.units, 0, why_null=self._why_none(measure, way))
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.sums[(..., *place)] / rows
            uniform = self.uniform[(..., *place)] / self.uniform_counts[(..., *place)]
        item = HeadMap(
            name=name,
            values=means[0],
            units=measure.units,
            n=n,
            uniform=float(np.nanmean(uniform)),
            uniform_by_layer=uniform,
            undefined=None if undefined is None else undefined[0],
        )
        if len(self.units[place[0] * len(MEASURES) + place[1]]) < MIN_UNITS:
            reason = f"fewer than {MIN_UNITS} units to resample"
            return replace(item, why_no_interval=reason)
        low, high = percentile_interval(means[BOOTSTRAP])
        return replace(item, low=low, high=high)

    def _why_none(self, measure: Measure, way: str) -> str:
        if measure.square and self.encoder.info.attention == "cross":
            return NOT_SQUARE
        in_all = self.counts[0, :, 0, list(MEASURES.values()).index(measure)].any()
        return _REASONS[way] if in_all else measure.why_none


def _smallest(
    one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    # A batch without pairs has fewer ways.
    pairs = zip_longest(one, other, fillvalue=frozenset[int]())
    return [frozenset(sorted(a | b)[:MIN_UNITS]) for a, b in pairs]
