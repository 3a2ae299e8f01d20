"""One look for all figures: on light and dark pages, in print, with any colour vision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from plotly.graph_objects import Figure, Heatmap, layout

INK = "#6f7782"
"""Text, at more than 4 : 1 on white and on black; pages replace it by their own."""
FAINT = "rgba(128, 136, 148, 0.28)"
GAP = "rgba(128, 136, 148, 0.14)"
MODEL = "#3d7be0"
BASELINE = "#8b919c"
CONTROL = "#a558b4"
MARK = "#e0842a"

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", sans-serif'

SCALE = "Ice"
"""cmocean's ice: perceptually uniform, one family of hues, told apart with any colour vision.

It runs from dark to light. Figures turn it round, so that little is pale and much is dark; pages on
a dark ground turn it back.
"""

MAX_NUMBERED_COLUMNS = 20
"""With more columns than this the numbers in the cells could no longer be read."""


def styled(figure: Figure, *, height: int, title: str, subtitle: str = "", room: int = 0) -> Figure:
    """The figure with the house layout.

    Args:
        figure: changed in place.
        height: of the plot without its head, in pixels.
        title: as `plotly_text` returns it, and so the subtitle.
        subtitle: stands under the title.
        room: pixels between them and the plot, for a legend or names of panels.
    """
    top = (84 if subtitle else 60) + room
    figure.update_layout(
        template=layout.Template(),
        height=height + top,
        title={
            "text": title,
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14, "l": 16},
            "font": {"size": 17},
            "subtitle": {"text": subtitle, "font": {"size": 13, "color": INK}},
        },
        margin={"t": top, "r": 16, "b": 48, "l": 56},
        font={"family": FONT, "size": 13, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hoverlabel={"align": "left", "font": {"family": FONT, "size": 13}},
        modebar={
            "bgcolor": "rgba(0,0,0,0)",
            "color": FAINT,
            "activecolor": INK,
            # It would send the figure to a server.
            "remove": ["sendChartToCloud"],
        },
    )
    return figure


def heat(values: npt.NDArray[Any], *, top: float, decimals: int, **options: Any) -> Heatmap:
    """A heat map from 0 to `top`; the trace itself draws its cells' numbers where they fit."""
    numbered = values.shape[1] <= MAX_NUMBERED_COLUMNS
    defaults: dict[str, Any] = {
        "z": values.astype(np.float32),
        "zmin": 0,
        "zmax": top,
        "colorscale": SCALE,
        "reversescale": True,
        "hoverongaps": False,
        "texttemplate": f"%{{z:.{decimals}f}}" if numbered else None,
        "xgap": 1 if numbered else 0,
        "ygap": 1 if numbered else 0,
    }
    return Heatmap(defaults | options)


def gaps(values: npt.NDArray[Any], *, hover: str, **options: Any) -> Heatmap:
    """The cells without a value: grey, crossed out, and saying why on hover."""
    missing = np.where(np.isnan(values), 0.0, np.nan).astype(np.float32)
    defaults: dict[str, Any] = {
        "z": missing,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, GAP], [1, GAP]],
        "showscale": False,
        "hoverongaps": False,
        "texttemplate": "×" if values.shape[1] <= MAX_NUMBERED_COLUMNS else None,
        "textfont": {"color": INK},
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": hover + "<extra></extra>",
    }
    return Heatmap(defaults | options)


def colour_bar(title: str) -> dict[str, Any]:
    """A slim colour bar with its units written along it."""
    return {
        "title": {"text": title, "side": "right"},
        "thickness": 10,
        "outlinewidth": 0,
        "xpad": 8,
        "nticks": 6,
    }


def drop_down(name: str, buttons: Sequence[Mapping[str, Any]], active: int) -> dict[str, Any]:
    """A selector above the plot; pages make an HTML one of it, which the keyboard can reach."""
    return {
        "name": name,
        "buttons": list(buttons),
        "active": active,
        "x": 1,
        "xanchor": "right",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": 6},
        "bgcolor": "rgba(0,0,0,0)",
        "bordercolor": FAINT,
    }
