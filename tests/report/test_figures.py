"""Figures as blocks of a page."""

import json
import re

import pytest

from headscope.report.figures import figure_block, figure_page
from headscope.results import DependencyResult, SurfaceResult
from headscope.visualize import best_heads, head_map, relation_map, surface_maps
from tests.synthetic import dependency, provenance, surface

ORIGIN = provenance(n_layers=2, n_heads=3)
HOSTILE = "</script><script>alert(1)</script>"


def data_of(block):
    (document,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', block)
    return json.loads(document)


def test_title_and_selector_become_html():
    figure = surface_maps(surface(ORIGIN), measure="entropy")
    block = figure_block(figure, "map", label="a map")
    assert '<strong class="figure-title">entropy</strong>' in block
    assert '<label for="map-measure">measure</label>' in block
    assert '<option value="entropy" selected="">entropy</option>' in block
    assert "cls (not available)" in block
    document = data_of(block)
    assert "updatemenus" not in document["layout"]
    assert "title" not in document["layout"]
    assert len(document["menus"][0]) == len(surface(ORIGIN).all_ways())
    # The figure itself is as it was.
    assert figure.layout.updatemenus[0].active == list(surface(ORIGIN).all_ways()).index("entropy")


def test_a_block_has_a_label_and_room():
    block = figure_block(best_heads(dependency(ORIGIN)), "dots", label='say "what"', min_width=640)
    assert 'aria-label="say &quot;what&quot;"' in block
    assert re.search(r"height:\d+px;min-width:640px", block)


def test_hostile_labels_are_inert_and_shown_as_they_are():
    item = surface(ORIGIN).measures["self"]
    block = figure_block(head_map(item, title=HOSTILE), "map", label="x")
    assert block.count("<script") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</strong>" in block


def test_colours_can_be_stretched_to_the_largest_value_of_both_panels():
    control = surface(ORIGIN, seed=4)
    result = surface(ORIGIN, control=control)
    block = figure_block(surface_maps(result), "map", label="x", stretch=True)
    assert 'id="map-stretch"' in block
    document = data_of(block)
    tops = dict(zip((trace["meta"] for trace in document["data"]), document["tops"], strict=True))
    both = [one.measures["self"].values.max() for one in (result, control)]
    assert tops["self"] == pytest.approx(max(both), abs=1e-6)
    assert "tops" not in data_of(figure_block(surface_maps(result), "map", label="x"))


def test_a_page_of_one_result():
    page = figure_page(dependency(ORIGIN))
    assert page.count("* plotly.js v") == 1
    assert page.index('id="best-heads"') < page.index('id="relation-map"')
    assert "Predicted syntactic head of word i" in page
    assert "distilled" in page


def test_a_page_of_one_result_has_both_directions():
    document = data_of(figure_block(relation_map(dependency(ORIGIN)), "map", label="x"))
    assert len(document["menus"][0]) == 2


@pytest.mark.parametrize(
    "result", [SurfaceResult(ORIGIN, None, {}), DependencyResult(ORIGIN, None, {}, {})]
)
def test_nothing_to_draw_is_said(result):
    assert "nothing to score" in figure_page(result)
