"""Which head carries which relation, as figures."""

from dataclasses import replace

import numpy as np
import pytest

from headscope.errors import HeadscopeError
from headscope.results import DIRECTIONS, DependencyResult
from headscope.visualize import best_heads, relation_map, relations
from headscope.visualize.relations import beats_offset, kept_relations
from tests.synthetic import causal, dependency, provenance

ORIGIN = provenance(n_layers=4, n_heads=2)
LABELS = ("nsubj", "obj", "det", "acl:relcl", "case", "conj")


@pytest.fixture
def result():
    return dependency(ORIGIN, labels=LABELS)


def cells(figure, direction):
    return next(t for t in figure.data if t.type == "heatmap" and t.meta == direction)


def test_rows_are_relations_and_columns_all_heads(result):
    figure = relation_map(result)
    for direction in DIRECTIONS:
        trace = cells(figure, direction)
        assert np.asarray(trace.z).shape == (len(LABELS), 8)
        expected = result.relations["det"].accuracy[direction]
        assert np.asarray(trace.z)[2] == pytest.approx(expected.ravel(), abs=1e-6)
        assert trace.x[5] == "layer 2, head 1 (2.1)"
    assert figure.layout.yaxis.ticktext[0] == "nsubj (620)"
    assert figure.layout.yaxis.range == (5.5, -0.5)


def test_a_transposed_accuracy_is_another_figure(result):
    square = dependency(provenance(n_layers=3, n_heads=3), labels=LABELS)
    turned = {
        label: replace(score, accuracy={side: a.T for side, a in score.accuracy.items()})
        for label, score in square.relations.items()
    }
    assert relation_map(square) != relation_map(replace(square, relations=turned))


def test_directions_differ_and_are_selected(result):
    figure = relation_map(result, direction="head_to_dependent")
    shown = [trace.meta for trace in figure.data if trace.visible is not False]
    assert set(shown) == {"head_to_dependent", "offset"}
    first, second = (np.asarray(cells(figure, direction).z) for direction in DIRECTIONS)
    assert (first != second).any()
    (menu,) = figure.layout.updatemenus
    assert [button.name for button in menu.buttons] == list(DIRECTIONS)
    for button in menu.buttons:
        visible = button.args[0]["visible"]
        on = {trace.meta for trace, seen in zip(figure.data, visible, strict=True) if seen}
        assert on == {button.name, "offset"}


def test_hover_has_interval_and_offset(result):
    trace = cells(relation_map(result), "dependent_to_head")
    assert "%{z:.3f}" in trace.hovertemplate
    assert "dependent → syntactic head" in trace.hovertemplate
    score = result.relations["obj"]
    low = score.low["dependent_to_head"][1, 0]
    assert f"95 % interval: {low:.3f} to" in trace.text[1][2]
    assert f"best offset ({score.offset_baseline.offset:+d})".replace("-", "−") in trace.text[1][2]


def test_hover_has_the_ceiling_where_there_is_one(result):
    trace = cells(relation_map(result), "dependent_to_head")
    assert not any("ceiling" in note for row in trace.text for note in row)
    figure = relation_map(causal(result))
    for direction, height in zip(DIRECTIONS, ("0.600", "0.400"), strict=True):
        for row in cells(figure, direction).text:
            assert all(note.count(f"<br>ceiling: {height}, for no more of") == 1 for note in row)
    dots = [trace for trace in best_heads(causal(result)).data if trace.error_x.array is not None]
    notes = [note for trace in dots for note in trace.text]
    assert len(notes) == 3 + 2
    assert all(note.count("<br>ceiling: 0.") == 1 for note in notes)


def test_without_intervals_hover_says_why(result):
    bare = {
        label: replace(score, low=None, high=None, nulls={"best.ci95": "only 3 documents"})
        for label, score in result.relations.items()
    }
    trace = cells(relation_map(replace(result, relations=bare)), "dependent_to_head")
    assert trace.text[0][0].startswith("95 % interval: only 3 documents<br>best offset")


def test_layers_are_separated_and_the_best_heads_marked(result):
    figure = relation_map(result)
    lines = [shape.x0 for shape in figure.layout.shapes]
    assert lines == [1.5, 3.5, 5.5]
    assert figure.layout.xaxis.ticktext == ("0", "1", "2", "3")
    rings = [trace for trace in figure.data if trace.type == "scatter"]
    assert sum(len(trace.x) for trace in rings) == len(LABELS)


def test_the_page_finds_rows_by_their_label(result):
    meta = relation_map(result).layout.meta
    assert meta == {"columns": "all heads", "n_heads": 2, "rows": list(LABELS)}


def test_above_the_limit_the_rarest_are_left_out_and_it_is_said(result, monkeypatch):
    monkeypatch.setattr(relations, "MAX_CELLS", 20)
    figure = relation_map(result)
    assert np.asarray(cells(figure, "dependent_to_head").z).shape == (2, 8)
    assert "only the 2 most frequent of 6 relations" in figure.layout.title.subtitle.text
    assert [score.label for score in kept_relations(result)] == ["nsubj", "obj"]


def test_equal_names_keep_their_own_rows():
    long = "x" * 40
    labels = (f"{long}a{long}", f"{long}b{long}", "det")
    result = dependency(ORIGIN, labels=labels)
    same = {label: replace(score, count=9) for label, score in result.relations.items()}
    names = relation_map(replace(result, relations=same)).layout.yaxis.ticktext
    assert len(set(names)) == 3


def test_names_are_escaped():
    label = "<img src=x onerror=alert(1)>%{z}"
    result = dependency(ORIGIN, labels=(label, "obj", "det", "case", "cc", "mark"))
    for figure in (relation_map(result), best_heads(result)):
        assert figure.layout.yaxis.ticktext is not None
        names = [*figure.layout.yaxis.ticktext, *(trace.hovertemplate for trace in figure.data)]
        assert not any(name and ("<img" in name or ">%{z}" in name) for name in names)
    assert relation_map(result).layout.meta["rows"][0] == label


def test_best_heads_stand_beside_the_offset(result):
    figure = best_heads(result)
    by_name = {trace.name: trace for trace in figure.data if trace.name}
    score = result.relations["nsubj"]
    offsets = dict(zip(by_name["best offset"].y, by_name["best offset"].x, strict=True))
    assert offsets["nsubj (620)"] == score.offset_baseline.held_out_accuracy
    dots = {
        name: (x, up, down, text)
        for trace in figure.data
        if trace.error_x.array is not None
        for name, x, up, down, text in zip(
            trace.y, trace.x, trace.error_x.array, trace.error_x.arrayminus, trace.text, strict=True
        )
    }
    x, up, down, text = dots["nsubj (620)"]
    assert x == score.best.held_out_accuracy
    assert (x - down, x + up) == pytest.approx(score.best.held_out_ci95)
    assert f"best head {score.best.layer}.{score.best.head}," in text
    assert "gain: " in text


def test_full_dots_beat_the_offset(result):
    figure = best_heads(result)
    full = next(trace for trace in figure.data if trace.name == "best head, beats the offset")
    scores = [*result.relations.values(), *result.overall.values()]
    assert len(full.y) == sum(beats_offset(score) for score in scores) > 0
    none = replace(result.relations["nsubj"], gain_ci95=None)
    assert not beats_offset(none)


def test_relations_without_held_out_figures_are_left_out_and_counted(result):
    figure = best_heads(result)
    assert len(figure.layout.yaxis.ticktext) == 3 + 2
    assert "3 too rare to be held out are left out" in figure.layout.title.subtitle.text


def test_a_control_is_drawn_for_the_relations_it_has(result):
    settings = {"control": "shuffled-words"}
    origin = provenance(n_layers=4, n_heads=2, settings=settings)
    control = dependency(origin, labels=("nsubj", "a", "b", "c"), seed=7)
    figure = best_heads(replace(result, control=control))
    trace = next(one for one in figure.data if one.name == "control: shuffled-words")
    found = dict(zip(trace.y, trace.x, strict=True))
    assert found["nsubj (620)"] == control.relations["nsubj"].best.held_out_accuracy
    assert found["obj (289)"] is None


def test_nothing_to_draw_and_unknown_directions_are_refused(result):
    empty = DependencyResult(ORIGIN, None, {}, {})
    for figure in (relation_map, best_heads):
        with pytest.raises(HeadscopeError, match="holds no relations"):
            figure(empty)
    with pytest.raises(HeadscopeError, match="unknown direction 'sideways'"):
        relation_map(result, direction="sideways")
