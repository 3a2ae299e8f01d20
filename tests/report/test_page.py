"""The whole report as a file."""

import re
from dataclasses import replace

import pytest

from headscope.errors import HeadscopeError
from headscope.report import render
from headscope.results import DependencyResult, SurfaceResult
from tests.synthetic import dependency, example, examples, provenance, surface

ORIGIN = provenance(n_layers=4, n_heads=2)
LIMIT = 12_000_000
"""Bytes of a report on 144 heads with 12 sentences of 20 words."""
SCRIPT = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page():
    return render(surface(ORIGIN), dependency(ORIGIN), examples(3, n_layers=4, n_heads=2))


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_the_sections_come_in_order(page):
    places = [
        page.index(part)
        for part in (
            "<h1>",
            'id="glance"',
            'id="patterns"',
            'id="relations"',
            'id="sentences"',
            'id="reading"',
        )
    ]
    assert places == sorted(places)
    for target in re.findall(r'href="#(\w+)"', page):
        assert f'id="{target}"' in page


def test_plotly_is_there_once_and_nothing_is_fetched(page):
    assert page.count("* plotly.js v") == 1
    rest = without_scripts(page)
    assert not re.search(r"https?:", rest)
    assert set(re.findall(r"""(?:src|href)\s*=\s*["']([^"'#][^"']*)""", rest)) == {"data:,"}
    assert "url(" not in rest
    assert "@import" not in rest


def test_ids_are_unique_and_labels_point_to_them(page):
    rest = without_scripts(page)
    ids = re.findall(r'\bid="([^"]+)"', rest)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'\bfor="([^"]+)"', rest):
        assert target in ids
    for field in re.findall(r'<(?:select|input)[^>]*\bid="([^"]+)"', rest):
        assert f'for="{field}"' in rest


def test_a_report_stays_below_its_stated_size():
    origin = provenance(n_layers=12, n_heads=12)
    words = tuple(f"word{place}" for place in range(20))
    sentences = [example(words, number=k, n_layers=12, n_heads=12) for k in range(12)]
    control = (surface(origin, seed=8), dependency(origin, seed=9))
    whole = render(
        surface(origin, control=control[0]), dependency(origin, control=control[1]), sentences
    )
    assert len(whole.encode()) < LIMIT


def test_each_result_may_be_left_out():
    only_surface = render(surface(ORIGIN), None, [])
    assert 'id="patterns"' in only_surface
    assert 'id="relations"' not in only_surface
    assert "without example sentences" in only_surface
    only_dependency = render(None, dependency(ORIGIN), [])
    assert 'id="patterns"' not in only_dependency
    assert 'id="relations"' in only_dependency


def test_results_without_scores_still_make_a_page():
    empty = (SurfaceResult(ORIGIN, None, {}), DependencyResult(ORIGIN, None, {}, {}))
    assert "no arc that could be scored" in render(*empty, [])


def test_hostile_names_are_inert_everywhere():
    origin = provenance(n_layers=4, n_heads=2, name=IMAGE, note=SCRIPT)
    origin = replace(
        origin, data=replace(origin.data, name=SCRIPT), warnings=(IMAGE,), settings={IMAGE: SCRIPT}
    )
    words = example((SCRIPT, IMAGE, "a"), n_layers=4, n_heads=2)
    named = replace(words, sent_id=SCRIPT, relations=(IMAGE, SCRIPT, "x"))
    scores = dependency(origin, labels=(SCRIPT, IMAGE, "det", "case", "cc"))
    item = surface(origin).measures["self"]
    measures = {IMAGE: replace(item, name=IMAGE), SCRIPT: replace(item, name=SCRIPT)}
    page = render(SurfaceResult(origin, None, measures), scores, [named])
    assert "<img" not in without_scripts(page)
    assert "<script>alert" not in page
    # Plotly and six scripts of our own; everything else is data.
    assert len(re.findall(r"<script>", page)) == 7
    assert "alert(1)" in page


def test_a_title_of_ones_own():
    page = render(surface(ORIGIN), None, [], title="Mine <b>")
    assert "<title>Mine &lt;b&gt;</title>" in page
    assert "<h1>Mine &lt;b&gt;</h1>" in page


def test_layers_and_heads_are_not_exchanged():
    other = provenance(n_layers=2, n_heads=4)
    page = render(surface(other), None, examples(1, n_layers=2, n_heads=4))
    assert "8 attention heads (2 layers × 4 heads, " in page
    assert "the last one here is 1.3" in page


def test_reports_need_a_result():
    with pytest.raises(HeadscopeError, match="needs a surface or a dependency result"):
        render(None, None, [])


def test_results_must_belong_together():
    other = provenance(n_layers=4, n_heads=2, name="other")
    with pytest.raises(HeadscopeError, match="one model and one file, got demo .* and other"):
        render(surface(ORIGIN), dependency(other), [])


def test_examples_must_be_of_the_model():
    with pytest.raises(HeadscopeError, match="2 layers x 4 heads, the model has 4 x 2"):
        render(surface(ORIGIN), None, examples(1, n_layers=2, n_heads=4))
