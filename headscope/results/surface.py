"""Surface patterns of every head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        units: `probability`, `nats`, `share` (of the largest possible) or `tokens`.
        n: number of query rows over which the mean runs.
        uniform: the same measure for attention uniform over the visible keys, mean over layers,
            None where undefined.
        uniform_by_layer: [L] the same layer by layer, for layers need not see the same keys.
        undefined: [L, H] rows among the n that have no mass once the first token is left out and
            are in no mean; None where no token is left out.
        low, high: [L, H] bounds of the 95 % interval, None where there is none.
        why_null: why `values` are undefined, else None.
        why_no_interval: why there is no interval, else None.
    """

    name: str
    values: Array
    units: str
    n: int
    uniform: float | None = None
    uniform_by_layer: Array | None = None
    undefined: Array | None = None
    low: Array | None = None
    high: Array | None = None
    why_null: str | None = None
    why_no_interval: str | None = None

    @property
    def differs_by_layer(self) -> bool:
        """Whether uniform attention would give layers different values."""
        found = self.uniform_by_layer
        return found is not None and bool(np.nanmax(found) - np.nanmin(found) > 1e-9)


_COLUMNS = ("measure", "way", "layer", "head", "value", "low", "high", "uniform", "units", "n")

WAY_LABELS: Mapping[str, str] = {
    "all": "all tokens",
    "without_first": "first token left out",
    "first_text": "from the first text",
    "second_text": "from the second text",
}
"""Ways in which every measure is taken, as people read them."""


@final
@dataclass(frozen=True, repr=False)
class SurfaceResult(Result):
    """Mean of each surface measure over the query rows of the corpus, per head.

    Attributes:
        measures: name -> map, in the order in which measures are defined.
        variants: the same measures taken in other ways (`WAY_LABELS`) -> name -> map.
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
        "entropy_from_cls: of that token's row; entropy_relative: entropy over ln of the number of "
        "keys that the query may see, rows that see one key left out; distance: sum_j A[i,j]|i-j| "
        "in tokens; other_segment: mass on tokens with the other segment id, special tokens "
        "included; other_text: from a token of one text of a pair to those of the other, special "
        "tokens left out; sink: what a row lacks to 1, taken by an extra score without a token. "
        "'uniform' is the same measure for attention uniform over the visible keys of the same "
        "text, mean over layers. variants: the same measures taken otherwise; without_first: the "
        "first token left out of every row and the rest renormalised, rows without other mass "
        "(under 1e-9) in no mean and counted in 'undefined', rows of the first token kept; "
        "first_text, second_text: over the rows of that text of a pair, special tokens left out. "
        "ci95: percentile bootstrap over units, 200 Poisson(1) replicates."
    )

    measures: Mapping[str, HeadMap]
    variants: Mapping[str, Mapping[str, HeadMap]] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """{measure: [L][H]}."""
        return _values(self.measures)

    def intervals(self) -> dict[str, Any]:
        """{measure: {low: [L][H], high: [L][H]}}, None where there is no interval."""
        return _intervals(self.measures)

    def nulls(self) -> dict[str, str]:
        """Reasons for undefined measures and missing intervals."""
        reasons = _nulls(self.measures)
        for way, measures in self.variants.items():
            reasons |= _nulls(measures, "variants", way)
        return reasons

    def blocks(self) -> dict[str, Any]:
        """`uniform`, `counts`, `units`: {measure: number or unit}; `variants`: {way: the same}."""
        variants = {
            way: {
                "values": _values(measures),
                "ci95": _intervals(measures),
                "undefined": {name: item.undefined for name, item in measures.items()},
                **_facts(measures),
            }
            for way, measures in self.variants.items()
        }
        units = {name: item.units for name, item in self.measures.items()}
        return {**_facts(self.measures), "units": units, "variants": variants}

    def all_ways(self) -> dict[str, HeadMap]:
        """Label -> map: measures, then what exists in other ways, then measures without values."""
        others = {
            f"{name}, {WAY_LABELS[way]}": item
            for way, measures in self.variants.items()
            for name, item in measures.items()
            if not item.why_null
        }
        missing = {name: item for name, item in self.measures.items() if item.why_null}
        there = {name: item for name, item in self.measures.items() if not item.why_null}
        return {**there, **others, **missing}

    def to_frame(self) -> pd.DataFrame:
        """One row a measure, way, layer and head: value, low, high, uniform, units, n, control."""
        control = self.control if isinstance(self.control, SurfaceResult) else None
        ways = {"all": self.measures, **self.variants}
        others = {"all": control.measures, **control.variants} if control else {}
        frames = [
            _rows(item, way, others.get(way, {}).get(name), control is not None)
            for way, measures in ways.items()
            for name, item in measures.items()
            if not item.why_null
        ]
        if not frames:
            return pd.DataFrame(columns=_COLUMNS)
        return pd.concat(frames, ignore_index=True)


def _values(measures: Mapping[str, HeadMap]) -> dict[str, Any]:
    return {name: None if item.why_null else item.values for name, item in measures.items()}


def _intervals(measures: Mapping[str, HeadMap]) -> dict[str, Any]:
    return {
        name: None if item.low is None else {"low": item.low, "high": item.high}
        for name, item in measures.items()
    }


def _facts(measures: Mapping[str, HeadMap]) -> dict[str, Any]:
    return {
        "uniform": {name: item.uniform for name, item in measures.items()},
        "uniform_by_layer": {name: item.uniform_by_layer for name, item in measures.items()},
        "counts": {name: item.n for name, item in measures.items()},
    }


def _nulls(measures: Mapping[str, HeadMap], *place: str) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for name, item in measures.items():
        if item.why_null:
            for part in ("values", "uniform", "uniform_by_layer"):
                reasons[pointer(*place, part, name)] = item.why_null
        if no_interval := item.why_null or item.why_no_interval:
            reasons[pointer(*place, "ci95", name)] = no_interval
        if place and item.undefined is None:
            reasons[pointer(*place, "undefined", name)] = item.why_null or "no token is left out"
    return reasons


def _rows(item: HeadMap, way: str, control: HeadMap | None, has_control: bool) -> pd.DataFrame:
    layers, heads = np.indices(item.values.shape)
    columns: dict[str, Any] = {
        "measure": item.name,
        "way": way,
        "layer": layers.ravel(),
        "head": heads.ravel(),
        "value": item.values.ravel(),
        "low": np.nan if item.low is None else item.low.ravel(),
        "high": np.nan if item.high is None else item.high.ravel(),
        "uniform": item.uniform,
        "units": item.units,
        "n": item.n,
    }
    if has_control:
        columns["control"] = np.nan if control is None else control.values.ravel()
    return pd.DataFrame(columns)
