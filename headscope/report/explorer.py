"""The sentence explorer: its markup, and the attention of example sentences in compact form."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headscope.report.markup import data_block, element, json_text, text
from headscope.report.wording import NO_EXAMPLES
from headscope.results import DIRECTIONS, NOT_TOKENS, DependencyResult, Direction, Example
from headscope.visualize.labels import DIRECTION_LABELS

STEPS = 65_535
"""Attention is stored in steps of 1 / STEPS, so a weight is off by at most 7.7e-6."""

MAX_CHARACTERS = 24_000_000
"""Of stored attention in one page; sentences that no longer fit are left out, and it is said."""

MAX_LABEL = 60
"""Characters of a sentence in the selector."""


def explorer_section(
    examples: Sequence[Example], dependency: DependencyResult | None = None
) -> str:
    """Controls and drawing area, and the data blocks that `explorer.js` reads one by one.

    Args:
        examples: in the order of the selector.
        dependency: tells which head is shown first: the best one over all arcs.
    """
    heading = element("h2", "Attention in single sentences", id="sentences")
    if not examples:
        return element("section", heading + element("p", NO_EXAMPLES), aria_labelledby="sentences")
    kept = fitting(examples)
    blocks = "".join(
        data_block(f"example-{place}", json_text(payload(example)))
        for place, example in enumerate(kept)
    )
    blocks += data_block("explorer-start", json_text(_start(kept, dependency)))
    left_out = len(examples) - len(kept)
    if left_out:
        said = f"{left_out} of {len(examples)} sentences are left out, the page would grow too big."
        heading += element("p", said, class_="note")
    return element(
        "section",
        heading + _lead() + _explorer(kept) + blocks,
        aria_labelledby="sentences",
        id="explorer",
    )


def fitting(examples: Sequence[Example]) -> list[Example]:
    """The examples, in order, as far as their stored attention stays within MAX_CHARACTERS."""
    kept, used = [], 0
    for example in examples:
        size = example.attention.size * 2 * 4 // 3
        if used + size <= MAX_CHARACTERS:
            kept.append(example)
            used += size
    return kept


def payload(example: Example) -> dict[str, Any]:
    """One sentence for the page: words, arcs, attention, and what every head predicts.

    `attention` holds [L][H][N][N] weights, `predicted` per direction [L][H][W] word numbers plus 1
    (0 for none): both as little-endian uint16 in base64. `found` is the share of arcs per head. In
    layers that are `unseen` it is null, and weights are stored as 0.
    """
    unseen = example.unseen
    predicted = {direction: predictions(example, direction) for direction in DIRECTIONS}
    n_layers, n_heads, n_nodes, _ = example.attention.shape
    return {
        "name": example.sent_id,
        "nodes": list(example.nodes),
        "wordOf": list(example.word_of),
        "heads": list(example.heads),
        "relations": list(example.relations),
        "shape": [n_layers, n_heads, n_nodes],
        "attention": packed(np.rint(np.clip(_finite(example.attention), 0, 1) * STEPS)),
        "predicted": {direction: packed(words + 1) for direction, words in predicted.items()},
        "found": {
            direction: [
                [None if layer in unseen else round(share, 4) for share in row]
                for layer, row in enumerate(found_share(example, words))
            ]
            for direction, words in predicted.items()
        },
        "unseen": list(unseen),
        "whyUnseen": NOT_TOKENS,
        "arcs": len(scorable_arcs(example)),
    }


def packed(values: npt.NDArray[Any]) -> str:
    """Whole numbers 0..65535 as little-endian uint16 in base64."""
    return base64.b64encode(values.astype("<u2").tobytes()).decode("ascii")


def predictions(example: Example, direction: Direction) -> npt.NDArray[np.int64]:
    """[L, H, W] number of the word each head takes for the syntactic head of a word, -1 for none.

    As the analysis defines it: special tokens left out, diagonal 0, ties to the lowest word; a row
    without mass predicts nothing.
    """
    places = [place for place, word in enumerate(example.word_of) if word is not None]
    numbers = np.array([example.word_of[place] for place in places], dtype=np.int64)
    n_layers, n_heads = example.attention.shape[:2]
    predicted = np.full((n_layers, n_heads, len(example.heads)), -1, dtype=np.int64)
    if not places:
        return predicted
    weights = _finite(example.attention)[:, :, places][:, :, :, places].astype(np.float64)
    if direction == "head_to_dependent":
        weights = weights.swapaxes(2, 3)
    weights[:, :, np.arange(len(places)), np.arange(len(places))] = 0
    chosen = np.where(weights.max(-1) > 0, numbers[weights.argmax(-1)], -1)
    predicted[:, :, numbers] = chosen
    return predicted


def scorable_arcs(example: Example) -> list[tuple[int, int]]:
    """(dependent, syntactic head), 0-based; arcs that touch a missing word are left out."""
    there = {word for word in example.word_of if word is not None}
    return [
        (word, head - 1)
        for word, head in enumerate(example.heads)
        if head > 0 and word in there and head - 1 in there
    ]


def found_share(example: Example, predicted: npt.NDArray[np.int64]) -> list[list[float]]:
    """[L][H] share of the sentence's arcs that each head finds; 0 where there are no arcs."""
    arcs = scorable_arcs(example)
    n_layers, n_heads = predicted.shape[:2]
    if not arcs:
        return [[0.0] * n_heads for _ in range(n_layers)]
    dependents, heads = np.array(arcs).T
    shares = (predicted[:, :, dependents] == heads).astype(np.float64).mean(axis=-1)
    return [[float(share) for share in row] for row in shares]


def _finite(attention: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.nan_to_num(attention, nan=0.0)


def _start(examples: Sequence[Example], dependency: DependencyResult | None) -> dict[str, Any]:
    total = None if dependency is None else dependency.overall.get("all_arcs")
    if total is not None:
        best = total.best
        return {"layer": best.layer, "head": best.head, "direction": best.direction}
    share = np.array(found_share(examples[0], predictions(examples[0], DIRECTIONS[0])))
    layer, head = np.unravel_index(share.argmax(), share.shape)
    return {"layer": int(layer), "head": int(head), "direction": DIRECTIONS[0]}


def _lead() -> str:
    said = (
        "Lines run from the attending word on the left to the word it attends to on the right; the "
        "stronger the line, the more attention. Point at a word to see only its lines, with "
        "numbers; select it to keep them. Dashed lines are the arcs of the tree, heavier where "
        "this attention head finds them."
    )
    return element("p", said, class_="lead")


def _explorer(examples: Sequence[Example]) -> str:
    n_layers, n_heads = examples[0].attention.shape[:2]
    side = (
        _stepper("sentence", _sentence_options(examples))
        + element(
            "div",
            _stepper("layer", _options(n_layers)) + _stepper("head", _options(n_heads)),
            class_="pair",
        )
        + _picker()
        + _settings()
    )
    stage = (
        '<p class="readout" id="readout" role="status" aria-live="polite"></p>'
        '<div class="arcs" id="arcs"><span class="topic-from" aria-hidden="true">from</span>'
        '<span class="topic-to" aria-hidden="true">to</span><ol class="words from" '
        'aria-label="attending words"></ol>'
        '<svg class="lines" aria-hidden="true"></svg>'
        '<ol class="words to" aria-label="words attended to"></ol></div>'
    )
    return element(
        "div",
        element("div", side, class_="side") + element("div", stage, class_="stage"),
        class_="explorer",
    )


def _stepper(name: str, options: str) -> str:
    """A labelled selector between a button back and a button on."""
    field = f"explorer-{name}"
    back, on = (
        element(
            "button",
            sign,
            type="button",
            class_="step",
            data_steps=name,
            data_by=by,
            aria_label=f"{word} {name}",
        )
        for sign, by, word in (("‹", -1, "previous"), ("›", 1, "next"))
    )
    select = element("select", options, id=field)
    label = element("label", name, for_=field)
    return element(
        "div", label + element("div", back + select + on, class_="row"), class_="stepper"
    )


def _sentence_options(examples: Sequence[Example]) -> str:
    """The sentences' first words; isolated, so that no word turns the line's direction."""
    options = []
    for place, example in enumerate(examples):
        words = [
            node
            for node, word in zip(example.nodes, example.word_of, strict=True)
            if word is not None
        ]
        start = " ".join(words)
        shown = start if len(start) <= MAX_LABEL else f"{start[:MAX_LABEL].rstrip()}…"
        label = f"{place + 1}. \u2068{shown}\u2069"
        options.append(element("option", text(label), value=place))
    return "".join(options)


def _options(count: int) -> str:
    return "".join(element("option", str(place), value=place) for place in range(count))


def _picker() -> str:
    """Layers x heads as a grid of buttons, filled by the script."""
    caption = element("p", "", id="picker-caption", class_="picker-caption")
    ramp = (
        '<div class="ramp" aria-hidden="true"><span>0</span><span class="gradient"></span>'
        "<span>all arcs</span></div>"
    )
    grid = '<div class="picker" id="picker" role="grid" aria-labelledby="picker-caption"></div>'
    return caption + grid + ramp


def _settings() -> str:
    directions = "".join(
        element("option", text(DIRECTION_LABELS[direction]), value=direction)
        for direction in DIRECTIONS
    )
    return element(
        "div",
        element("label", "direction of tree arcs", for_="explorer-direction")
        + element("select", directions, id="explorer-direction")
        + element("label", "hide weights below ", for_="explorer-threshold")
        + '<span class="row"><input type="range" id="explorer-threshold" min="0" max="0.5" '
        'step="0.01" value="0.05"><output id="explorer-threshold-value" '
        'for="explorer-threshold">0.05</output></span>'
        + _check("explorer-special", "special tokens")
        + _check("explorer-gold", "arcs of the tree"),
        class_="settings",
    )


def _check(field: str, name: str) -> str:
    return element(
        "span",
        f'<input type="checkbox" id="{field}" checked>' + element("label", text(name), for_=field),
        class_="check",
    )
