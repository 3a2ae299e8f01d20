"""Surface patterns of every head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd

from headscope.results.envelope import Array, Result, pointer


@dataclass(frozen=True)
class HeadMap:
    """One quantity for every head.

    Attributes:
        name: of the measure.
        values: [L, H], NaN where undefined.
        units: `probability`, `nats` or `tokens`.
        n: number of query rows over which the mean runs.
        uniform: the same measure for attention uniform over the visible keys, None where undefined.
        low, high: [L, H] bounds of the 95 % interval, None where there is none.
        why_null: why `values` are undefined, else None.
        why_no_interval: why there is no interval, else None.
    """

    name: str
    values: Array
    units: str
    n: int
    uniform: float | None = None
    low: Array | None = None
    high: Array | None = None
    why_null: str | None = None
    why_no_interval: str | None = None


_COLUMNS = ("measure", "layer", "head", "value", "low", "high", "uniform", "units", "n")


@final
@dataclass(frozen=True)
class SurfaceResult(Result):
    """Mean of each surface measure over the query rows of the corpus, per head.

    Attributes:
        measures: name -> map, in the order in which measures are defined.
    """

    kind: ClassVar[str] = "surface"
    definition: ClassVar[str] = (
        "Per head [layer][head], 0-based, over the subword tokens of each sequence, special tokens "
        "included, padding never. A[i,j] is attention from query i to key j. Each measure is a sum "
        "over the query rows for which it exists, divided by their number, pooled over the corpus. "
        "previous, next, self, first: A[i,i-1], A[i,i+1], A[i,i], A[i,0]; cls, separator: mass on "
        "that token by id; special: mass on all special tokens; punctuation: mass on pieces whose "
        "text is exactly '.' or ','; punctuation_words: on words that are exactly '.' or ','; "
        "punctuation_all: on words with UPOS PUNCT; entropy in nats; entropy_from_first and "
        "entropy_from_cls: of that token's row; distance: sum_j A[i,j]|i-j| in tokens. 'uniform' "
        "is the same measure for attention uniform over the visible keys of the same text. ci95: "
        "percentile bootstrap over units, 200 Poisson(1) replicates."
    )

    measures: Mapping[str, HeadMap]

    def values(self) -> dict[str, Any]:
        """{measure: [L][H]}."""
        return {
            name: None if item.why_null else item.values for name, item in self.measures.items()
        }

    def intervals(self) -> dict[str, Any]:
        """{measure: {low: [L][H], high: [L][H]}}, None where there is no interval."""
        return {
            name: None if item.low is None else {"low": item.low, "high": item.high}
            for name, item in self.measures.items()
        }

    def nulls(self) -> dict[str, str]:
        """Reasons for undefined measures and missing intervals."""
        reasons: dict[str, str] = {}
        for name, item in self.measures.items():
            if item.why_null:
                reasons[pointer("values", name)] = item.why_null
                reasons[pointer("uniform", name)] = item.why_null
            if no_interval := item.why_null or item.why_no_interval:
                reasons[pointer("ci95", name)] = no_interval
        return reasons

    def blocks(self) -> dict[str, Any]:
        """`uniform` and `counts`: {measure: number}, `units`: {measure: unit}."""
        return {
            "uniform": {name: item.uniform for name, item in self.measures.items()},
            "counts": {name: item.n for name, item in self.measures.items()},
            "units": {name: item.units for name, item in self.measures.items()},
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a measure, layer and head: value, low, high, uniform, units, n (and control)."""
        frames = [self._rows(name) for name, item in self.measures.items() if not item.why_null]
        if not frames:
            return pd.DataFrame(columns=_COLUMNS)
        return pd.concat(frames, ignore_index=True)

    def _rows(self, name: str) -> pd.DataFrame:
        item = self.measures[name]
        layers, heads = np.indices(item.values.shape)
        columns: dict[str, Any] = {
            "measure": name,
            "layer": layers.ravel(),
            "head": heads.ravel(),
            "value": item.values.ravel(),
            "low": np.nan if item.low is None else item.low.ravel(),
            "high": np.nan if item.high is None else item.high.ravel(),
            "uniform": item.uniform,
            "units": item.units,
            "n": item.n,
        }
        if isinstance(self.control, SurfaceResult):
            columns["control"] = self.control.measures[name].values.ravel()
        return pd.DataFrame(columns)
