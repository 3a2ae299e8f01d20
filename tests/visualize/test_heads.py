"""Maps of layers x heads: the right value in the right cell, and everything said about it."""

from dataclasses import replace

import numpy as np
import pytest

from headscope.errors import HeadscopeError
from headscope.results import NOT_TOKENS, HeadMap, SurfaceResult
from headscope.visualize import head_map, surface_maps
from headscope.visualize.heads import first_available, subtitle
from tests.synthetic import provenance, surface

ORIGIN = provenance(n_layers=4, n_heads=2)
HOSTILE = "<img src=x onerror=alert(1)>%{z}"


def a_map(**changes):
    values = np.arange(8.0).reshape(4, 2) / 10
    item = HeadMap(
        "previous", values, "probability", 50, 0.125, low=values - 0.01, high=values + 0.01
    )
    return replace(item, **changes)


def test_rows_are_layers_and_columns_heads():
    figure = head_map(a_map())
    cells = np.asarray(figure.data[0].z)
    assert cells.shape == (4, 2)
    assert cells[3, 1] == pytest.approx(0.7)
    assert figure.layout.xaxis.title.text == "head"
    assert figure.layout.yaxis.title.text == "layer"
    assert figure.layout.yaxis.range == (3.5, -0.5)
    assert figure.layout.xaxis.range == (-0.5, 1.5)


def test_a_transposed_map_is_another_figure():
    square = np.arange(9.0).reshape(3, 3) / 10
    figures = [head_map(a_map(values=values, low=None, high=None)) for values in (square, square.T)]
    assert figures[0] != figures[1]
    assert np.asarray(figures[0].data[0].z)[2, 0] == pytest.approx(0.6)


def test_hover_tells_value_interval_and_baseline():
    trace = head_map(a_map()).data[0]
    for part in ("layer %{y}, head %{x}", "%{z:.3f} probability", "95 % interval", "0.125"):
        assert part in trace.hovertemplate
    assert np.asarray(trace.customdata)[3, 1] == pytest.approx([0.69, 0.71])


def test_without_an_interval_hover_says_why():
    trace = head_map(a_map(low=None, high=None, why_no_interval="only 3 documents")).data[0]
    assert "95 % interval: only 3 documents" in trace.hovertemplate
    assert trace.customdata is None


def test_probabilities_span_0_to_1_and_others_up_to_their_largest():
    for units in ("probability", "share"):
        trace = head_map(a_map(units=units)).data[0]
        assert (trace.zmin, trace.zmax) == (0, 1)
    assert head_map(a_map(units="nats")).data[0].zmax == pytest.approx(0.7)
    assert head_map(a_map(units="nats", values=np.zeros((4, 2)))).data[0].zmax == 1


def test_missing_cells_are_seen_and_explained():
    holed = a_map().values.copy()
    holed[1, 0] = np.nan
    heat, gap = head_map(a_map(values=holed)).data
    assert np.isnan(np.asarray(heat.z)[1, 0])
    assert np.isfinite(np.asarray(gap.z)).sum() == 1
    assert "no value" in gap.hovertemplate
    assert len(head_map(a_map()).data) == 1


def test_no_annotation_and_a_title_of_ones_own():
    figure = head_map(a_map(), title="mine")
    assert not figure.layout.annotations
    assert figure.layout.title.text == "mine"


def test_all_labels_are_escaped():
    result = SurfaceResult(ORIGIN, None, {HOSTILE: a_map(name=HOSTILE, why_no_interval=HOSTILE)})
    hostile_origin = provenance(n_layers=4, n_heads=2, name=HOSTILE)
    control = SurfaceResult(hostile_origin, None, result.measures)
    both = surface_maps(replace(result, provenance=hostile_origin, control=control))
    for figure in (head_map(a_map(name=HOSTILE, low=None, why_no_interval=HOSTILE)), both):
        shown = [
            figure.layout.title.text,
            *(annotation.text for annotation in figure.layout.annotations),
            *(button.label for menu in figure.layout.updatemenus for button in menu.buttons),
            *(trace.hovertemplate for trace in figure.data),
        ]
        assert not any("<img" in text for text in shown)
        # The only template fields are our own.
        assert not any("onerror=alert(1)&gt;%{" in text for text in shown)


def test_the_selector_shows_one_measure_at_a_time():
    result = surface(ORIGIN)
    figure = surface_maps(result, measure="entropy")
    assert {trace.meta for trace in figure.data if trace.visible} == {"entropy"}
    (menu,) = figure.layout.updatemenus
    assert [button.name for button in menu.buttons] == list(result.all_ways())
    assert menu.buttons[menu.active].name == "entropy"
    for button in menu.buttons:
        shown, heading = button.args
        names = [trace.meta for trace, on in zip(figure.data, shown["visible"], strict=True) if on]
        assert set(names) == {button.name}
        assert heading["title.text"] == button.name


def test_ways_follow_their_measures_and_what_does_not_exist_comes_last():
    names = [button.name for button in surface_maps(surface(ORIGIN)).layout.updatemenus[0].buttons]
    assert names[:2] == ["previous", "next"]
    assert names[-3:] == ["cls", "other_text", "sink"]
    assert "self, first token left out" in names
    assert "first, first token left out" not in names


def test_a_way_can_be_shown_and_says_how_many_rows_are_left_out():
    result = surface(ORIGIN)
    label = "self, first token left out"
    figure = surface_maps(result, measure=label)
    heat, gap = (trace for trace in figure.data if trace.visible)
    assert np.isnan(np.asarray(heat.z)[0, 0])
    expected = result.measures["self"].values[0, 1] / 2
    assert np.asarray(heat.z)[0, 1] == pytest.approx(expected, abs=1e-6)
    assert "no row has mass besides the first token" in gap.hovertemplate
    assert "%{customdata[2]:,.0f} rows look at the first token alone" in heat.hovertemplate
    assert np.asarray(heat.customdata)[0, 1, 2] == 600
    assert "(up to 6,286 of a head that look at nothing but the first token left out)" in (
        figure.layout.title.subtitle.text
    )


def test_uniform_values_that_differ_by_layer_are_told_layer_by_layer():
    by_layer = np.array([0.5, 0.25, 0.25, 0.2])
    (trace,) = head_map(a_map(uniform_by_layer=by_layer)).data
    assert "uniform attention in this layer: %{customdata[2]:.3f}" in trace.hovertemplate
    assert np.asarray(trace.customdata)[3, 1, 2] == pytest.approx(0.2)
    (trace,) = head_map(a_map(uniform_by_layer=by_layer, low=None)).data
    assert "in this layer: %{customdata[0]:.3f}" in trace.hovertemplate
    assert np.asarray(trace.customdata)[0].ravel().tolist() == [0.5, 0.5]
    told = subtitle(a_map(uniform_by_layer=by_layer))
    assert told.endswith("would give 0.125 (0.200 to 0.500, by layer)")
    same = subtitle(a_map(uniform_by_layer=np.full(4, 0.125)))
    assert same.endswith("would give 0.125")


def test_measures_that_do_not_exist_are_listed_with_the_reason():
    figure = surface_maps(surface(ORIGIN))
    button = next(one for one in figure.layout.updatemenus[0].buttons if one.name == "cls")
    assert button.label == "cls (not available)"
    reason = "not available: the tokenizer has no [CLS] token"
    assert button.args[1]["title.subtitle.text"] == reason


def test_the_first_existing_measure_is_shown():
    result = surface(ORIGIN)
    missing = result.measures["cls"]
    assert first_available(replace(result, measures={"cls": missing})) == "cls"
    both = {"cls": missing, "self": result.measures["self"]}
    assert first_available(replace(result, measures=both)) == "self"


def test_a_control_gets_a_second_panel_with_the_same_colours():
    control = surface(provenance(n_layers=4, n_heads=2, settings={"control": "random-weights"}))
    figure = surface_maps(surface(ORIGIN, seed=1, control=control), measure="entropy")
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert titles == ["demo", "control: random-weights"]
    shown = [trace for trace in figure.data if trace.visible]
    assert {trace.yaxis for trace in shown} == {"y", "y2"}
    assert len({trace.zmax for trace in shown}) == 1
    assert [trace.showscale for trace in shown] == [True, False]


def test_a_subtitle_has_units_count_and_baseline():
    assert subtitle(a_map()) == (
        "share of attention, 0 to 1; mean over 50 query rows; uniform attention would give 0.125"
    )
    assert subtitle(a_map(units="tokens")).startswith("in tokens")
    assert subtitle(a_map(units="share")).startswith("share of the largest possible, 0 to 1;")


def test_unknown_measures_and_empty_results_are_refused():
    with pytest.raises(HeadscopeError, match="unknown measure 'entopy'; did you mean 'entropy'"):
        surface_maps(surface(ORIGIN), measure="entopy")
    with pytest.raises(HeadscopeError, match="holds no measures"):
        surface_maps(SurfaceResult(ORIGIN, None, {}))


def test_the_result_is_left_as_it_is():
    result = surface(ORIGIN)
    before = result.to_json()
    surface_maps(result)
    assert result.to_json() == before


def test_a_layer_that_cannot_be_seen_says_why():
    values, uniform = np.full((3, 2), 0.25), np.array([0.1, np.nan, 0.1])
    values[1] = np.nan
    item = HeadMap("self", values, "probability", 5, 0.1, uniform_by_layer=uniform)
    _, gap = head_map(item).data
    assert NOT_TOKENS in gap.hovertemplate
    values[0, 1] = np.nan
    _, gap = head_map(item).data
    assert "undefined for this head" in gap.hovertemplate
