"""From weighted hits to scores: best head, best offset, held-out choices, gain and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headscope.datasets import coarse
from headscope.extraction.observers import (
    BOOTSTRAP,
    MIN_CASES,
    MIN_UNITS,
    SPLITS,
    Floats,
    percentile_interval,
)
from headscope.results import DIRECTIONS, BestHead, Direction, OffsetBaseline, RelationScore
from headscope.results.envelope import Interval

OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4, -5, 5)
"""Fixed offsets of the baseline: predict the word that far to the right."""

# Ties go to the smallest |offset|, then the positive one.
_OFFSET_ORDER = tuple(sorted(range(len(OFFSETS)), key=lambda i: (abs(OFFSETS[i]), -OFFSETS[i])))


@dataclass(frozen=True)
class Tallies:
    """Weighted hits of one relation.

    Attributes:
        label: the relation, or the name of a total.
        hits: [C, 2, L, H] dependent_to_head first.
        offset_hits: [C, offsets] in the order of `OFFSETS`.
        visible: [2, L] arcs whose other end the attending word may see.
        cases: [C].
        few_units: whether fewer than `MIN_UNITS` units bear it.
    """

    label: str
    hits: Floats
    offset_hits: Floats
    visible: Floats
    cases: Floats
    few_units: bool

    @classmethod
    def of(cls, label: str, sums: Floats, shape: tuple[int, int], few_units: bool) -> Tallies:
        """From one entry of `Dependency.sums`; shape is (L, H)."""
        n_maps = 2 * shape[0] * shape[1]
        return cls(
            label=label,
            hits=sums[:, :n_maps].reshape(-1, 2, *shape),
            offset_hits=sums[:, n_maps : n_maps + len(OFFSETS)],
            visible=sums[0, n_maps + len(OFFSETS) : -1].reshape(2, shape[0]),
            cases=sums[:, -1],
            few_units=few_units,
        )

    @cached_property
    def heads(self) -> Floats:
        """[C, 2*L*H] accuracies, in the order in which ties are broken."""
        return _divide(self.hits.reshape(len(self.cases), -1), self.cases)

    @cached_property
    def offsets(self) -> Floats:
        """[C, offsets] accuracies, in the order in which ties are broken."""
        return _divide(self.offset_hits[:, _OFFSET_ORDER], self.cases)

    def without_intervals(self) -> str | None:
        """Why there can be no interval."""
        return f"fewer than {MIN_UNITS} units bear it" if self.few_units else None

    def without_held_out(self) -> str | None:
        """Why there can be no held-out figure."""
        one_half = self.cases[SPLITS]
        if self.few_units:
            return self.without_intervals()
        if min(one_half.min(), (self.cases[0] - one_half).min()) < MIN_CASES:
            return f"under {MIN_CASES} cases in a half"
        return None


@dataclass(frozen=True)
class _HeldOut:
    """Choices made on one half of the units and scored on the other, all splits, both ways.

    Attributes:
        accuracy: mean over splits and ways.
        chosen: [2 * splits] what was chosen.
    """

    accuracy: float
    chosen: np.typing.NDArray[np.int64]

    @classmethod
    def of(cls, hits: Floats, cases: Floats) -> _HeldOut:
        """From hits [C, candidates] in tie order, and cases [C]."""
        halves = np.concatenate([hits[SPLITS], hits[0] - hits[SPLITS]])
        sizes = np.concatenate([cases[SPLITS], cases[0] - cases[SPLITS]])
        scores = halves / sizes[:, None]
        chosen = scores.argmax(1)
        others = np.roll(scores, len(scores) // 2, axis=0)
        return cls(float(others[np.arange(len(chosen)), chosen].mean()), chosen)

    def replicates(self, accuracies: Floats) -> Floats:
        """[bootstrap] mean accuracy of the chosen ones under each replicate of the weights."""
        replicates: Floats = accuracies[BOOTSTRAP][:, self.chosen].mean(1)
        return replicates


def score(tallies: Tallies, unseen: Sequence[int] = ()) -> RelationScore:
    """All figures of one relation; what cannot be had is None, with its reason in `nulls`.

    Accuracies of layers that are `unseen` are NaN.
    """
    n_layers, n_heads = tallies.hits.shape[2:]
    heads, offsets = tallies.heads[0], tallies.offsets[0]
    best, offset = int(heads.argmax()), int(offsets.argmax())
    place = np.unravel_index(best, (2, n_layers, n_heads))
    accuracy = heads.reshape(2, n_layers, n_heads).copy()
    accuracy[:, list(unseen)] = np.nan
    ceiling = tallies.visible / tallies.cases[0]
    nulls: dict[str, str] = {}
    low = high = None
    ci95: Interval | None = None
    if reason := tallies.without_intervals():
        nulls["best.ci95"] = reason
    else:
        bounds = percentile_interval(tallies.heads[BOOTSTRAP])
        ci95 = (float(bounds[0][best]), float(bounds[1][best]))
        low, high = (_by_direction(b.reshape(accuracy.shape)) for b in bounds)
    held = _held_out(tallies, nulls)
    return RelationScore(
        label=tallies.label,
        count=round(float(tallies.cases[0])),
        accuracy=_by_direction(accuracy),
        low=low,
        high=high,
        best=BestHead(
            layer=int(place[1]),
            head=int(place[2]),
            direction=DIRECTIONS[int(place[0])],
            accuracy=float(heads[best]),
            ci95=ci95,
            n_tied=int((heads == heads[best]).sum()),
            held_out_accuracy=held.head,
            held_out_ci95=held.head_ci95,
            ceiling=float(ceiling[place[0], place[1]]),
        ),
        ceiling=_by_direction(ceiling),
        offset_baseline=OffsetBaseline(
            OFFSETS[_OFFSET_ORDER[offset]], float(offsets[offset]), held.offset
        ),
        gain=held.gain,
        gain_ci95=held.gain_ci95,
        nulls=nulls,
    )


@dataclass(frozen=True)
class _HeldOutFigures:
    head: float | None = None
    head_ci95: Interval | None = None
    offset: float | None = None
    gain: float | None = None
    gain_ci95: Interval | None = None


def _held_out(tallies: Tallies, nulls: dict[str, str]) -> _HeldOutFigures:
    if reason := tallies.without_held_out():
        names = ("best.held_out_accuracy", "best.held_out_ci95", "gain", "gain_ci95")
        nulls.update(dict.fromkeys((*names, "offset_baseline.held_out_accuracy"), reason))
        return _HeldOutFigures()
    n_columns = len(tallies.cases)
    head = _HeldOut.of(tallies.hits.reshape(n_columns, -1), tallies.cases)
    offset = _HeldOut.of(tallies.offset_hits[:, _OFFSET_ORDER], tallies.cases)
    of_head = head.replicates(tallies.heads)
    of_offset = offset.replicates(tallies.offsets)
    gain = head.accuracy - offset.accuracy
    full_head = float(tallies.heads[0, head.chosen].mean())
    full_gain = full_head - float(tallies.offsets[0, offset.chosen].mean())
    return _HeldOutFigures(
        head=head.accuracy,
        head_ci95=_centred(of_head, full_head, head.accuracy, 0.0),
        offset=offset.accuracy,
        gain=gain,
        gain_ci95=_centred(of_head - of_offset, full_gain, gain, -1.0),
    )


def _centred(replicates: Floats, centre: float, figure: float, lowest: float) -> Interval:
    """The interval of the replicates, moved from where they are centred to the figure."""
    low, high = percentile_interval(replicates - centre + figure)
    return float(np.clip(low, lowest, 1.0)), float(np.clip(high, lowest, 1.0))


def totals_of(
    sums: Mapping[str, Floats],
    units: Mapping[str, frozenset[int]],
    shape: tuple[int, int],
    unseen: Sequence[int] = (),
) -> tuple[dict[str, RelationScore], dict[str, RelationScore]]:
    """(scores per relation, most frequent first; scores over all arcs and without punctuation)."""
    few = {label: len(units[label]) < MIN_UNITS for label in sums}
    order = sorted(sums, key=lambda label: (-sums[label][0, -1], label))
    relations = {
        label: score(Tallies.of(label, sums[label], shape, few[label]), unseen) for label in order
    }
    groups = {
        "all_arcs": list(sums),
        "no_punct": [label for label in sums if coarse(label) != "punct"],
    }
    overall = {}
    for name, labels in groups.items():
        if labels:
            seen = frozenset().union(*(units[label] for label in labels))
            whole = np.sum([sums[label] for label in labels], axis=0)
            tallies = Tallies.of(name, whole, shape, len(seen) < MIN_UNITS)
            overall[name] = score(tallies, unseen)
    return relations, overall


def _divide(hits: Floats, cases: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy: Floats = hits / cases[:, None]
    return accuracy


def _by_direction(values: Floats) -> dict[Direction, Floats]:
    return dict(zip(DIRECTIONS, values, strict=True))
