"""How well single heads find the syntactic head of each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, final

import numpy as np
import pandas as pd

from headscope.results.envelope import Array, Interval, Result, pointer

Direction = Literal["dependent_to_head", "head_to_dependent"]
DIRECTIONS: tuple[Direction, Direction] = ("dependent_to_head", "head_to_dependent")


@dataclass(frozen=True)
class BestHead:
    """The head with the highest accuracy on a relation; quote `held_out_accuracy`, not `accuracy`.

    `ci95` is the interval of this head as if it had been fixed in advance; `ceiling` the share of
    arcs whose other end the attending word may see: what a head of this layer can reach at most.
    """

    layer: int
    head: int
    direction: Direction
    accuracy: float
    ci95: Interval | None
    n_tied: int
    held_out_accuracy: float | None
    held_out_ci95: Interval | None
    ceiling: float


@dataclass(frozen=True)
class OffsetBaseline:
    """The best fixed offset: the syntactic head is predicted `offset` words to the right."""

    offset: int
    accuracy: float
    held_out_accuracy: float | None


@dataclass(frozen=True)
class RelationScore:
    """How well each head finds the syntactic head of the words that bear one relation.

    Attributes:
        label: the relation, or `all_arcs` / `no_punct` for the totals.
        count: number of scorable words that bear it.
        accuracy: direction -> [L, H].
        low, high: direction -> [L, H] bounds of the 95 % interval of each head on its own, or None.
        ceiling: direction -> [L] share of arcs whose other end the attending word may see; 1 unless
            the model is causal or attends within windows.
        gain: held-out accuracy of the head minus that of the offset, both chosen on one half and
            scored on the other.
        nulls: name of a field that is None -> the reason.
    """

    label: str
    count: int
    accuracy: Mapping[Direction, Array]
    low: Mapping[Direction, Array] | None
    high: Mapping[Direction, Array] | None
    ceiling: Mapping[Direction, Array]
    best: BestHead
    offset_baseline: OffsetBaseline
    gain: float | None
    gain_ci95: Interval | None
    nulls: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry of one relation in the JSON file."""
        best = self.best
        return {
            "count": self.count,
            "accuracy": dict(self.accuracy),
            "ceiling": dict(self.ceiling),
            "best": {
                "layer": best.layer,
                "head": best.head,
                "direction": best.direction,
                "accuracy": best.accuracy,
                "ci95": best.ci95,
                "n_tied": best.n_tied,
                "held_out_accuracy": best.held_out_accuracy,
                "held_out_ci95": best.held_out_ci95,
                "ceiling": best.ceiling,
            },
            "offset_baseline": {
                "offset": self.offset_baseline.offset,
                "accuracy": self.offset_baseline.accuracy,
                "held_out_accuracy": self.offset_baseline.held_out_accuracy,
            },
            "gain": self.gain,
            "gain_ci95": self.gain_ci95,
        }


@final
@dataclass(frozen=True, repr=False)
class DependencyResult(Result):
    """Accuracy of every head, per relation and over all arcs, beside the best fixed offset.

    Attributes:
        relations: label -> score, most frequent first.
        overall: `all_arcs` and `no_punct` -> score over all arcs, and without relation punct; one
            that has no arc is left out here, and has count 0 and nulls in the JSON file.
    """

    kind: ClassVar[str] = "dependency"
    definition: ClassVar[str] = (
        "Words: the treebank's syntactic words. Word-level attention W: sum over the pieces of "
        "the word attended to; for the attending word the mean over its pieces (or its first "
        "piece, see settings.rows); rows and columns of special tokens left out, diagonal set to "
        "0. Predicted syntactic head of word i: argmax_j W[i,j] (dependent_to_head) or argmax_j "
        "W[j,i] (head_to_dependent), ties to the lowest index; a row without mass predicts "
        "nothing and is wrong. Accuracy [layer][head], 0-based: right / scorable words bearing "
        "the relation; roots are no arcs; no_punct leaves out punct and its subtypes. best: "
        "highest accuracy over heads and both directions, "
        "ties to dependent_to_head, then the lowest layer, then the lowest head; n_tied heads "
        "reach it; best.ci95 as if this head had been fixed in advance. offset_baseline: best "
        "fixed offset in -5..5 without 0, outside the sentence is wrong, ties to the smallest "
        "|offset|, then the positive one. held_out: chosen on one half of the units, scored on "
        "the other, both ways, mean over 10 splits. gain: held-out head minus held-out offset, "
        "paired. ceiling, [layer] or of the best head's layer: share of the arcs whose other end "
        "the attending word may see, and so the highest accuracy a head can reach (1 unless the "
        "model is causal or attends within windows). Intervals: 95 % percentile bootstrap over "
        "units, 200 Poisson(1) replicates; "
        "those of held-out figures keep the choices fixed and are centred on the figure."
    )

    relations: Mapping[str, RelationScore]
    overall: Mapping[str, RelationScore]

    @property
    def has_ceilings(self) -> bool:
        """Whether there is an arc that some layer cannot see, in either direction."""
        scores = (*self.relations.values(), *self.overall.values())
        return any((item < 1).any() for score in scores for item in score.ceiling.values())

    def values(self) -> dict[str, Any]:
        """`relations`, `uas` and `overall` (best head and baseline over all arcs)."""
        totals = {name: self.overall.get(name) for name in TOTALS}
        uas = {
            direction: {name: score and score.accuracy[direction] for name, score in totals.items()}
            for direction in DIRECTIONS
        }
        overall = {name: score.to_dict() if score else _NOTHING for name, score in totals.items()}
        return {
            "relations": {label: score.to_dict() for label, score in self.relations.items()},
            "uas": uas,
            "overall": {
                name: {key: item for key, item in total.items() if key != "accuracy"}
                for name, total in overall.items()
            },
        }

    def intervals(self) -> dict[str, Any]:
        """`relations/LABEL/DIRECTION` and `uas/DIRECTION/TOTAL` -> low and high, [L][H]."""
        named = {f"relations/{label}/{{}}": score for label, score in self.relations.items()}
        named |= {f"uas/{{}}/{name}": score for name, score in self.overall.items()}
        return {
            name.replace("{}", direction): {
                "low": score.low[direction],
                "high": score.high[direction],
            }
            for name, score in named.items()
            if score.low is not None and score.high is not None
            for direction in DIRECTIONS
        }

    def nulls(self) -> dict[str, str]:
        """Reasons for every interval, held-out figure and gain that is missing."""
        reasons: dict[str, str] = {}
        for group, scores in (("relations", self.relations), ("overall", self.overall)):
            for label, score in scores.items():
                for name, reason in score.nulls.items():
                    reasons[pointer("values", group, label, *name.split("."))] = reason
        for name in set(TOTALS) - set(self.overall):
            places: list[tuple[str, ...]] = [("uas", side, name) for side in DIRECTIONS]
            places += [("overall", name, key) for key, item in _NOTHING.items() if item is None]
            reasons |= {pointer("values", *place): "there is no arc to score" for place in places}
        return reasons

    def to_frame(self) -> pd.DataFrame:
        """One row a relation, most frequent first, then the totals."""
        rows = [_row(score) for score in (*self.relations.values(), *self.overall.values())]
        frame = pd.DataFrame(rows, columns=_COLUMNS)
        if isinstance(self.control, DependencyResult):
            scores = {**self.control.relations, **self.control.overall}
            found = [scores.get(label) for label in frame["relation"]]
            frame["control_held_out_accuracy"] = [
                None if score is None else score.best.held_out_accuracy for score in found
            ]
            frame["control_accuracy"] = [
                None if score is None else score.best.accuracy for score in found
            ]
        return frame

    def heads_frame(self) -> pd.DataFrame:
        """One row a relation, direction, layer and head: accuracy, low, high, count."""
        frames = [
            _head_rows(score, direction)
            for score in (*self.relations.values(), *self.overall.values())
            for direction in DIRECTIONS
        ]
        if not frames:
            return pd.DataFrame(columns=_HEAD_COLUMNS)
        return pd.concat(frames, ignore_index=True)


TOTALS = ("all_arcs", "no_punct")
_NOTHING: Mapping[str, Any] = {
    "count": 0,
    "ceiling": None,
    "best": None,
    "offset_baseline": None,
    "gain": None,
    "gain_ci95": None,
}
_COLUMNS = (
    "relation",
    "count",
    "layer",
    "head",
    "direction",
    "held_out_accuracy",
    "held_out_low",
    "held_out_high",
    "accuracy",
    "ceiling",
    "n_tied",
    "offset",
    "offset_accuracy",
    "offset_held_out_accuracy",
    "gain",
    "gain_low",
    "gain_high",
)
_HEAD_COLUMNS = (
    "relation",
    "count",
    "direction",
    "layer",
    "head",
    "accuracy",
    "ceiling",
    "low",
    "high",
)


def _row(score: RelationScore) -> tuple[Any, ...]:
    best, offset = score.best, score.offset_baseline
    return (
        score.label,
        score.count,
        best.layer,
        best.head,
        best.direction,
        best.held_out_accuracy,
        *(best.held_out_ci95 or (None, None)),
        best.accuracy,
        best.ceiling,
        best.n_tied,
        offset.offset,
        offset.accuracy,
        offset.held_out_accuracy,
        score.gain,
        *(score.gain_ci95 or (None, None)),
    )


def _head_rows(score: RelationScore, direction: Direction) -> pd.DataFrame:
    values = score.accuracy[direction]
    layers, heads = np.indices(values.shape)
    return pd.DataFrame(
        {
            "relation": score.label,
            "count": score.count,
            "direction": direction,
            "layer": layers.ravel(),
            "head": heads.ravel(),
            "accuracy": values.ravel(),
            "ceiling": score.ceiling[direction][layers].ravel(),
            "low": np.nan if score.low is None else score.low[direction].ravel(),
            "high": np.nan if score.high is None else score.high[direction].ravel(),
        }
    )
