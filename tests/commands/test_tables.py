"""Results as terminal tables: nothing hidden, nothing taken for markup."""

from dataclasses import replace

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


def test_an_undefined_measure_is_a_dash():
    result = synthetic.surface()
    item = next(iter(result.measures.values()))
    gone = replace(item, values=item.values * float("nan"), why_null="the tokenizer has none")
    text = printed(replace(result, measures={item.name: gone}))
    assert "–" in text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.5, 0.76, ".50 .76"), (10.0, 20.5, "10.00 20.50"), (-0.25, 1.0, "-.25 1.00")],
)
def test_intervals_lose_leading_zeros_only(low, high, text):
    assert tables._span(low, high) == f"[dim]{text}[/dim]"


def test_other_results_are_refused():
    with pytest.raises(TypeError, match="str"):
        table_of("no result")
