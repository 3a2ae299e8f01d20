"""Layers x heads: one quantity of every head at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from headscope.errors import HeadscopeError, unknown
from headscope.results import NOT_TOKENS, HeadMap, SurfaceResult
from headscope.results.envelope import Array
from headscope.visualize.labels import control_label, number, plotly_text, shortened, stacked
from headscope.visualize.style import colour_bar, drop_down, gaps, heat, styled

DECIMALS = {"probability": 2, "share": 2, "nats": 2, "tokens": 1}
UNIT_SENTENCES = {
    "probability": "share of attention, 0 to 1",
    "share": "share of the largest possible, 0 to 1",
}


def head_map(item: HeadMap, *, title: str | None = None) -> Figure:
    """Heat map of one quantity: rows are layers, 0 on top; columns are heads."""
    figure = Figure(_traces(item, item.name, top=_top([item])))
    _axes(figure, item)
    text = shortened(item.name) if title is None else title
    return styled(
        figure,
        height=_height(item),
        title=plotly_text(text),
        subtitle=plotly_text(subtitle(item)),
    )


def surface_maps(result: SurfaceResult, *, measure: str | None = None) -> Figure:
    """Heat map of one surface measure, with a selector over all of them, in every way taken.

    Args:
        result: with a `control`, the same measure of the control stands in a second panel.
        measure: the one shown first, a label of `SurfaceResult.all_ways`; default the first that
            exists.

    Raises:
        HeadscopeError: the result has no measures, or none of that name.
    """
    if not result.measures:
        raise HeadscopeError("the surface result holds no measures, there is nothing to draw")
    chosen = first_available(result) if measure is None else measure
    shown = result.all_ways()
    if chosen not in shown:
        raise unknown("measure", chosen, shown)
    panels = [shown]
    titles = []
    if isinstance(result.control, SurfaceResult):
        panels.append(result.control.all_ways())
        model = shortened(result.provenance.model.name, 60)
        titles = [model, control_label(result)]
    figure = make_subplots(
        rows=len(panels),
        cols=1,
        vertical_spacing=0.16,
        subplot_titles=[plotly_text(text) for text in titles] or None,
    )
    for name in shown:
        items = [panel[name] for panel in panels if name in panel]
        for row, item in enumerate(items, start=1):
            for trace in _traces(item, name, top=_top(items), visible=name == chosen, bar=row == 1):
                figure.add_trace(trace, row=row, col=1)
    _axes(figure, shown[chosen])
    figure.update_annotations(x=0, xanchor="left", font_size=13)
    figure.update_layout(updatemenus=[_selector(figure, result, chosen)])
    styled(
        figure,
        height=_height(shown[chosen]) * len(panels) + 40 * (len(panels) - 1),
        title=plotly_text(shortened(chosen)),
        subtitle=plotly_text(subtitle(shown[chosen])),
        room=16,
    )
    return figure


def first_available(result: SurfaceResult) -> str:
    """The first measure that has values, else the first."""
    names = [name for name, item in result.measures.items() if not item.why_null]
    return names[0] if names else next(iter(result.measures))


def subtitle(item: HeadMap) -> str:
    """What stands under a map's name: units, rows, the uniform baseline, or why it is empty."""
    if item.why_null:
        return f"not available: {item.why_null}"
    units = UNIT_SENTENCES.get(item.units, f"in {item.units}")
    uniform = f"uniform attention would give {uniform_values(item)}"
    undefined = f" ({undefined_rows(item)} left out)" if _some_undefined(item) else ""
    return f"{units}; mean over {item.n:,} query rows{undefined}; {uniform}"


def uniform_values(item: HeadMap) -> str:
    """What uniform attention gives, and between which values where layers differ."""
    if not item.differs_by_layer or item.uniform_by_layer is None:
        return number(item.uniform)
    ends = (np.nanmin(item.uniform_by_layer), np.nanmax(item.uniform_by_layer))
    return f"{number(item.uniform)} ({' to '.join(map(number, ends))}, by layer)"


def undefined_rows(item: HeadMap) -> str:
    """How many rows have no mass once the first token is left out, of the head with most."""
    most = 0 if item.undefined is None else int(item.undefined.max())
    return f"up to {most:,} of a head that look at nothing but the first token"


def _some_undefined(item: HeadMap) -> bool:
    return item.undefined is not None and bool(item.undefined.any())


def _traces(
    item: HeadMap, label: str, *, top: float, visible: bool = True, bar: bool = True
) -> list[Any]:
    """The heat map and, where values are missing, the map of the gaps; `meta` is the label."""
    cell = "<b>layer %{y}, head %{x}</b> &nbsp;(%{y}.%{x})<br>"
    name = plotly_text(shortened(label))
    units = plotly_text(item.units)
    below, maps = _hover_lines(item)
    lines = [f"{name}: %{{z:.3f}} {units}", *below]
    traces = [
        heat(
            item.values,
            top=top,
            decimals=DECIMALS.get(item.units, 2),
            customdata=stacked(*maps) if maps else None,
            hovertemplate=f"{cell}{'<br>'.join(lines)}<extra></extra>",
            colorbar=colour_bar(units),
            showscale=bar,
            meta=label,
            visible=visible,
        )
    ]
    if np.isnan(item.values).any():
        why = item.why_null or _why_gaps(item)
        hover = f"{cell}{name}: no value<br>{plotly_text(shortened(why, 90))}"
        traces.append(gaps(item.values, hover=hover, meta=label, visible=visible))
    return traces


def _why_gaps(item: HeadMap) -> str:
    """Why some heads have no value where others do."""
    by_layer = item.uniform_by_layer
    # Not even uniform attention has one in a layer that cannot be seen.
    seen = slice(None) if by_layer is None else ~np.isnan(by_layer)
    if not np.isnan(item.values[seen]).any():
        return NOT_TOKENS
    if _some_undefined(item):
        return "no row has mass besides the first token"
    return "undefined for this head"


def _hover_lines(item: HeadMap) -> tuple[list[str], list[Array]]:
    """What stands under a value on hover, and the maps of the numbers in it, in their order."""
    lines: list[str] = []
    maps: list[Array] = []
    if item.low is None or item.high is None:
        reason = item.why_no_interval or "none"
        lines.append(plotly_text(shortened(f"95 % interval: {reason}", 90)))
    else:
        lines.append("95 % interval: %{customdata[0]:.3f} to %{customdata[1]:.3f}")
        maps += [item.low, item.high]
    if item.differs_by_layer and item.uniform_by_layer is not None:
        lines.append(f"uniform attention in this layer: %{{customdata[{len(maps)}]:.3f}}")
        maps.append(np.repeat(item.uniform_by_layer[:, None], item.values.shape[1], axis=1))
    else:
        lines.append(f"uniform attention: {number(item.uniform)}")
    if _some_undefined(item) and item.undefined is not None:
        lines.append(f"%{{customdata[{len(maps)}]:,.0f}} rows look at the first token alone")
        maps.append(item.undefined)
    return lines, maps


def _axes(figure: Figure, item: HeadMap) -> None:
    """Axis titles, layer 0 on top, a tick at every layer and head as far as they fit."""
    n_layers, n_heads = item.values.shape
    shared = {"showgrid": False, "zeroline": False, "tick0": 0}
    figure.update_xaxes(
        title={"text": "head", "standoff": 6},
        dtick=_step(n_heads, 20),
        range=[-0.5, n_heads - 0.5],
        **shared,
    )
    figure.update_layout(meta={"columns": "heads"})
    figure.update_yaxes(
        title={"text": "layer", "standoff": 8},
        dtick=_step(n_layers, 30),
        range=[n_layers - 0.5, -0.5],
        **shared,
    )


def _selector(figure: Figure, result: SurfaceResult, chosen: str) -> dict[str, Any]:
    """A drop-down over all measures and ways; those that do not exist say so in their label."""
    shown: Sequence[str] = [trace.meta for trace in figure.data]
    buttons = []
    for name, item in result.all_ways().items():
        label = shortened(name) + (" (not available)" if item.why_null else "")
        heading = {
            "title.text": plotly_text(shortened(name)),
            "title.subtitle.text": plotly_text(subtitle(item)),
        }
        visible = [meta == name for meta in shown]
        buttons.append(
            {
                "label": plotly_text(label),
                "name": name,
                "method": "update",
                "args": [{"visible": visible}, heading],
            }
        )
    return drop_down("measure", buttons, list(result.all_ways()).index(chosen))


def _top(items: Sequence[HeadMap]) -> float:
    """Upper end of the colours: 1 for shares, else the largest value of all panels."""
    if items[0].units in UNIT_SENTENCES:
        return 1.0
    found = [np.nanmax(item.values) for item in items if not np.isnan(item.values).all()]
    return float(max(found, default=1.0)) or 1.0


def _height(item: HeadMap) -> int:
    n_layers: int = item.values.shape[0]
    return max(140, n_layers * (34 if n_layers <= 12 else 22)) + 52


def _step(count: int, limit: int) -> int:
    return -(-count // limit)
