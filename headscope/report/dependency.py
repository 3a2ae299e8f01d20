"""The section on which head carries which syntactic relation."""

from __future__ import annotations

from headscope.report.figures import figure_block
from headscope.report.markup import bar, element, head_link, text
from headscope.results import DependencyResult, RelationScore
from headscope.visualize import best_heads, relation_map
from headscope.visualize.labels import (
    DIRECTION_LABELS,
    DIRECTION_SENTENCES,
    NONE,
    TOTAL_LABELS,
    control_label,
    interval,
    number,
    offset_name,
    signed,
)
from headscope.visualize.relations import beats_offset

Columns = list[tuple[str, str, str]]
"""Key, name and explanation of each column."""

LEAD = (
    "For each syntactic relation, the attention head that finds it best. The syntactic head of a "
    "word is predicted to be the word with the largest attention, in one of two directions: from "
    "dependent to syntactic head, or from syntactic head to dependent. Read the held-out accuracy "
    "first: there the attention head was chosen on other data than it is scored on. The tick in "
    "each bar is the best fixed offset, chosen and scored the same way; an attention head that "
    "does not beat it knows a distance, not a relation."
)


CEILING = (
    "In this model a word does not see every other word. The ceiling is the share of the arcs "
    "whose other end the attending word may see: no attention head of that layer can reach more."
)


def dependency_section(result: DependencyResult, *, linked: bool) -> str:
    """Table, best heads against the offset, and the whole map.

    Args:
        result: scores of every relation.
        linked: whether heads can be opened in the page's sentence explorer.
    """
    heading = element("h2", "Which attention head carries which relation", id="relations")
    if not result.relations:
        nothing = element("p", "The data hold no arc that could be scored, so there are no scores.")
        return element("section", heading + nothing, aria_labelledby="relations")
    blocks = figure_block(
        best_heads(result),
        "best-heads",
        label="Held-out accuracy of the best attention head of each relation and of the offset",
    )
    blocks += figure_block(
        relation_map(result),
        "relation-map",
        label="Heat map of accuracy: rows are relations, columns all attention heads by layer",
        min_width=max(640, 320 + 26 * result.provenance.model.n_layers),
    )
    lead = f"{LEAD} {CEILING}" if result.has_ceilings else LEAD
    body = element("p", text(lead), class_="lead") + _tools(result) + _table(result, linked=linked)
    return element("section", heading + body + blocks, aria_labelledby="relations")


def _tools(result: DependencyResult) -> str:
    """Filter box, the switch for rows that beat the offset, and how many rows are shown."""
    field = element("label", "filter relations", for_="relation-filter") + (
        '<input type="search" id="relation-filter" autocomplete="off" spellcheck="false" '
        'placeholder="nsubj, obl …">'
    )
    only = '<input type="checkbox" id="relation-clear">' + element(
        "label", "only where a head beats the offset", for_="relation-clear"
    )
    n_all = len(result.relations)
    count = element("output", f"{n_all} of {n_all} relations", id="relation-count")
    return element(
        "div",
        element("div", field, class_="control")
        + element("div", only, class_="control check")
        + count,
        class_="tools",
    )


def _columns(result: DependencyResult) -> Columns:
    columns = [
        ("relation", "relation", "label of the relation; select one to find its row in the map"),
        ("count", "count", "words that bear the relation and could be scored"),
        ("head", "best head", "attention head as layer.head, and the direction in which it works"),
        ("held_out", "held-out accuracy", "chosen on one half, scored on the other; 95 % interval"),
        ("accuracy", "in-sample", "accuracy of the best head on the data it was chosen on"),
        ("tied", "tied", "how many heads and directions reach the in-sample accuracy"),
        ("offset", "best offset", "fixed distance in words, and its held-out accuracy"),
        ("gain", "gain", "held-out accuracy of the head minus that of the offset; 95 % interval"),
    ]
    if result.has_ceilings:
        explanation = "share of the arcs whose other end the attending word may see"
        columns.insert(5, ("ceiling", "ceiling", explanation))
    if isinstance(result.control, DependencyResult):
        name = control_label(result)
        columns.append(("control", name, "held-out accuracy of the control's own best head"))
    return columns


def _table(result: DependencyResult, *, linked: bool) -> str:
    columns = _columns(result)
    head = "".join(_column_head(*column) for column in columns)
    rows = "".join(_row(result, score, linked=linked) for score in result.relations.values())
    totals = "".join(_row(result, score, linked=linked) for score in result.overall.values())
    table = element(
        "table",
        element("caption", "Best attention head of each relation", class_="unseen")
        + element("thead", element("tr", head))
        + element("tbody", rows)
        + element("tfoot", totals),
        id="relation-table",
    )
    return element(
        "div", table, class_="scroll", tabindex=0, role="region", aria_label="table of relations"
    )


def _column_head(key: str, name: str, explanation: str) -> str:
    button = element("button", text(name), type="button", title=explanation)
    return element(
        "th",
        button,
        scope="col",
        data_key=key,
        class_="name" if key in ("relation", "head") else None,
        aria_sort="descending" if key == "count" else "none",
    )


def _row(result: DependencyResult, score: RelationScore, *, linked: bool) -> str:
    """One relation; sort values stand in `data-value`, missing where there is none."""
    clear = beats_offset(score)
    best = score.best
    cells = [
        _name(score),
        _cell(f"{score.count:,}", score.count),
        _best(score, linked=linked),
        _held_out(score, clear=clear),
        _cell(number(best.accuracy), best.accuracy, hint=f"95 % interval: {_in_sample(score)}"),
        _cell(f"{best.n_tied:,}", best.n_tied),
        _offset(score),
        _gain(score, clear=clear),
    ]
    if result.has_ceilings:
        cells.insert(5, _cell(number(best.ceiling), best.ceiling))
    if isinstance(result.control, DependencyResult):
        other = {**result.control.relations, **result.control.overall}.get(score.label)
        cells.append(_control(other))
    return element(
        "tr", "".join(cells), class_="clear" if clear else None, data_relation=score.label
    )


def _name(score: RelationScore) -> str:
    label = element("bdi", text(TOTAL_LABELS.get(score.label, score.label)))
    if score.label not in TOTAL_LABELS:
        label = element(
            "button", label, type="button", class_="relation", title="find it in the map below"
        )
    return element("th", label, scope="row", class_="name", data_value=score.label)


def _best(score: RelationScore, *, linked: bool) -> str:
    best = score.best
    link = head_link(
        best.layer,
        best.head,
        linked=linked,
        data_direction=best.direction,
        data_relation=score.label,
    )
    way = element(
        "small", text(DIRECTION_LABELS[best.direction]), title=DIRECTION_SENTENCES[best.direction]
    )
    # Sorted by layer, then head.
    return element("td", link + way, class_="name", data_value=best.layer * 10_000 + best.head)


def _held_out(score: RelationScore, *, clear: bool) -> str:
    best = score.best
    if best.held_out_accuracy is None:
        return _missing(score, "best.held_out_accuracy")
    drawn = bar(
        best.held_out_accuracy,
        best.held_out_ci95,
        baseline=score.offset_baseline.held_out_accuracy,
        significant=clear,
    )
    figure = element("b", number(best.held_out_accuracy))
    spread = _spread(score, "best.held_out_ci95", interval(best.held_out_ci95))
    return element(
        "td", drawn + figure + spread, class_="held-out", data_value=best.held_out_accuracy
    )


def _offset(score: RelationScore) -> str:
    baseline = score.offset_baseline
    name = element("small", offset_name(baseline.offset))
    if baseline.held_out_accuracy is None:
        known = element("small", f"in-sample {number(baseline.accuracy)}")
        return _missing(score, "offset_baseline.held_out_accuracy", name + known)
    figure = number(baseline.held_out_accuracy)
    hint = f"in-sample {number(baseline.accuracy)}"
    return _cell(figure + name, baseline.held_out_accuracy, hint=hint)


def _gain(score: RelationScore, *, clear: bool) -> str:
    if score.gain is None:
        return _missing(score, "gain")
    below = score.gain_ci95 is not None and score.gain_ci95[1] < 0
    mark = "▲" if clear else "▼" if below else ""
    said = "beats the offset" if clear else "worse than the offset" if below else ""
    symbol = element("span", mark, class_="mark", title=said, role="img", aria_label=said)
    figure = (symbol if mark else "") + signed(score.gain)
    ends = score.gain_ci95
    spread = NONE if ends is None else f"{signed(ends[0])} to {signed(ends[1])}"
    return _cell(figure + _spread(score, "gain_ci95", spread), score.gain)


def _in_sample(score: RelationScore) -> str:
    ends = score.best.ci95
    return score.nulls.get("best.ci95", NONE) if ends is None else interval(ends)


def _control(score: RelationScore | None) -> str:
    if score is None:
        return element("td", NONE, title="the control has no such relation")
    if score.best.held_out_accuracy is None:
        return _missing(score, "best.held_out_accuracy")
    hint = f"its best head {score.best.layer}.{score.best.head}"
    return _cell(number(score.best.held_out_accuracy), score.best.held_out_accuracy, hint=hint)


def _cell(content: str, value: float, *, hint: str | None = None) -> str:
    return element("td", content, data_value=value, title=hint)


def _spread(score: RelationScore, field: str, ends: str) -> str:
    """An interval in small print, or a dash that says why there is none."""
    reason = score.nulls.get(field, "there is no interval") if ends == NONE else None
    return element("small", ends, title=reason)


def _missing(score: RelationScore, field: str, more: str = "") -> str:
    """A dash that says why, on hover and to screen readers."""
    reason = score.nulls.get(field, "not available")
    said = element("span", text(reason), class_="unseen")
    return element("td", f'<span aria-hidden="true">{NONE}</span>{said}{more}', title=reason)
