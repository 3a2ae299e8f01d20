"""The table of relations."""

import re
from dataclasses import replace

import pytest

from headscope.report.dependency import dependency_section
from headscope.results import DependencyResult
from headscope.visualize.labels import interval, signed
from tests.synthetic import causal, dependency, provenance

ORIGIN = provenance(n_layers=4, n_heads=2)
LABELS = ("nsubj", "obj", "det", "acl:relcl", "case", "conj")
HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def result():
    return dependency(ORIGIN, labels=LABELS)


def row(section, label):
    (found,) = re.findall(rf'<tr[^>]*data-relation="{label}">.*?</tr>', section)
    return found


def test_columns_come_in_order_with_held_out_first(result):
    keys = re.findall(r'data-key="(\w+)"', dependency_section(result, linked=False))
    assert keys == ["relation", "count", "head", "held_out", "accuracy", "tied", "offset", "gain"]


def test_ceilings_are_a_column_only_where_there_are_some(result):
    assert "ceiling" not in dependency_section(result, linked=False)
    bounded = causal(result)
    section = dependency_section(bounded, linked=False)
    keys = re.findall(r'data-key="(\w+)"', section)
    assert keys[4:7] == ["accuracy", "ceiling", "tied"]
    assert "no attention head of that layer can reach more" in section
    ceiling = bounded.relations["nsubj"].best.ceiling
    assert f'<td data-value="{ceiling}">{ceiling:.3f}</td>' in row(section, "nsubj")


def test_a_row_has_every_figure(result):
    score = result.relations["nsubj"]
    best, baseline = score.best, score.offset_baseline
    found = row(dependency_section(result, linked=False), "nsubj")
    for part in (
        "620",
        f"{best.layer}.{best.head}",
        {"dependent_to_head": "dependent → syntactic head"}.get(
            best.direction, "syntactic head → dependent"
        ),
        f"<b>{best.held_out_accuracy:.3f}</b>",
        interval(best.held_out_ci95),
        f"{best.accuracy:.3f}",
        f"{baseline.held_out_accuracy:.3f}",
        signed(score.gain),
    ):
        assert part in found, part
    assert found.index(f"<b>{best.held_out_accuracy:.3f}") < found.index(f">{best.accuracy:.3f}<")


def test_rows_come_by_count_and_totals_last(result):
    section = dependency_section(result, linked=False)
    labels = re.findall(r'data-relation="([^"]*)"', section)
    assert labels == [*LABELS, "all_arcs", "no_punct"]
    assert section.index("<tfoot>") < section.index('data-relation="all_arcs"')
    assert "all arcs but punct" in row(section, "no_punct")


@pytest.mark.parametrize(
    ("ends", "marked", "sign"),
    [((0.01, 0.1), True, "▲"), ((-0.2, -0.1), False, "▼"), ((-0.1, 0.1), False, None)],
)
def test_rows_whose_gain_excludes_0_are_marked(ends, marked, sign, result):
    score = replace(result.relations["nsubj"], gain_ci95=ends)
    section = dependency_section(replace(result, relations={"nsubj": score}), linked=False)
    found = row(section, "nsubj")
    assert ('class="clear"' in found) == marked
    assert (sign in found) if sign else not re.search("[▲▼]", found)


def test_missing_figures_are_dashes_with_the_reason(result):
    found = row(dependency_section(result, linked=False), "conj")
    assert found.count('title="fewer than 5 cases in a half"') == 3
    assert '<span class="unseen">fewer than 5 cases in a half</span>' in found
    # Sorted last: no value to sort by.
    assert found.count("data-value") == 5


def test_a_missing_interval_says_why(result):
    score = replace(
        result.relations["nsubj"],
        best=replace(result.relations["nsubj"].best, ci95=None),
        gain_ci95=None,
        nulls={"gain_ci95": "only 3 documents", "best.ci95": "only 3 of them"},
    )
    section = dependency_section(replace(result, relations={"nsubj": score}), linked=False)
    assert '<small title="only 3 documents">–</small>' in row(section, "nsubj")
    assert 'title="95 % interval: only 3 of them"' in row(section, "nsubj")


def test_a_control_adds_a_column(result):
    control = dependency(
        provenance(n_layers=4, n_heads=2, settings={"control": "random-weights"}),
        labels=("nsubj", "a", "b", "c", "obj"),
        seed=5,
    )
    section = dependency_section(replace(result, control=control), linked=False)
    assert "control: random-weights" in section
    held_out = control.relations["nsubj"].best.held_out_accuracy
    assert f">{held_out:.3f}</td></tr>" in row(section, "nsubj")
    assert "the control has no such relation" in row(section, "det")
    assert 'title="fewer than 5 cases in a half"' in row(section, "obj")


def test_the_table_can_be_sorted_and_filtered_by_name(result):
    section = dependency_section(result, linked=True)
    assert section.count('aria-sort="descending"') == 1
    assert section.count('aria-sort="none"') == 7
    assert '<label for="relation-filter">' in section
    assert "6 of 6 relations" in section
    best = result.relations["nsubj"].best
    assert f'data-direction="{best.direction}" data-relation="nsubj"' in row(section, "nsubj")


def test_hostile_labels_are_inert():
    section = dependency_section(dependency(ORIGIN, labels=(HOSTILE, *LABELS)), linked=True)
    assert "<img" not in section
    assert "&lt;img src=x" in section


def test_nothing_to_score_is_said():
    found = dependency_section(DependencyResult(ORIGIN, None, {}, {}), linked=False)
    assert "no arc that could be scored" in found
    assert "<table" not in found


def test_the_offset_has_its_accuracy_also_where_nothing_is_held_out(result):
    score = result.relations["nsubj"]
    baseline = replace(score.offset_baseline, held_out_accuracy=None)
    nulls = {"offset_baseline.held_out_accuracy": "fewer than 10 units bear it"}
    few = replace(score, offset_baseline=baseline, nulls=nulls)
    found = row(
        dependency_section(replace(result, relations={"nsubj": few}), linked=False), "nsubj"
    )
    assert f"<small>in-sample {baseline.accuracy:.3f}</small>" in found
    assert "<small>in-sample" not in row(dependency_section(result, linked=False), "nsubj")
