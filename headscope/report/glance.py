"""The first answer: what stands out, in three or four figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headscope.report.markup import bar, element, head_link, text
from headscope.report.surface import top_heads
from headscope.results import DependencyResult, HeadMap, SurfaceResult
from headscope.visualize.labels import DIRECTION_SENTENCES, interval, number, offset_name
from headscope.visualize.relations import beats_offset

POSITIONAL = ("previous", "next", "separator", "first")
"""Measures whose strongest head is worth a line, in order; at most three are shown."""


def glance(
    surface: SurfaceResult | None, dependency: DependencyResult | None, *, linked: bool
) -> str:
    """Tiles above the sections; an empty string where nothing could be scored."""
    tiles = []
    if dependency is not None and dependency.relations:
        tiles += [_carried(dependency), _all_arcs(dependency, linked=linked)]
    if surface is not None:
        tiles.append(_positional(surface, linked=linked))
    shown = "".join(tile for tile in tiles if tile)
    if not shown:
        return ""
    tiles_row = element("div", shown, class_="tiles")
    heading = element("h2", "At a glance", id="glance")
    return element("section", heading + tiles_row, aria_labelledby="glance", class_="glance")


def _carried(result: DependencyResult) -> str:
    scores = list(result.relations.values())
    judged = [score for score in scores if score.gain_ci95 is not None]
    if not judged:
        most_frequent = scores[0]
        why = most_frequent.nulls.get("gain", "no held-out figure")
        said = "No relation can be judged against the best offset"
        name = element("bdi", text(most_frequent.label))
        return _tile("", said, f"{name}, the most frequent one: {text(why)}.")
    clear = sorted(filter(beats_offset, judged), key=lambda score: -(score.gain or 0.0))
    named = ", ".join(element("bdi", text(score.label)) for score in clear[:5])
    said = "of the relations with enough cases have an attention head that beats the best offset"
    most = f"Largest gains: {named}." if named else "No interval of a gain lies above 0."
    return _tile(f"{len(clear)} <small>of {len(judged)}</small>", said, most)


def _all_arcs(result: DependencyResult, *, linked: bool) -> str:
    score = result.overall.get("all_arcs")
    if score is None or score.best.held_out_accuracy is None:
        return ""
    best, baseline = score.best, score.offset_baseline
    name = head_link(
        best.layer, best.head, linked=linked, data_direction=best.direction, data_relation=""
    )
    said = (
        f"of all arcs are found by attention head {name}, the best single one (held out, 95 % "
        f"interval {interval(best.held_out_ci95)}): {text(DIRECTION_SENTENCES[best.direction])}"
    )
    more = (
        f"Best fixed offset ({offset_name(baseline.offset)}): {number(baseline.held_out_accuracy)}."
    )
    if best.ceiling < 1:
        more += f" It sees the other end of {number(best.ceiling)} of them: more it cannot find."
    drawn = bar(
        best.held_out_accuracy,
        best.held_out_ci95,
        baseline=baseline.held_out_accuracy,
        significant=beats_offset(score),
    )
    return _tile(number(best.held_out_accuracy) + drawn, said, more)


def _positional(result: SurfaceResult, *, linked: bool) -> str:
    """The strongest head of a few measures."""
    lines = []
    for name in _shown(result):
        item = result.measures[name]
        place = top_heads(item.values, 1)[0]
        value = element("b", number(float(item.values[place])))
        uniform = element("small", f"(uniform {_uniform(item, place[0])})")
        lines.append(
            element("dt", text(name))
            + element("dd", f"{value} by head {head_link(*place, linked=linked)} {uniform}")
        )
    if not lines:
        return ""
    said = "Where the strongest attention heads look"
    return _tile("", said, element("dl", "".join(lines)))


def _uniform(item: HeadMap, layer: int) -> str:
    """What even attention would give in that layer; a value says nothing without it."""
    by_layer = item.uniform_by_layer
    return number(item.uniform if by_layer is None else float(by_layer[layer]))


def _shown(result: SurfaceResult) -> Sequence[str]:
    found = [
        name
        for name in POSITIONAL
        if name in result.measures and not np.isnan(result.measures[name].values).all()
    ]
    return found[:3]


def _tile(figure: str, said: str, more: str) -> str:
    shown = element("p", figure, class_="figure") if figure else ""
    topic = element("p", said, class_=None if figure else "topic")
    return element("div", shown + topic + element("div", more, class_="more"), class_="tile")
