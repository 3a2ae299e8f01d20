"""Layers x heads: one quantity of every head at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from headscope.errors import HeadscopeError, unknown
from headscope.results import HeadMap, SurfaceResult
from headscope.visualize.labels import control_label, number, plotly_text, shortened, stacked
from headscope.visualize.style import colour_bar, drop_down, gaps, heat, styled

DECIMALS = {"probability": 2, "nats": 2, "tokens": 1}


def head_map(item: HeadMap, *, title: str | None = None) -> Figure:
    """Heat map of one quantity: rows are layers, 0 on top; columns are heads."""
    figure = Figure(_traces(item, top=_top([item])))
    _axes(figure, item)
    text = shortened(item.name) if title is None else title
    return styled(
        figure,
        height=_height(item),
        title=plotly_text(text),
        subtitle=plotly_text(subtitle(item)),
    )


def surface_maps(result: SurfaceResult, *, measure: str | None = None) -> Figure:
    """Heat map of one surface measure, with a selector over all of them.

    Args:
        result: with a `control`, the same measure of the control stands in a second panel.
        measure: the one shown first; default the first that exists.

    Raises:
        HeadscopeError: the result has no measures, or none of that name.
    """
    if not result.measures:
        raise HeadscopeError("the surface result holds no measures, there is nothing to draw")
    chosen = first_available(result) if measure is None else measure
    if chosen not in result.measures:
        raise unknown("measure", chosen, result.measures)
    panels = [result.measures]
    titles = []
    if isinstance(result.control, SurfaceResult):
        panels.append(result.control.measures)
        model = shortened(result.provenance.model.name, 60)
        titles = [model, control_label(result)]
    figure = make_subplots(
        rows=len(panels),
        cols=1,
        vertical_spacing=0.16,
        subplot_titles=[plotly_text(text) for text in titles] or None,
    )
    for name in result.measures:
        items = [panel[name] for panel in panels if name in panel]
        for row, item in enumerate(items, start=1):
            for trace in _traces(item, top=_top(items), visible=name == chosen, bar=row == 1):
                figure.add_trace(trace, row=row, col=1)
    _axes(figure, result.measures[chosen])
    figure.update_annotations(x=0, xanchor="left", font_size=13)
    figure.update_layout(updatemenus=[_selector(figure, result, chosen)])
    styled(
        figure,
        height=_height(result.measures[chosen]) * len(panels) + 40 * (len(panels) - 1),
        title=plotly_text(shortened(chosen)),
        subtitle=plotly_text(subtitle(result.measures[chosen])),
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
    units = "share of attention, 0 to 1" if item.units == "probability" else f"in {item.units}"
    uniform = f"uniform attention would give {number(item.uniform)}"
    return f"{units}; mean over {item.n:,} query rows; {uniform}"


def _traces(item: HeadMap, *, top: float, visible: bool = True, bar: bool = True) -> list[Any]:
    """The heat map and, where values are missing, the map of the gaps; `meta` names the measure."""
    cell = "<b>layer %{y}, head %{x}</b> &nbsp;(%{y}.%{x})<br>"
    name = plotly_text(shortened(item.name))
    units = plotly_text(item.units)
    if item.low is None:
        reason = item.why_no_interval or "none"
        spread = plotly_text(shortened(f"95 % interval: {reason}", 90))
    else:
        spread = "95 % interval: %{customdata[0]:.3f} to %{customdata[1]:.3f}"
    value = f"{name}: %{{z:.3f}} {units}"
    uniform = f"uniform attention: {number(item.uniform)}"
    traces = [
        heat(
            item.values,
            top=top,
            decimals=DECIMALS.get(item.units, 2),
            customdata=None if item.low is None else stacked(item.low, item.high),
            hovertemplate=f"{cell}{value}<br>{spread}<br>{uniform}<extra></extra>",
            colorbar=colour_bar(units),
            showscale=bar,
            meta=item.name,
            visible=visible,
        )
    ]
    if np.isnan(item.values).any():
        why = plotly_text(shortened(item.why_null or "undefined for this head", 90))
        hover = f"{cell}{name}: no value<br>{why}"
        traces.append(gaps(item.values, hover=hover, meta=item.name, visible=visible))
    return traces


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
    """A drop-down over all measures; those that do not exist say so in their label."""
    shown: Sequence[str] = [trace.meta for trace in figure.data]
    buttons = []
    for name, item in result.measures.items():
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
    return drop_down("measure", buttons, list(result.measures).index(chosen))


def _top(items: Sequence[HeadMap]) -> float:
    """Upper end of the colours: 1 for probabilities, else the largest value of all panels."""
    if items[0].units == "probability":
        return 1.0
    found = [np.nanmax(item.values) for item in items if not np.isnan(item.values).all()]
    return float(max(found, default=1.0)) or 1.0


def _height(item: HeadMap) -> int:
    n_layers: int = item.values.shape[0]
    return max(140, n_layers * (34 if n_layers <= 12 else 22)) + 52


def _step(count: int, limit: int) -> int:
    return -(-count // limit)
