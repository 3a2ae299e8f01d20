"""The section on what each head attends to."""

from dataclasses import replace

import numpy as np

from headscope.report.surface import surface_section, top_heads
from headscope.results import SurfaceResult
from tests.synthetic import provenance, surface

ORIGIN = provenance(n_layers=4, n_heads=2)


def article(section, name):
    return section.split(f'data-view="{name}"')[1].split("</article>")[0]


def test_top_heads_go_by_value_then_layer_then_head():
    values = np.array([[0.1, 0.5], [np.nan, 0.5], [0.9, 0.2]])
    assert top_heads(values, 4) == [(2, 0), (0, 1), (1, 1), (2, 1)]
    assert top_heads(values, 2, lowest=True) == [(0, 0), (2, 1)]
    assert top_heads(np.full((2, 2), np.nan)) == []


def test_each_measure_has_its_meaning_baseline_interval_and_heads():
    result = surface(ORIGIN)
    found = article(surface_section(result, linked=False), "previous")
    assert "the token just before" in found
    assert "0.070: what attention spread evenly would give" in found
    assert "6,286 attending tokens" in found
    assert found.count("<tr>") == 1 + 5
    place = top_heads(result.measures["previous"].values, 1)[0]
    assert found.index(f"{place[0]}.{place[1]}</span>") < found.index("<td")


def test_only_the_chosen_measure_is_shown_at_first():
    section = surface_section(surface(ORIGIN), linked=False)
    assert 'data-view="previous">' in section
    assert 'data-view="next" hidden="">' in section


def test_spread_and_distance_also_list_the_lowest():
    section = surface_section(surface(ORIGIN), linked=False)
    assert "Lowest 5 heads" in article(section, "entropy")
    assert "Lowest 5 heads" not in article(section, "self")


def test_a_measure_taken_otherwise_has_its_own_text_figures_and_heads():
    result = surface(ORIGIN)
    found = article(surface_section(result, linked=False), "self, first token left out")
    assert "pays to itself. Here the first token is left out" in found
    assert "up to 6,286 of a head that look at nothing but the first token" in found
    place = top_heads(result.measures["self"].values[None, 1:].reshape(3, 2), 1)[0]
    assert f"{result.measures['self'].values[1:][place] / 2:.3f}" in found
    as_they_are = article(surface_section(result, linked=False), "self")
    assert "left out" not in as_they_are


def test_ways_of_a_control_stand_beside_the_same_way():
    control = surface(provenance(n_layers=4, n_heads=2, settings={"control": "shuffled-words"}))
    result = surface(ORIGIN, seed=3, control=control)
    label = "self, first token left out"
    found = article(surface_section(result, linked=False), label)
    place = top_heads(result.all_ways()[label].values, 1)[0]
    assert f"{control.all_ways()[label].values[place]:.3f}</td></tr>" in found


def test_missing_measures_and_intervals_say_why():
    section = surface_section(surface(ORIGIN), linked=False)
    assert "Not available: the tokenizer has no [CLS] token." in article(section, "cls")
    assert "none: fewer than 10 documents" in article(section, "distance")


def test_a_control_stands_beside_each_head():
    control = surface(provenance(n_layers=4, n_heads=2, settings={"control": "shuffled-words"}))
    result = surface(ORIGIN, seed=3, control=control)
    found = article(surface_section(result, linked=False), "self")
    place = top_heads(result.measures["self"].values, 1)[0]
    assert "control: shuffled-words" in found
    assert f"{control.measures['self'].values[place]:.3f}" in found


def test_heads_are_linked_where_there_is_an_explorer():
    assert '<button type="button" class="head"' in surface_section(surface(ORIGIN), linked=True)
    assert 'class="head"' in surface_section(surface(ORIGIN), linked=False)
    assert "<button" not in surface_section(surface(ORIGIN), linked=False)


def test_without_measures_it_says_so():
    assert "No measure was asked for" in surface_section(
        SurfaceResult(ORIGIN, None, {}), linked=False
    )


def test_hostile_measure_names_are_inert():
    name = '<img src=x onerror="alert(1)">'
    item = replace(surface(ORIGIN).measures["cls"], name=name, why_null=name)
    section = surface_section(SurfaceResult(ORIGIN, None, {name: item}), linked=True)
    assert "<img" not in section
