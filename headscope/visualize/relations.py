"""Which head carries which relation: the whole map, and the best head of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plotly.graph_objects import Figure, Heatmap, Scatter

from headscope.errors import HeadscopeError, unknown
from headscope.results import DIRECTIONS, DependencyResult, Direction, RelationScore
from headscope.visualize.labels import (
    DIRECTION_LABELS,
    TOTAL_LABELS,
    control_label,
    head_name,
    head_words,
    interval,
    number,
    offset_name,
    plotly_text,
    shortened,
    signed,
)
from headscope.visualize.style import (
    BASELINE,
    CONTROL,
    FAINT,
    MARK,
    MODEL,
    colour_bar,
    drop_down,
    heat,
    styled,
)

MAX_CELLS = 60_000
"""Above this a browser grows slow; the rarest relations are left out, and the title says so."""


def relation_map(result: DependencyResult, *, direction: Direction = "dependent_to_head") -> Figure:
    """Heat map of accuracy: rows are relations, most frequent on top; columns all heads by layer.

    Args:
        result: with at least one relation.
        direction: the one shown first; a selector has both.

    Raises:
        HeadscopeError: the result has no relations, or there is no such direction.
    """
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    scores = list(result.relations.values())
    if not scores:
        raise HeadscopeError("the dependency result holds no relations, there is nothing to draw")
    n_layers, n_heads = scores[0].accuracy[direction].shape
    kept = kept_relations(result)
    names = _row_names(kept)
    figure = Figure()
    for side in DIRECTIONS:
        figure.add_trace(_cells(kept, names, side, visible=side == direction))
        figure.add_trace(_best_marks(kept, names, side, visible=side == direction))
    figure.add_trace(_offset_column(kept, names))
    _map_axes(figure, n_layers, n_heads)
    rows = [score.label for score in kept]
    figure.update_layout(meta={"columns": "all heads", "n_heads": n_heads, "rows": rows})
    _name_rows(figure, names)
    figure.update_layout(updatemenus=[_direction_selector(figure, direction)])
    return styled(
        figure,
        height=len(kept) * 20 + 70,
        title=_map_title(direction),
        subtitle=plotly_text(_kept_note(len(kept), len(scores), n_layers * n_heads)),
    )


def best_heads(result: DependencyResult) -> Figure:
    """Per relation the held-out accuracy of the best head beside that of the best offset.

    A full dot beats the offset (the interval of the gain excludes 0), a hollow one does not.

    Raises:
        HeadscopeError: the result has no relations.
    """
    if not result.relations:
        raise HeadscopeError("the dependency result holds no relations, there is nothing to draw")
    scores = [*result.overall.values(), *result.relations.values()]
    shown = [score for score in scores if score.best.held_out_accuracy is not None]
    names = _row_names(shown)
    figure = Figure([_links(shown, names), _offsets(shown, names)])
    if isinstance(result.control, DependencyResult):
        figure.add_trace(_controls(result, shown, names))
    figure.add_traces(_dots(shown, names))
    figure.update_xaxes(
        title={"text": "held-out accuracy", "standoff": 6},
        range=[-0.02, 1.02],
        dtick=0.2,
        gridcolor=FAINT,
        zeroline=False,
    )
    _name_rows(figure, names)
    figure.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "xanchor": "left"}
    )
    left_out = len(scores) - len(shown)
    note = f"; {left_out} too rare to be held out are left out" if left_out else ""
    return styled(
        figure,
        height=len(shown) * 22 + 100,
        title="Best head of each relation against the best fixed offset",
        subtitle=plotly_text(f"head and offset chosen on one half, scored on the other{note}"),
        room=24,
    )


def beats_offset(score: RelationScore) -> bool:
    """Whether the interval of the gain over the best offset lies above 0."""
    return score.gain_ci95 is not None and score.gain_ci95[0] > 0


def kept_relations(result: DependencyResult) -> list[RelationScore]:
    """The relations that the map shows: the most frequent ones, as many as fit MAX_CELLS."""
    scores = list(result.relations.values())
    width = scores[0].accuracy["dependent_to_head"].size if scores else 1
    return scores[: max(1, MAX_CELLS // width)]


def _kept_note(n_kept: int, n_all: int, n_heads: int) -> str:
    if n_kept == n_all:
        shown = f"{n_all:,} relations × {n_heads:,} attention heads, most frequent on top"
    else:
        shown = f"only the {n_kept:,} most frequent of {n_all:,} relations are shown"
    return f"{shown}; a ring marks the best head of a relation, where it works in this direction"


def _row_names(scores: Sequence[RelationScore]) -> list[str]:
    """Relation and count, the totals in words; each name once, for it also places the row."""
    names: dict[str, None] = {}
    for score in scores:
        label = shortened(TOTAL_LABELS.get(score.label, score.label), 28)
        name = f"{plotly_text(label)} ({score.count:,})"
        while name in names:
            name += " "
        names[name] = None
    return list(names)


def _name_rows(figure: Figure, names: Sequence[str]) -> None:
    """Every relation's name at its row, the first on top."""
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=list(names),
        range=[len(names) - 0.5, -0.5],
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=list(names),
        showgrid=False,
        zeroline=False,
        automargin=True,
        ticksuffix=" ",
    )


def _cells(
    scores: Sequence[RelationScore], names: Sequence[str], direction: Direction, *, visible: bool
) -> Heatmap:
    """Accuracy of every head on every relation in one direction."""
    n_layers, n_heads = scores[0].accuracy[direction].shape
    columns = [head_words(*divmod(column, n_heads)) for column in range(n_layers * n_heads)]
    return heat(
        np.stack([score.accuracy[direction].ravel() for score in scores]),
        top=1.0,
        decimals=2,
        x=columns,
        y=list(names),
        text=[_cell_notes(score, direction) for score in scores],
        texttemplate=None,
        xgap=0,
        ygap=1,
        hovertemplate=(
            "<b>%{y}</b><br>%{x}<br>accuracy: <b>%{z:.3f}</b><br>"
            f"%{{text}}<br>{DIRECTION_LABELS[direction]}<extra></extra>"
        ),
        colorbar=colour_bar("accuracy"),
        meta=direction,
        visible=visible,
    )


def _cell_notes(score: RelationScore, direction: Direction) -> list[str]:
    """Interval and best offset, for every cell of one row."""
    baseline, n_heads = score.offset_baseline, score.accuracy[direction].shape[1]
    offset = f"best offset ({offset_name(baseline.offset)}): {number(baseline.accuracy)}"
    ceilings = np.repeat(score.ceiling[direction], n_heads)
    ends = [offset + ceiling_note(height) for height in ceilings.tolist()]
    if score.low is None or score.high is None:
        reason = plotly_text(shortened(score.nulls.get("best.ci95", "none"), 60))
        return [f"95 % interval: {reason}<br>{end}" for end in ends]
    cells = zip(score.low[direction].ravel(), score.high[direction].ravel(), ends, strict=True)
    return [f"95 % interval: {interval((low, high))}<br>{end}" for low, high, end in cells]


def ceiling_note(ceiling: float) -> str:
    """A further line where part of the arcs cannot be seen.

    >>> ceiling_note(0.5), ceiling_note(1.0)
    ('<br>ceiling: 0.500, for no more of the arcs can be seen', '')
    """
    if not ceiling < 1:
        return ""
    return f"<br>ceiling: {number(ceiling)}, for no more of the arcs can be seen"


def _best_marks(
    scores: Sequence[RelationScore], names: Sequence[str], direction: Direction, *, visible: bool
) -> Scatter:
    """A ring round the best head of each relation, where it works in this direction."""
    found = [
        (head_words(score.best.layer, score.best.head), name)
        for score, name in zip(scores, names, strict=True)
        if score.best.direction == direction
    ]
    return Scatter(
        x=[column for column, _ in found],
        y=[row for _, row in found],
        mode="markers",
        marker={"symbol": "circle-open", "size": 9, "color": MARK, "line": {"width": 2}},
        hoverinfo="skip",
        showlegend=False,
        meta=direction,
        visible=visible,
    )


def _offset_column(scores: Sequence[RelationScore], names: Sequence[str]) -> Heatmap:
    """What the best fixed offset gets, in the same colours, to the right of the heads."""
    baselines = [score.offset_baseline for score in scores]
    return heat(
        np.array([[baseline.accuracy] for baseline in baselines]),
        top=1.0,
        decimals=2,
        x=["best offset"],
        y=list(names),
        text=[[offset_name(baseline.offset)] for baseline in baselines],
        texttemplate=None,
        xgap=0,
        ygap=1,
        xaxis="x2",
        showscale=False,
        hovertemplate="<b>%{y}</b><br>best offset (%{text}): <b>%{z:.3f}</b><extra></extra>",
        meta="offset",
    )


def _map_axes(figure: Figure, n_layers: int, n_heads: int) -> None:
    """Columns grouped by layer, with a line between layers."""
    step = -(-n_layers // 24)
    figure.update_layout(
        xaxis={
            "title": {"text": "layer (in each, heads from 0 on)", "standoff": 6},
            "domain": [0, 0.95],
            "type": "category",
            "tickmode": "array",
            "tickvals": [layer * n_heads + (n_heads - 1) / 2 for layer in range(0, n_layers, step)],
            "ticktext": [str(layer) for layer in range(0, n_layers, step)],
            "range": [-0.5, n_layers * n_heads - 0.5],
            "showgrid": False,
        },
        xaxis2={
            "domain": [0.965, 1],
            "type": "category",
            "tickvals": [0],
            "ticktext": ["offset"],
            "showgrid": False,
            "fixedrange": True,
        },
        shapes=[
            {
                "type": "line",
                "x0": layer * n_heads - 0.5,
                "x1": layer * n_heads - 0.5,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"width": 1, "color": BASELINE},
            }
            for layer in range(1, n_layers)
        ],
    )


def _direction_selector(figure: Figure, chosen: Direction) -> dict[str, Any]:
    buttons = [
        {
            "label": DIRECTION_LABELS[direction],
            "name": direction,
            "method": "update",
            "args": [
                {"visible": [trace.meta in (direction, "offset") for trace in figure.data]},
                {"title.text": _map_title(direction)},
            ],
        }
        for direction in DIRECTIONS
    ]
    return drop_down("direction", buttons, DIRECTIONS.index(chosen))


def _map_title(direction: Direction) -> str:
    return plotly_text(f"Accuracy of every attention head, {DIRECTION_LABELS[direction]}")


def _links(scores: Sequence[RelationScore], names: Sequence[str]) -> Scatter:
    """A thin line from the offset's accuracy to the head's."""
    x: list[float | None] = []
    y: list[str | None] = []
    for score, name in zip(scores, names, strict=True):
        x += [score.offset_baseline.held_out_accuracy, score.best.held_out_accuracy, None]
        y += [name, name, None]
    line = {"color": FAINT, "width": 3}
    return Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _offsets(scores: Sequence[RelationScore], names: Sequence[str]) -> Scatter:
    return Scatter(
        x=[score.offset_baseline.held_out_accuracy for score in scores],
        y=list(names),
        name="best offset",
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 12, "color": BASELINE, "line": {"width": 3}},
        text=[offset_name(score.offset_baseline.offset) for score in scores],
        hovertemplate="<b>%{y}</b><br>best offset (%{text}): %{x:.3f}<extra></extra>",
    )


def _controls(
    result: DependencyResult, scores: Sequence[RelationScore], names: Sequence[str]
) -> Scatter:
    """The control's own best head."""
    assert isinstance(result.control, DependencyResult)
    known = {**result.control.relations, **result.control.overall}
    found = [known.get(score.label) for score in scores]
    name = plotly_text(control_label(result))
    return Scatter(
        x=[None if score is None else score.best.held_out_accuracy for score in found],
        y=list(names),
        name=name,
        mode="markers",
        marker={"symbol": "diamond", "size": 8, "color": CONTROL},
        hovertemplate=f"<b>%{{y}}</b><br>{name}: %{{x:.3f}}<extra></extra>",
    )


def _dots(scores: Sequence[RelationScore], names: Sequence[str]) -> list[Scatter]:
    """Two traces, full and hollow dots, with intervals."""
    rows = list(zip(scores, names, strict=True))
    better = [row for row in rows if beats_offset(row[0])]
    others = [row for row in rows if not beats_offset(row[0])]
    return [
        _dot_trace(better, "best head, beats the offset", MODEL),
        _dot_trace(others, "best head, does not beat it", "rgba(0,0,0,0)"),
    ]


def _dot_trace(rows: Sequence[tuple[RelationScore, str]], name: str, fill: str) -> Scatter:
    up, down = [], []
    for score, _ in rows:
        value, ends = score.best.held_out_accuracy or 0.0, score.best.held_out_ci95
        up.append(ends[1] - value if ends else 0.0)
        down.append(value - ends[0] if ends else 0.0)
    return Scatter(
        x=[score.best.held_out_accuracy for score, _ in rows],
        y=[label for _, label in rows],
        name=name,
        mode="markers",
        marker={"size": 9, "color": fill, "line": {"width": 2, "color": MODEL}},
        error_x={"array": up, "arrayminus": down, "color": MODEL, "thickness": 1.2, "width": 3},
        text=[_dot_notes(score) for score, _ in rows],
        hovertemplate="<b>%{y}</b><br>%{text}<extra></extra>",
    )


def _dot_notes(score: RelationScore) -> str:
    best, baseline = score.best, score.offset_baseline
    return (
        f"best head {head_name(best.layer, best.head)}, {DIRECTION_LABELS[best.direction]}<br>"
        f"held-out accuracy: <b>{number(best.held_out_accuracy)}</b>, "
        f"95 % interval {interval(best.held_out_ci95)}<br>"
        f"best offset ({offset_name(baseline.offset)}): {number(baseline.held_out_accuracy)}<br>"
        f"gain: {signed(score.gain)}, 95 % interval {interval(score.gain_ci95)}"
        f"{ceiling_note(best.ceiling)}"
    )
