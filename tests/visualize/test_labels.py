"""How numbers, heads and names are written."""

import numpy as np
import pytest

from headscope.visualize.labels import (
    NONE,
    control_label,
    control_name,
    head_name,
    head_words,
    interval,
    number,
    offset_name,
    plotly_text,
    shortened,
    signed,
    stacked,
)
from tests.synthetic import provenance, surface


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("a&lt;b", "a&amp;lt;b"),
        ("%{z}", "%&#123;z}"),
        ("two\nlines\tand", "two lines and"),
        ("שלום ß", "שלום ß"),
    ],
)
def test_plotly_text_is_shown_letter_by_letter(text, shown):
    assert plotly_text(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "0.500"), (1, "1.000"), (-0.25, "−0.250"), (-0.0001, "0.000"), (0.0, "0.000")]
    + [(missing, NONE) for missing in (None, np.nan, np.inf)],
)
def test_numbers_have_three_decimals_or_a_dash(value, shown):
    assert number(value) == shown


def test_differences_show_their_sign():
    assert [signed(v) for v in (0.25, -0.25, 0.0, 0.0001, None)] == [
        "+0.250",
        "−0.250",
        "0.000",
        "0.000",
        NONE,
    ]


def test_intervals_need_both_ends():
    assert interval((0.25, 0.5)) == "0.250 to 0.500"
    assert interval((0.25, np.nan)) == interval(None) == NONE


def test_heads_and_offsets():
    assert head_name(3, 10) == "3.10"
    assert head_words(3, 10) == "layer 3, head 10 (3.10)"
    assert [offset_name(offset) for offset in (2, -1)] == ["+2", "−1"]


def test_long_names_lose_their_middle():
    assert shortened("x" * 40) == "x" * 40
    cut = shortened("a" * 30 + "z" * 30, 11)
    assert cut == "aaaaa…zzzzz"


def test_a_control_is_named_by_its_settings():
    named = surface(provenance(settings={"control": "shuffled-words"}))
    assert control_name(surface(control=named)) == "shuffled-words"
    outer = provenance(settings={"control": "random-weights"})
    assert control_name(surface(outer, control=surface())) == "random-weights"
    assert control_name(surface(control=surface())) == "control"
    assert control_label(surface(control=surface())) == "control"
    assert control_label(surface(control=named)) == "control: shuffled-words"


def test_stacked_maps_keep_their_shape():
    found = stacked(np.ones((2, 3)), None)
    assert found.shape == (2, 3, 2)
    assert found.dtype == np.float32
    assert np.isnan(found[..., 1]).all()
