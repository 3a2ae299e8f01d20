"""What measures, columns and figures mean, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headscope import __version__
from headscope.report.markup import element, text
from headscope.results import Result

MEASURES: Mapping[str, str] = {
    "previous": "How much attention goes to the token just before the attending one.",
    "next": "How much attention goes to the token just after the attending one.",
    "self": "How much attention a token pays to itself.",
    "first": (
        "How much attention goes to the first token of the sequence, whatever it is. In decoders "
        "most heads put most of their weight there; that is how they work, not an error."
    ),
    "cls": "How much attention goes to the classification token, such as [CLS].",
    "separator": "How much attention goes to the separator token, such as [SEP].",
    "special": "How much attention goes to all special tokens taken together.",
    "punctuation": (
        "How much attention goes to pieces that are exactly a full stop or a comma; the stop "
        "inside U.S. counts as well."
    ),
    "punctuation_words": "How much attention goes to words that are a full stop or a comma.",
    "punctuation_all": "How much attention goes to words tagged as punctuation (UPOS PUNCT).",
    "other_segment": (
        "How much attention goes to tokens of the other segment, as the tokenizer numbers them; "
        "special tokens count."
    ),
    "other_text": (
        "How much attention a token of one text of a pair pays to the other text; special tokens "
        "are left out."
    ),
    "sink": (
        "How much attention goes to no token at all, but to the extra score that such models have "
        "in every row."
    ),
    "entropy": (
        "How widely a token spreads its attention, in nats: 0 when all of it goes to one token, "
        "ln n when it is even over n tokens."
    ),
    "entropy_relative": (
        "The same, as a share of what it would be if the attention were even over all tokens that "
        "the attending one may see: 1 is even, 0 is all on one token. Tokens that see one token "
        "only, as the first of a decoder, are left out."
    ),
    "entropy_from_first": "How widely the first token of the sequence spreads its attention.",
    "entropy_from_cls": "How widely the classification token spreads its attention.",
    "distance": "How far away the attended tokens are: the mean of |i − j|, weighted by attention.",
}
"""One or two sentences for each surface measure; the exact definition stands in the footer."""

CROSS: Mapping[str, str] = {
    "first": (
        "How much attention goes to the first token of the source, which the encoder read, "
        "whatever it is."
    ),
    "entropy_from_first": (
        "How widely the first token of the target, which the decoder reads, spreads its attention "
        "over the source."
    ),
    "entropy_from_cls": (
        "How widely the classification token of the target, which the decoder reads, spreads its "
        "attention over the source."
    ),
}
"""The same of measures of cross-attention for which it matters which text is meant."""

WAYS: Mapping[str, str] = {
    "first token left out": (
        "Here the first token is left out of every row and the rest scaled to sum to 1, for what "
        "lies on the first token hides where else a head looks. Rows with nothing else are in no "
        "mean."
    ),
    "from the first text": "Here only tokens of the first text of each pair attend.",
    "from the second text": "Here only tokens of the second text of each pair attend.",
}
"""What is said of measures taken otherwise, by the label of the way."""

NO_EXAMPLES = (
    "This report was made without example sentences, so there is nothing to step through here. "
    "The figures above are complete."
)


def measure_sentence(label: str, attention: str = "encoder") -> str:
    """A measure and the way in which it is taken (`SurfaceResult.all_ways`) in plain words.

    Args:
        label: of the measure and its way.
        attention: whose it is; in cross-attention the two texts are told apart.

    >>> measure_sentence("self, from the first text")
    'How much attention a token pays to itself. Here only tokens of the first text of each pair \
attend.'
    """
    name, _, way = label.partition(", ")
    known = {**MEASURES, **CROSS} if attention == "cross" else MEASURES
    said = known.get(name, "See the definition at the end of the page.")
    return f"{said} {WAYS[way]}" if way in WAYS else said


def footer(results: Sequence[Result]) -> str:
    """Definitions, how intervals are made, how to cite."""
    version = results[0].provenance.versions.get("headscope", __version__)
    definitions = "".join(
        element("h3", text(result.kind)) + element("p", text(result.definition))
        for result in results
    )
    data = results[0].provenance.data
    parts = [
        _part("Exact definitions", definitions),
        _part("Intervals and held-out figures", _intervals(data.unit_name, data.n_units)),
        _part("How to cite", _citing(version)),
    ]
    return element(
        "footer",
        element("h2", "How to read these numbers", id="reading")
        + element("div", "".join(parts), class_="reading")
        + element("p", f"Made with headscope {text(version)}.", class_="colophon"),
    )


def _part(heading: str, content: str) -> str:
    return element("details", element("summary", text(heading)) + content, open="")


def _intervals(unit: str, n_units: int) -> str:
    sentences = (
        f"Intervals are 95 % percentile bootstrap intervals. What is drawn anew is the {unit}, of "
        f"which the data have {n_units:,}: words of one {unit} resemble each other, so drawing "
        "single words would make intervals too narrow. With fewer than 10 there is no interval.",
        "Looking for the best of many heads flatters it. The held-out accuracy therefore chooses "
        "head and direction on one half of the data and scores them on the other, both ways, and "
        "takes the mean over 10 such splits. The best fixed offset is chosen and scored the same "
        "way. Quote the held-out figure with its interval, beside that of the offset.",
        "The gain is the difference of the two on the same halves. Where its interval excludes 0, "
        "the head knows more about the relation than a fixed distance does.",
    )
    return "".join(element("p", text(sentence)) for sentence in sentences)


def _citing(version: str) -> str:
    return element(
        "p",
        f"Cite headscope {text(version)} together with the model, its revision and the data named "
        "at the top. The measures follow Clark, Khandelwal, Levy and Manning (2019), "
        "<cite>What Does BERT Look at? An Analysis of BERT’s Attention</cite>, BlackboxNLP, "
        "doi 10.18653/v1/W19-4828.",
    )
