"""The look that all figures share."""

import numpy as np
import plotly.colors
import pytest
from plotly.graph_objects import Figure

from headscope.visualize.style import (
    INK,
    MAX_NUMBERED_COLUMNS,
    SCALE,
    colour_bar,
    drop_down,
    gaps,
    heat,
    styled,
)


def luminance(red, green, blue):
    """Relative luminance after WCAG 2."""
    parts = np.array([red, green, blue]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first, second):
    high, low = sorted((first, second), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_read_on_white_and_on_black():
    ink = luminance(*(int(INK[place : place + 2], 16) for place in (1, 3, 5)))
    assert contrast(ink, 1.0) > 4
    assert contrast(ink, 0.0) > 4


def test_the_scale_rises_in_lightness_by_even_steps():
    stops = plotly.colors.sequential.__dict__[SCALE.lower()]
    light = [luminance(*plotly.colors.unlabel_rgb(stop)) ** (1 / 3) for stop in stops]
    steps = np.diff(light)
    assert (steps > 0).all()
    assert steps.max() < 2.5 * np.median(steps)


def test_figures_have_no_ground_and_no_template():
    figure = styled(Figure(), height=100, title="a", subtitle="b")
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.template.layout.to_plotly_json() == {}
    assert figure.layout.height > 100
    assert figure.layout.modebar.remove == ("sendChartToCloud",)
    assert (figure.layout.title.text, figure.layout.title.subtitle.text) == ("a", "b")


@pytest.mark.parametrize("n_heads", [MAX_NUMBERED_COLUMNS, MAX_NUMBERED_COLUMNS + 1])
def test_numbers_are_drawn_by_the_trace_where_they_fit(n_heads):
    trace = heat(np.zeros((2, n_heads)), top=1.0, decimals=2)
    fits = n_heads <= MAX_NUMBERED_COLUMNS
    assert (trace.texttemplate == "%{z:.2f}") == fits
    assert (gaps(np.zeros((2, n_heads)), hover="").texttemplate == "×") == fits


def test_gaps_are_where_values_are_missing():
    trace = gaps(np.array([[0.5, np.nan]]), hover="why")
    assert np.isnan(trace.z[0][0])
    assert trace.z[0][1] == 0
    assert trace.hovertemplate == "why<extra></extra>"


def test_selector_and_colour_bar():
    menu = drop_down("measure", [{"label": "a"}], 0)
    assert (menu["name"], menu["active"]) == ("measure", 0)
    assert colour_bar("nats")["title"]["text"] == "nats"
