"""What stands out."""

from dataclasses import replace

import numpy as np

from headscope.report.glance import glance
from headscope.results import DependencyResult, SurfaceResult
from headscope.visualize.relations import beats_offset
from tests.synthetic import causal, dependency, provenance, surface

ORIGIN = provenance(n_layers=4, n_heads=2)


def test_relations_that_beat_the_offset_are_counted_among_those_judged():
    result = dependency(ORIGIN)
    n_clear = sum(beats_offset(score) for score in result.relations.values())
    assert f"{n_clear} <small>of {len(result.relations) - 3}</small>" in glance(
        None, result, linked=False
    )


def test_the_best_head_over_all_arcs_stands_beside_the_offset():
    result = dependency(ORIGIN)
    score = result.overall["all_arcs"]
    found = glance(None, result, linked=True)
    assert f"{score.best.held_out_accuracy:.3f}" in found
    assert f"{score.offset_baseline.held_out_accuracy:.3f}" in found
    assert f'data-direction="{score.best.direction}"' in found


def test_a_ceiling_stands_beside_the_best_head():
    result = dependency(ORIGIN)
    assert "other end" not in glance(None, result, linked=False)
    bounded = causal(result)
    ceiling = bounded.overall["all_arcs"].best.ceiling
    said = f"It sees the other end of {ceiling:.3f} of them: more it cannot find."
    assert said in glance(None, bounded, linked=False)


def test_the_strongest_positional_heads():
    found = glance(surface(ORIGIN), None, linked=False)
    for name in ("previous", "next", "separator"):
        assert f"<dt>{name}</dt>" in found
    assert "<dt>first</dt>" not in found


def test_missing_numbers_leave_tiles_out():
    assert glance(SurfaceResult(ORIGIN, None, {}), None, linked=False) == ""
    assert glance(None, DependencyResult(ORIGIN, None, {}, {}), linked=False) == ""
    assert glance(None, None, linked=False) == ""
    result = dependency(ORIGIN)
    score = result.overall["all_arcs"]
    bare = replace(score, best=replace(score.best, held_out_accuracy=None))
    assert "of all arcs" not in glance(
        None, replace(result, overall={"all_arcs": bare}), linked=False
    )


def test_no_relation_that_beats_the_offset_is_said():
    result = dependency(ORIGIN)
    none = {
        label: replace(score, gain_ci95=(-0.1, 0.1)) for label, score in result.relations.items()
    }
    assert "No interval of a gain lies above 0" in glance(
        None, replace(result, relations=none), linked=False
    )


def test_relations_that_cannot_be_judged_are_said_with_the_reason():
    result = dependency(ORIGIN)
    few = {
        label: replace(score, gain_ci95=None, nulls={"gain": "fewer than 10 units bear it"})
        for label, score in result.relations.items()
    }
    found = glance(None, replace(result, relations=few), linked=False)
    first = next(iter(few))
    assert f"<bdi>{first}</bdi>, the most frequent one: fewer than 10 units bear it." in found
    assert "of 0" not in found


def test_hostile_relations_are_inert():
    result = dependency(ORIGIN, labels=("<img src=x onerror=alert(1)>", "a", "b", "c", "d"))
    assert "<img" not in glance(None, result, linked=True)


def test_the_strongest_head_stands_beside_uniform_attention_of_its_layer():
    result = surface()
    item = result.measures["previous"]
    assert f"(uniform {item.uniform:.3f})" in glance(result, None, linked=False)
    layer = int(np.unravel_index(np.nanargmax(item.values), item.values.shape)[0])
    by_layer = np.linspace(0.1, 0.2, len(item.values))
    other = replace(item, uniform_by_layer=by_layer)
    result = replace(result, measures={**result.measures, "previous": other})
    assert f"(uniform {by_layer[layer]:.3f})" in glance(result, None, linked=False)
