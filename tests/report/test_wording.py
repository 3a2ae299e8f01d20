"""Plain words."""

from headscope.extraction.measures import MEASURES as DEFINED
from headscope.report.wording import CROSS, MEASURES, WAYS, footer, measure_sentence
from headscope.results.surface import WAY_LABELS
from tests.synthetic import dependency, provenance, surface


def test_every_measure_has_a_sentence():
    assert set(DEFINED) == set(MEASURES)


def test_every_way_has_a_sentence():
    assert set(WAYS) == set(WAY_LABELS.values()) - {"all tokens"}
    assert measure_sentence("self, from the second text") == (
        f"{MEASURES['self']} {WAYS['from the second text']}"
    )


def test_an_unknown_measure_points_to_the_definition():
    assert measure_sentence("new") == "See the definition at the end of the page."


def test_the_footer_has_definitions_intervals_and_citation():
    found = footer([surface(), dependency()])
    for part in (
        "Per head [layer][head], 0-based",
        "argmax_j W[i,j]",
        "bootstrap",
        "What is drawn anew is the document, of which the data have 12",
        "Cite headscope 0.1.0",
        "Made with headscope 0.1.0.",
    ):
        assert part in found


def test_names_in_the_footer_are_escaped():
    assert "<b>" not in footer([surface(provenance(unit="<b>"))])


def test_in_cross_attention_the_texts_are_told_apart():
    assert "first token of the source" in measure_sentence("first", "cross")
    assert "first token of the target" in measure_sentence("entropy_from_first", "cross")
    assert measure_sentence("special", "cross") == MEASURES["special"]
    assert set(CROSS) <= set(MEASURES)
