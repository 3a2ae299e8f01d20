"""Results as terminal tables: nothing hidden, nothing taken for markup."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from headscope.commands import tables
from headscope.commands.tables import table_of
from tests import synthetic


def printed(result, width=140):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(table_of(result))
    return capture.get()


def test_a_relation_that_looks_like_markup_is_printed_as_it_is():
    result = synthetic.dependency(labels=("nsubj", "[red]x[/red]"))
    assert "[red]x[/red]" in printed(result)


def test_ties_are_told():
    result = synthetic.dependency(labels=("nsubj",))
    score = result.relations["nsubj"]
    tied = replace(score, best=replace(score.best, n_tied=3))
    text = printed(replace(result, relations={"nsubj": tied}))
    assert f"{score.best.layer}.{score.best.head} (+2)" in text


def row(text, name):
    """The cells of one row."""
    (line,) = [line for line in text.splitlines() if line.startswith(f" {name} ")]
    return line.split()


def test_measures_that_cannot_exist_share_one_line_at_the_end():
    text = printed(synthetic.surface())
    assert "not there (the JSON file says why): cls, other_text, sink" in text
    for name in ("cls", "other_text", "sink"):
        assert f"\n {name} " not in text
    everything = synthetic.surface().measures
    there = {name: item for name, item in everything.items() if not item.why_null}
    assert "not there" not in printed(replace(synthetic.surface(), measures=there))


def test_the_mean_without_the_first_token_stands_beside():
    result = synthetic.surface()
    text = printed(result)
    whole, rest = result.measures["self"], result.variants["without_first"]["self"]
    cells = row(text, "self")
    assert cells[2:4] == [f"{whole.values.mean():.3f}", f"{np.nanmean(rest.values):.3f}"]
    assert row(text, "first")[3] == "–"
    assert "no 1st: the mean with the first token left out" in text
    assert row(printed(replace(result, variants={})), "self")[3] == "–"


def test_a_head_without_value_is_neither_highest_nor_lowest_nor_in_the_mean():
    result = synthetic.surface()
    values = result.measures["self"].values.copy()
    values[np.unravel_index(values.argmax(), values.shape)] = np.nan
    item = replace(result.measures["self"], values=values, low=None, high=None)
    cells = row(printed(replace(result, measures={"self": item})), "self")
    assert cells[2] == f"{np.nanmean(values):.3f}"
    assert cells[5] == f"{np.nanmax(values):.3f}"


def test_a_control_without_the_measure_is_a_dash():
    settings = {"control": "shuffled-words"}
    result = synthetic.surface(synthetic.provenance(settings=settings))
    gone = replace(result.measures["self"], why_null="nothing")
    control = replace(result, measures={**result.measures, "self": gone})
    text = printed(replace(result, control=control))
    assert row(text, "self")[-1] == "–"
    assert row(text, "next")[-1] == f"{result.measures['next'].values.max():.3f}"


def test_ceilings_are_a_column_only_where_there_are_some():
    result = synthetic.dependency(labels=("nsubj", "obj", "a", "b"))
    assert "ceiling" not in printed(result)
    bounded = synthetic.causal(result)
    text = printed(bounded)
    assert row(text, "nsubj")[-1] == f"{bounded.relations['nsubj'].best.ceiling:.3f}"
    assert "ceiling: share of the arcs whose other end the attending word may see" in text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.5, 0.76, ".50 .76"), (10.0, 20.5, "10.00 20.50"), (-0.25, 1.0, "-.25 1.00")],
)
def test_intervals_lose_leading_zeros_only(low, high, text):
    assert tables._span(low, high) == f"[dim]{text}[/dim]"


def test_other_results_are_refused():
    with pytest.raises(TypeError, match="str"):
        table_of("no result")


def test_too_few_units_are_told_where_they_leave_nothing():
    origin = synthetic.provenance(n_units=4)
    assert "\nno intervals: 4 documents, and they take 10 or more; " in printed(
        synthetic.surface(origin)
    )
    text = printed(synthetic.dependency(origin))
    assert "\nno held-out figures and no intervals: 4 documents, and they take 10 or" in text
    assert "\nintervals over 12 documents; " in printed(synthetic.surface())
    rows = synthetic.provenance(n_units=1, unit="sentence", format="pairs")
    assert "\nno intervals: 1 row, and" in printed(synthetic.surface(rows))


def test_the_offset_has_its_accuracy_also_where_nothing_is_held_out():
    result = synthetic.dependency(labels=("nsubj", "obj", "a", "b", "c"))
    score = result.relations["obj"]
    gone = replace(
        score,
        best=replace(score.best, held_out_accuracy=None, held_out_ci95=None),
        offset_baseline=replace(score.offset_baseline, offset=2, held_out_accuracy=None),
        gain=None,
        gain_ci95=None,
        nulls={"offset_baseline.held_out_accuracy": "fewer than 10 units bear it"},
    )
    kept = result.relations["nsubj"]
    text = printed(replace(result, relations={"nsubj": kept, "obj": gone}))
    assert f" +2 ({score.offset_baseline.accuracy:.3f}) " in text
    said = "offset in brackets: in sample, where nothing is held out:"
    assert said in text
    assert "\nfewer than 10 units bear it" in text
    assert said not in printed(replace(result, overall={}, relations={"nsubj": kept}))


def test_cross_attention_says_from_where_to_where():
    said = "attention goes from tokens of the target to tokens of the source"
    assert said in printed(synthetic.surface(synthetic.provenance(attention="cross")))
    assert said not in printed(synthetic.surface())
