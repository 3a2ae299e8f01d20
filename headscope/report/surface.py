"""The section on what each head attends to."""

from __future__ import annotations

import numpy as np

from headscope.report.figures import figure_block
from headscope.report.markup import element, head_link, text
from headscope.report.wording import measure_sentence
from headscope.results import HeadMap, SurfaceResult
from headscope.visualize import surface_maps
from headscope.visualize.heads import (
    UNIT_SENTENCES,
    first_available,
    undefined_rows,
    uniform_values,
)
from headscope.visualize.labels import control_label, interval, number

N_LISTED = 5
CROSS_LEAD = (
    " Tokens of the target, which the decoder reads, attend to tokens of the source, which the "
    "encoder read."
)
SPREADS = ("nats", "share", "tokens")
"""Units of measures whose lowest heads say as much as the highest."""


def surface_section(result: SurfaceResult, *, linked: bool) -> str:
    """Map with selector, and of the selected measure: meaning, baseline, interval, top heads.

    Args:
        result: measures of every head.
        linked: whether heads can be opened in the page's sentence explorer.
    """
    heading = element("h2", "What each attention head attends to", id="patterns")
    if not result.measures:
        return element("section", heading + element("p", "No measure was asked for."))
    more = " Select a cell to see that head at work on a sentence." if linked else ""
    ground = '<span class="on-light">darker</span><span class="on-dark">brighter</span>'
    cross = CROSS_LEAD if result.provenance.model.attention == "cross" else ""
    lead = element(
        "p",
        "One cell is one attention head, its colour the mean over all attending tokens of the "
        f"data: the {ground}, the more.{cross}{more}",
        class_="lead",
    )
    chosen = first_available(result)
    details = "".join(
        _details(result, label, linked=linked, hidden=label != chosen)
        for label in result.all_ways()
    )
    block = figure_block(
        surface_maps(result),
        "surface-map",
        label="Heat map of one measure for every attention head: rows are layers, columns heads",
        stretch=True,
    )
    following = element("div", details, class_="follower", data_follows="surface-map")
    return element("section", heading + lead + block + following, aria_labelledby="patterns")


def top_heads(
    values: np.ndarray, count: int = N_LISTED, *, lowest: bool = False
) -> list[tuple[int, int]]:
    """Layer and head of the largest values, ties to the lowest layer, then head.

    >>> top_heads(np.array([[0.1, 0.5], [np.nan, 0.5]]), 2)
    [(0, 1), (1, 1)]
    """
    flat = values.ravel() if lowest else -values.ravel()
    order = [int(place) for place in np.argsort(flat, kind="stable") if not np.isnan(flat[place])]
    return [(place // values.shape[1], place % values.shape[1]) for place in order[:count]]


def _details(result: SurfaceResult, label: str, *, linked: bool, hidden: bool) -> str:
    """Everything said about one measure, taken in one way."""
    item = result.all_ways()[label]
    said = measure_sentence(label, result.provenance.model.attention)
    described = element("p", text(said), class_="meaning")
    if item.why_null:
        body = described + element("p", f"Not available: {text(item.why_null)}.", class_="missing")
    else:
        lists = _ranking(result, label, linked=linked, lowest=False)
        if item.units in SPREADS:
            lists += _ranking(result, label, linked=linked, lowest=True)
        about = element("div", described + _circumstances(item), class_="about")
        body = about + element("div", lists, class_="rankings")
    return element(
        "article", body, class_="measure", data_view=label, hidden="" if hidden else None
    )


def _circumstances(item: HeadMap) -> str:
    facts = [
        ("Units", UNIT_SENTENCES.get(item.units, item.units)),
        ("Uniform attention", f"{uniform_values(item)}: what attention spread evenly would give"),
        ("Mean over", f"{item.n:,} attending tokens"),
        (
            "95 % interval",
            f"none: {item.why_no_interval}" if item.low is None else "in the table, and on hover",
        ),
    ]
    if item.undefined is not None and item.undefined.any():
        facts.insert(3, ("Of these left out", undefined_rows(item)))
    rows = "".join(element("dt", text(name)) + element("dd", text(fact)) for name, fact in facts)
    return element("dl", rows)


def _ranking(result: SurfaceResult, label: str, *, linked: bool, lowest: bool) -> str:
    """The heads with the highest or lowest values, with intervals and the control beside them."""
    item, other = result.all_ways()[label], result.control
    control = other.all_ways().get(label) if isinstance(other, SurfaceResult) else None
    columns = ["head", "value", "95 % interval"]
    if control is not None:
        columns.append(control_label(result))
    head = element("tr", "".join(element("th", text(name), scope="col") for name in columns))
    rows = "".join(
        _ranked(item, control, place, linked=linked)
        for place in top_heads(item.values, lowest=lowest)
    )
    name = f"{'Lowest' if lowest else 'Highest'} {N_LISTED} heads"
    caption = element("caption", name)
    return element(
        "table", caption + element("thead", head) + element("tbody", rows), class_="ranking"
    )


def _ranked(item: HeadMap, control: HeadMap | None, place: tuple[int, int], *, linked: bool) -> str:
    ends = None if item.low is None or item.high is None else (item.low[place], item.high[place])
    cells = [
        element("th", head_link(*place, linked=linked), scope="row"),
        element("td", number(item.values[place]), class_="strong"),
        element("td", interval(ends), class_="quiet"),
    ]
    if control is not None:
        cells.append(element("td", number(control.values[place]), class_="quiet"))
    return element("tr", "".join(cells))
