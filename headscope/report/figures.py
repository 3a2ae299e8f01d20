"""Plotly figures inside a page: their data as a block, their selectors as HTML controls."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import numpy as np
from plotly.graph_objects import Figure

from headscope.report.document import page
from headscope.report.markup import data_block, element, json_inert, text
from headscope.results import DependencyResult, Result, SurfaceResult
from headscope.visualize import best_heads, relation_map, surface_maps

STYLES = ("base.css", "figures.css")
SCRIPTS = ("theme.js", "figures.js")

TOP = 34
"""Pixels above a drawing: room for its toolbar, which would else lie on the first row of cells."""


def figure_block(
    figure: Figure, name: str, *, label: str, min_width: int = 0, stretch: bool = False
) -> str:
    """The figure as markup that `figures.js` draws once it comes into view.

    Title, subtitle and drop-down become HTML, which wraps and which the keyboard reaches.

    Args:
        figure: left as it is.
        name: id of the block, unique in the page.
        label: what a screen reader calls the drawing.
        min_width: in pixels; where the page is narrower, the drawing scrolls sideways.
        stretch: whether to offer colours that end at the largest value instead of at 1.
    """
    document: dict[str, Any] = json.loads(figure.to_json())
    layout = document["layout"]
    heading = layout.pop("title", {})
    subtitle = heading.get("subtitle", {}).get("text", "")
    menus = layout.pop("updatemenus", [])
    layout["height"] -= layout["margin"]["t"] - TOP
    layout["margin"]["t"] = TOP
    controls = "".join(_selector(menu, name) for menu in menus)
    if stretch:
        controls += _stretch_switch(name)
        document["tops"] = _tops(figure)
    document["menus"] = [[button["args"] for button in menu["buttons"]] for menu in menus]
    caption = element("strong", _plain(heading.get("text", "")), class_="figure-title")
    caption += element("span", _plain(subtitle), class_="figure-subtitle")
    canvas = element(
        "div",
        "",
        class_="canvas",
        role="img",
        aria_label=label,
        style=f"height:{int(layout['height'])}px;min-width:{min_width}px",
    )
    return element(
        "figure",
        element("div", element("figcaption", caption) + controls, class_="figure-head")
        + element("div", canvas, class_="scroll")
        + data_block(f"{name}-data", json_inert(json.dumps(document))),
        class_="plot",
        id=name,
    )


def figure_page(result: Result) -> str:
    """A page with the figures of one result and nothing else."""
    blocks = []
    if isinstance(result, SurfaceResult) and result.measures:
        blocks.append(
            figure_block(surface_maps(result), "surface-map", label="layers x heads", stretch=True)
        )
    if isinstance(result, DependencyResult) and result.relations:
        blocks.append(figure_block(best_heads(result), "best-heads", label="best head a relation"))
        blocks.append(figure_block(relation_map(result), "relation-map", label="relations x heads"))
    if not blocks:
        blocks.append(element("p", "There was nothing to score, so there is nothing to draw."))
    notes = "".join(element("li", text(item)) for item in result.provenance.warnings)
    body = element(
        "main",
        element("h1", text(result.headline()), class_="small")
        + (element("ul", notes, class_="warnings") if notes else "")
        + "".join(blocks)
        + element("p", text(result.definition), class_="definition"),
    )
    return page(
        title=result.headline(),
        body=body,
        styles=STYLES,
        scripts=SCRIPTS,
        plotly=True,
    )


def _selector(menu: dict[str, Any], name: str) -> str:
    """A labelled HTML selector in place of Plotly's drop-down."""
    options = "".join(
        element(
            "option",
            _plain(button["label"]),
            value=button.get("name", button["label"]),
            selected="" if position == menu.get("active", 0) else None,
        )
        for position, button in enumerate(menu["buttons"])
    )
    field = f"{name}-{menu.get('name', 'view')}"
    label = element("label", text(menu.get("name", "view")), for_=field)
    return element("div", label + element("select", options, id=field), class_="control")


def _stretch_switch(name: str) -> str:
    field = f"{name}-stretch"
    box = f'<input type="checkbox" class="stretch" id="{text(field)}">'
    label = element("label", "stretch colours to the largest value", for_=field)
    return element("div", box + label, class_="control check")


def _tops(figure: Figure) -> list[float | None]:
    """For each trace the largest value among the maps of its measure, control included."""
    tops: dict[Any, float] = {}
    for trace in figure.data:
        if trace.colorscale is not None and trace.reversescale is not None:
            values = np.asarray(trace.z, dtype=float)
            found = 0.0 if np.isnan(values).all() else float(np.nanmax(values))
            tops[trace.meta] = max(tops.get(trace.meta, 0.0), found)
    return [
        tops.get(trace.meta) if trace.reversescale is not None else None for trace in figure.data
    ]


def _plain(label: str) -> str:
    """HTML of a text that was escaped for Plotly."""
    return text(unescape(label))
