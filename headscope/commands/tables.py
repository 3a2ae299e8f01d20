"""Results as tables on a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from headscope.extraction.observers import MIN_UNITS
from headscope.results import (
    DependencyResult,
    HeadMap,
    OffsetBaseline,
    RelationScore,
    Result,
    SurfaceResult,
    counted,
)

LEADING_ZERO = r"(?<!\d)0\."
SHORT_UNITS = {"probability": "prob."}
"""Units where 80 characters leave no room for the word."""

ARROWS = {"dependent_to_head": "d>h", "head_to_dependent": "h>d"}


def table_of(result: Result) -> RenderableType:
    """The table of a result, under one line that says what was analysed."""
    if isinstance(result, SurfaceResult):
        return Group(*_heading(result), _surface(result))
    if isinstance(result, DependencyResult):
        return Group(*_heading(result), _dependency(result))
    raise TypeError(type(result).__name__)


def _heading(result: Result) -> list[str]:
    data = result.provenance.data
    counts = [f"{number:,} {reason}" for reason, number in data.skipped.items() if number]
    lines = [f"[bold]{escape(result.headline())}[/bold]"]
    if data.note:
        lines.append(escape(data.note))
    lines.append(
        f"{_evidence(result)}; unknown pieces {data.unk_rate:.1%}; "
        f"left out: {', '.join(counts).replace('_', ' ') or 'nothing'}"
    )
    return lines


def _evidence(result: Result) -> str:
    """What intervals rest on, or why there are none."""
    data = result.provenance.data
    units = counted(data.n_units, data.unit_name)
    if data.n_units >= MIN_UNITS:
        return f"intervals over {units}"
    missing = "no held-out figures and no" if isinstance(result, DependencyResult) else "no"
    return f"{missing} intervals: {units}, and they take {MIN_UNITS} or more"


def _table(caption: str, columns: str) -> Table:
    """A table whose columns are named in one string; `>` before a name aligns to the right."""
    # Padding 0 leaves the one space of the box between columns: 80 characters must do.
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=0, caption=caption, caption_justify="left"
    )
    for name in columns.split("|"):
        table.add_column(
            name.removeprefix(">"), justify="right" if name[0] == ">" else "left", no_wrap=True
        )
    return table


def _surface(result: SurfaceResult) -> Table:
    caption = (
        "Heads are layer.head, from 0. uniform: the same if attention were spread evenly.\n"
        "no 1st: the mean with the first token left out of every row, the rest scaled to 1"
    )
    if result.provenance.model.attention == "cross":
        caption += "\nattention goes from tokens of the target to tokens of the source"
    if missing := [name for name, item in result.measures.items() if item.why_null]:
        caption += f"\nnot there (the JSON file says why): {', '.join(missing)}"
    columns = "measure|unit|>mean|>no 1st|>uniform|>highest|head|  95 %|>lowest|head"
    table = _table(caption, columns)
    without_first = result.variants.get("without_first", {})
    control = result.control if isinstance(result.control, SurfaceResult) else None
    if control:
        table.add_column(f"highest, {result.provenance.settings['control']}", justify="right")
    for name, item in result.measures.items():
        if item.why_null:
            continue
        row = _surface_row(item, without_first.get(name))
        if control:
            other = control.measures[name]
            row.append("–" if other.why_null else _number(float(np.nanmax(other.values))))
        table.add_row(*row)
    return table


def _surface_row(item: HeadMap, without_first: HeadMap | None) -> list[str]:
    top, bottom = (
        np.unravel_index(int(pick), item.values.shape)
        for pick in (np.nanargmax(item.values), np.nanargmin(item.values))
    )
    rest = None if without_first is None or without_first.why_null else without_first.values
    return [
        item.name,
        SHORT_UNITS.get(item.units, item.units),
        _number(float(np.nanmean(item.values))),
        "–" if rest is None else _number(float(np.nanmean(rest))),
        _number(item.uniform),
        _number(float(item.values[top])),
        f"{top[0]}.{top[1]}",
        "" if item.low is None or item.high is None else _span(item.low[top], item.high[top]),
        _number(float(item.values[bottom])),
        f"{bottom[0]}.{bottom[1]}",
    ]


def _dependency(result: DependencyResult) -> Table:
    caption = (
        "Quote held out, not in sample. Attention heads: layer.head, from 0; (+n): n tie\n"
        "d>h: the dependent attends to its syntactic head; h>d: the other way\n"
        "offset: the best fixed one, and its held-out accuracy\n"
        "gain: held-out accuracy of the head minus that of the offset"
    )
    if reasons := _not_held_out(result):
        caption += f"\noffset in brackets: in sample, where nothing is held out:\n{reasons}"
    table = _table(
        caption, "relation|>count| head|dir|>held out|  95 %|>in sample|> offset|>gain|  95 %"
    )
    bounded = result.has_ceilings
    if bounded:
        table.add_column("ceiling", justify="right", no_wrap=True)
        table.caption = (
            f"{caption}\nceiling: share of the arcs whose other end the attending word may see"
        )
    control = result.control if isinstance(result.control, DependencyResult) else None
    others: dict[str, RelationScore] = {}
    if control:
        others = {**control.relations, **control.overall}
        name = str(result.provenance.settings["control"]).partition("-")[0]
        table.add_column(name, justify="right", no_wrap=True)
    for scores in (result.relations, result.overall):
        for score in scores.values():
            ceiling = [_number(score.best.ceiling)] if bounded else []
            table.add_row(*_relation_row(score), *ceiling, *_control(score, others))
        table.add_section()
    return table


def _control(score: RelationScore, others: Mapping[str, RelationScore]) -> list[str]:
    if not others:
        return []
    other = others.get(score.label)
    return [_number(other.best.held_out_accuracy) if other else "–"]


def _relation_row(score: RelationScore) -> list[str]:
    best, offset = score.best, score.offset_baseline
    return [
        escape(score.label),
        f"{score.count:,}",
        f" {best.layer}.{best.head}" + (f" (+{best.n_tied - 1})" if best.n_tied > 1 else ""),
        ARROWS[best.direction],
        _number(best.held_out_accuracy),
        _span(*best.held_out_ci95) if best.held_out_ci95 else "",
        _number(best.accuracy),
        f" {offset.offset:+d} {_offset_accuracy(offset)}",
        "–" if score.gain is None else f"{score.gain:+.3f}",
        _span(*score.gain_ci95, sign="+") if score.gain_ci95 else "",
    ]


def _not_held_out(result: DependencyResult) -> str:
    """Why some rows have no held-out figures; empty where all have them."""
    scores = (*result.relations.values(), *result.overall.values())
    reasons = (score.nulls.get("offset_baseline.held_out_accuracy") for score in scores)
    return ", or ".join(sorted({reason for reason in reasons if reason}))


def _offset_accuracy(offset: OffsetBaseline) -> str:
    """Held out; else in sample and in brackets, for a head's score never stands without it."""
    if offset.held_out_accuracy is None:
        return f"({_number(offset.accuracy)})"
    return _number(offset.held_out_accuracy)


def _number(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.3f}"


def _span(low: float, high: float, sign: str = "") -> str:
    bounds = (f"{bound:{sign}.2f}" for bound in (low, high))
    return f"[dim]{' '.join(re.sub(LEADING_ZERO, '.', bound) for bound in bounds)}[/dim]"
