"""How numbers, heads and names are written, on figures and on pages alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from headscope.results import Direction, Result

NONE = "–"
"""Stands where a number does not exist."""

DIRECTION_LABELS: Mapping[Direction, str] = {
    "dependent_to_head": "dependent → syntactic head",
    "head_to_dependent": "syntactic head → dependent",
}

DIRECTION_SENTENCES: Mapping[Direction, str] = {
    "dependent_to_head": "the dependent attends to its syntactic head",
    "head_to_dependent": "the syntactic head attends to its dependent",
}

TOTAL_LABELS: Mapping[str, str] = {
    "all_arcs": "all arcs",
    "no_punct": "all arcs but punct",
}

_BREAKS = str.maketrans({"\n": " ", "\r": " ", "\t": " "})


def plotly_text(text: str) -> str:
    """The text such that Plotly shows it letter by letter.

    Plotly reads a part of HTML in every label, and `%{...}` in hover texts.

    >>> plotly_text("<b>a&b</b> %{z}")
    '&lt;b&gt;a&amp;b&lt;/b&gt; %&#123;z}'
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("%{", "%&#123;").translate(_BREAKS)


def shortened(text: str, limit: int = 40) -> str:
    """The text, its middle left out where it is longer than `limit` characters.

    >>> shortened("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"


def head_name(layer: int, head: int) -> str:
    """Layer and head, both from 0.

    >>> head_name(3, 10)
    '3.10'
    """
    return f"{layer}.{head}"


def head_words(layer: int, head: int) -> str:
    """Layer and head written out, with the short name.

    >>> head_words(3, 10)
    'layer 3, head 10 (3.10)'
    """
    return f"layer {layer}, head {head} ({head_name(layer, head)})"


def number(value: float | None, decimals: int = 3) -> str:
    """A number with a fixed number of decimals, a dash where there is none.

    >>> number(0.5), number(None), number(-0.0001)
    ('0.500', '–', '0.000')
    """
    if value is None or not np.isfinite(value):
        return NONE
    text = f"{value:.{decimals}f}"
    # A minus before nothing but zeros says more than the digits do.
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: float | None, decimals: int = 3) -> str:
    """A difference, its sign always shown.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.250', '−0.250', '0.000')
    """
    text = number(value, decimals)
    return f"+{text}" if value is not None and text != NONE and float(f"{value:.3f}") > 0 else text


def interval(bounds: tuple[float | None, float | None] | None, decimals: int = 3) -> str:
    """Both ends of an interval.

    >>> interval((0.25, 0.5)), interval(None)
    ('0.250 to 0.500', '–')
    """
    if bounds is None or any(end is None or not np.isfinite(end) for end in bounds):
        return NONE
    return f"{number(bounds[0], decimals)} to {number(bounds[1], decimals)}"


def offset_name(offset: int) -> str:
    """A fixed offset, in words to the right (+) or left (−).

    >>> offset_name(1), offset_name(-2)
    ('+1', '−2')
    """
    return f"+{offset}" if offset > 0 else str(offset).replace("-", "−")


def control_name(result: Result) -> str:
    """What the control of a result is: `random-weights`, `shuffled-words`, else `control`."""
    for source in (result.control, result):
        name = None if source is None else source.provenance.settings.get("control")
        if name:
            return str(name)
    return "control"


def control_label(result: Result) -> str:
    """What a panel or column of the control is called, such as `control: random-weights`."""
    name = control_name(result)
    return name if name == "control" else f"control: {name}"


def stacked(*maps: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float32]:
    """Maps of one shape as the last axis of one small array, for hover texts; None becomes NaN."""
    shape = next(item.shape for item in maps if item is not None)
    filled = [np.full(shape, np.nan) if item is None else item for item in maps]
    return np.stack(filled, axis=-1).astype(np.float32)
