"""Surface measures of attention: a value for each query row, and the rows for which it exists.

To add one: a line in `MEASURES`. It is then also taken with the first token left out, and by text
where the data are pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headscope.extraction.rows import Rows
from headscope.shapes import PerRow


@dataclass(frozen=True)
class Measure:
    """A surface measure.

    Attributes:
        value: of each row [B, H, rows] float64; anything where it does not exist.
        exists: [B or 1, rows or 1] True at the rows for which it exists.
        units: of its mean.
        square: whether it compares places of queries and keys, which must be the same tokens.
        why_none: why it does not exist, should there be no such row in the whole corpus.
    """

    value: Callable[[Rows], PerRow]
    exists: Callable[[Rows], Tensor]
    units: str = "probability"
    square: bool = False
    why_none: str = "no sentence has such a row"


NOT_SQUARE = "in cross-attention queries and keys are different texts"
"""Why measures that compare places do not exist for cross-attention."""


def _if(there: bool, rows: Rows) -> Tensor:
    return rows.queries.valid if there else torch.zeros_like(rows.queries.valid)


def _always(rows: Rows) -> Tensor:
    return rows.queries.valid


def _cell(offset: int, why_none: str = "no sentence has such a row") -> Measure:
    return Measure(
        value=lambda rows: rows.cell(offset),
        exists=lambda rows: rows.has_cell(offset),
        square=True,
        why_none=why_none,
    )


def _mass(name: str, why_none: str) -> Measure:
    return Measure(
        value=lambda rows: rows.mass(name), exists=lambda rows: rows.has(name), why_none=why_none
    )


def _share_of_entropy(rows: Rows) -> PerRow:
    return rows.entropy / rows.n_visible.clamp(min=2).double().log().unsqueeze(1)


def _other(kind: str) -> Callable[[Rows], PerRow]:
    def value(rows: Rows) -> PerRow:
        in_second = rows.queries.sets[f"{kind} 1"].unsqueeze(1)
        return torch.where(in_second, rows.mass(f"{kind} 0"), rows.mass(f"{kind} 1"))

    return value


MEASURES: dict[str, Measure] = {
    "previous": _cell(-1),
    "next": _cell(1, "a causal model cannot see the next token, and a single token has none"),
    "self": _cell(0),
    "first": Measure(
        lambda rows: rows.first,
        lambda rows: _if(rows.has_first, rows),
        why_none="the first token is left out",
    ),
    "cls": _mass("cls", "the tokenizer adds no classification token"),
    "separator": _mass("separator", "the tokenizer adds no separator token"),
    "special": _mass("special", "the tokenizer adds no special tokens"),
    "punctuation": Measure(lambda rows: rows.mass("punctuation"), _always),
    "punctuation_words": Measure(lambda rows: rows.mass("punctuation_words"), _always),
    "punctuation_all": Measure(
        lambda rows: rows.mass("punctuation_all"),
        lambda rows: rows.queries.annotated,
        why_none="the data have no parts of speech (UPOS)",
    ),
    "other_segment": Measure(
        _other("segment"),
        lambda rows: rows.queries.has_segments,
        square=True,
        why_none="the tokenizer gives every token the same segment id, as it does to single texts",
    ),
    "other_text": Measure(
        _other("text"),
        lambda rows: (
            rows.queries.has_texts & (rows.queries.sets["text 0"] | rows.queries.sets["text 1"])
        ),
        square=True,
        why_none="the data are no pairs of texts",
    ),
    "sink": Measure(
        lambda rows: 1 - rows.total,
        lambda rows: _if(rows.has_sinks, rows),
        why_none="the model has no sink, an extra score that takes attention from all tokens",
    ),
    "entropy": Measure(lambda rows: rows.entropy, _always, units="nats"),
    "entropy_relative": Measure(
        _share_of_entropy,
        lambda rows: rows.n_visible >= 2,
        units="share",
        why_none="no query sees two keys",
    ),
    "entropy_from_first": Measure(
        lambda rows: rows.entropy, lambda rows: rows.queries.first, units="nats"
    ),
    "entropy_from_cls": Measure(
        lambda rows: rows.entropy,
        lambda rows: rows.queries.sets["cls"],
        units="nats",
        why_none="the tokenizer adds no classification token",
    ),
    "distance": Measure(lambda rows: rows.distance, _always, units="tokens", square=True),
}
