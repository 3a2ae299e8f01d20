"""Made-up results with the looks of real ones, for figures and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headscope.results import (
    DIRECTIONS,
    BestHead,
    DataInfo,
    DependencyResult,
    Example,
    HeadMap,
    ModelInfo,
    OffsetBaseline,
    Provenance,
    RelationScore,
    SurfaceResult,
)

MEASURES = {
    **dict.fromkeys(
        (
            "previous", "next", "self", "first", "cls", "separator", "special", "punctuation",
            "punctuation_words", "punctuation_all", "other_segment", "other_text", "sink",
        ),
        "probability",
    ),
    "entropy": "nats",
    "entropy_relative": "share",
    "entropy_from_first": "nats",
    "entropy_from_cls": "nats",
    "distance": "tokens",
}  # fmt: skip

_RELATIONS = """
punct case det nsubj amod advmod obl nmod conj obj cc compound mark aux nmod:poss cop xcomp
advcl nummod acl:relcl ccomp flat parataxis obl:tmod nsubj:pass aux:pass appos acl fixed iobj
compound:prt expl list discourse csubj nmod:tmod obl:npmod cc:preconj vocative det:predet
"""
RELATIONS = tuple(_RELATIONS.split())

_WORDS = """
the committee found that its earlier report had quietly left out two of the figures which the
court asked for , and sent it back .
"""
WORDS = tuple(_WORDS.split())


def provenance(
    *, n_layers: int = 6, n_heads: int = 12, settings: Mapping[str, Any] | None = None, **more: Any
) -> Provenance:
    """The origin of a made-up analysis; `more` replaces fields of the model or of the data."""
    model = ModelInfo(
        name="demo",
        revision=None,
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        n_layers=n_layers,
        n_heads=n_heads,
        family="bert",
        attention="encoder",
        dtype="float32",
    )
    data = DataInfo(
        name="demo",
        sha256="0b5a5f0b64bd3cb9b8b3f1bd4b0d3a4a9c1f9f9c8d3a5f0b64bd3cb9b8b3f1bd",
        format="conllu",
        unit="document",
        n_units=12,
        n_sentences=300,
        n_words=5224,
        n_tokens=6586,
        skipped={"too_long": 0},
        unk_rate=0.0004,
        annotation="gold",
        note="the first 300 of 1,250 sentences (--limit 300)",
    )
    of_model = {key: value for key, value in more.items() if hasattr(model, key)}
    of_data = {key: value for key, value in more.items() if hasattr(data, key)}
    if "name" in more:
        of_data.pop("name")
    return Provenance(
        model=replace(model, **of_model),
        data=replace(data, **of_data),
        settings={"rows": "mean", "coarse": False, "control": None} | dict(settings or {}),
        seed=0,
        versions={"headscope": "0.1.0", "torch": "2.9.0", "transformers": "5.20.1"},
        warnings=("the packaged model is distilled and was tuned on sentence pairs",),
    )


def surface(
    origin: Provenance | None = None, *, seed: int = 0, control: SurfaceResult | None = None
) -> SurfaceResult:
    """Every measure for every head; some do not exist, `distance` has no interval.

    With the first token left out, the first head has nothing left, and `first` does not exist.
    """
    origin = provenance() if origin is None else origin
    shape = (origin.model.n_layers, origin.model.n_heads)
    rng = np.random.default_rng(seed)
    measures = {}
    for name, units in MEASURES.items():
        top = {"probability": 1.0, "share": 1.0, "nats": 3.2, "tokens": 9.0}[units]
        measures[name] = _head_map(name, units, top * rng.beta(0.5, 2.5, size=shape), top)
    missing = {
        "cls": "the tokenizer has no [CLS] token",
        "other_text": "the data are no pairs of texts",
        "sink": "the model has no sink",
    }
    for name, reason in missing.items():
        measures[name] = _nothing(measures[name], reason)
    measures["distance"] = replace(
        measures["distance"], low=None, high=None, why_no_interval="fewer than 10 documents"
    )
    without_first = {name: _without_first(item) for name, item in measures.items()}
    without_first["first"] = _nothing(measures["first"], "it does not exist once it is left out")
    return SurfaceResult(
        provenance=origin,
        control=control,
        measures=measures,
        variants={"without_first": without_first},
    )


def _nothing(item: HeadMap, reason: str) -> HeadMap:
    return replace(
        item,
        values=np.full(item.values.shape, np.nan),
        uniform=None,
        uniform_by_layer=None,
        n=0,
        low=None,
        high=None,
        undefined=None,
        why_null=reason,
        why_no_interval="the measure does not exist",
    )


def _without_first(item: HeadMap) -> HeadMap:
    """Half of each value, the first head undefined in all rows and the second in 600 of them."""
    if item.why_null:
        return item
    undefined = np.zeros(item.values.shape)
    undefined[0, 0], undefined[0, 1] = item.n, 600
    halved = {
        name: None if values is None else np.where(undefined == item.n, np.nan, values / 2)
        for name, values in (("values", item.values), ("low", item.low), ("high", item.high))
    }
    return replace(item, undefined=undefined, **halved)


def _head_map(name: str, units: str, values: np.ndarray, top: float) -> HeadMap:
    return HeadMap(
        name=name,
        values=values,
        units=units,
        n=6286,
        uniform=0.07 * top,
        uniform_by_layer=np.full(len(values), 0.07 * top),
        low=values * 0.96,
        high=np.minimum(values * 1.04, top),
    )


def dependency(
    origin: Provenance | None = None,
    *,
    labels: Sequence[str] = RELATIONS,
    seed: int = 0,
    control: DependencyResult | None = None,
) -> DependencyResult:
    """A score for every label, most frequent first; the last three are too rare to be held out."""
    origin = provenance() if origin is None else origin
    shape = (origin.model.n_layers, origin.model.n_heads)
    rng = np.random.default_rng(seed)
    counts = [max(3, int(620 / (1 + rank) ** 1.1)) for rank in range(len(labels))]
    scores = {
        label: _score(label, count, shape, rng, rare=rank >= len(labels) - 3)
        for rank, (label, count) in enumerate(zip(labels, counts, strict=True))
    }
    totals = {
        name: _score(name, count, shape, rng, rare=False)
        for name, count in (("all_arcs", 4924), ("no_punct", 4304))
    }
    return DependencyResult(provenance=origin, control=control, relations=scores, overall=totals)


def _score(
    label: str, count: int, shape: tuple[int, int], rng: np.random.Generator, *, rare: bool
) -> RelationScore:
    accuracy = {direction: 0.55 * rng.beta(0.6, 3.0, size=shape) for direction in DIRECTIONS}
    layer, head = int(rng.integers(shape[0])), int(rng.integers(shape[1]))
    direction = DIRECTIONS[int(rng.integers(2))]
    best = float(rng.uniform(0.5, 0.97))
    accuracy[direction][layer, head] = best
    held_out, offset = best - 0.01, float(rng.uniform(0.1, 0.8))
    gain = held_out - offset
    reason = "fewer than 5 cases in a half"
    missing = ("best.held_out_accuracy", "best.held_out_ci95", "gain", "gain_ci95")
    return RelationScore(
        label=label,
        count=count,
        accuracy=accuracy,
        low={side: np.maximum(values - 0.03, 0) for side, values in accuracy.items()},
        high={side: np.minimum(values + 0.03, 1) for side, values in accuracy.items()},
        best=BestHead(
            layer=layer,
            head=head,
            direction=direction,
            accuracy=best,
            ci95=(best - 0.03, min(best + 0.03, 1.0)),
            n_tied=1 + int(rng.integers(2)),
            held_out_accuracy=None if rare else held_out,
            held_out_ci95=None if rare else (held_out - 0.04, min(held_out + 0.04, 1.0)),
            ceiling=1.0,
        ),
        ceiling={direction: np.ones(shape[0]) for direction in DIRECTIONS},
        offset_baseline=OffsetBaseline(
            offset=int(rng.choice([-2, -1, 1, 2])),
            accuracy=offset + 0.01,
            held_out_accuracy=None if rare else offset,
        ),
        gain=None if rare else gain,
        gain_ci95=None if rare else (gain - 0.06, gain + 0.06),
        nulls=dict.fromkeys((*missing, "offset_baseline.held_out_accuracy"), reason)
        if rare
        else {},
    )


def causal(result: DependencyResult) -> DependencyResult:
    """The same with ceilings below 1: 0.6 in one direction, 0.4 in the other."""

    def lowered(score: RelationScore) -> RelationScore:
        heights = dict(zip(DIRECTIONS, (0.6, 0.4), strict=True))
        n_layers = len(score.ceiling[DIRECTIONS[0]])
        return replace(
            score,
            best=replace(score.best, ceiling=heights[score.best.direction]),
            ceiling={side: np.full(n_layers, height) for side, height in heights.items()},
        )

    return replace(
        result,
        relations={label: lowered(score) for label, score in result.relations.items()},
        overall={label: lowered(score) for label, score in result.overall.items()},
    )


def example(
    words: Sequence[str] = WORDS,
    *,
    number: int = 0,
    n_layers: int = 6,
    n_heads: int = 12,
    special: bool = True,
) -> Example:
    """One sentence; every word hangs on the word two places before, heads attend near that."""
    rng = np.random.default_rng(number)
    n_words = len(words)
    nodes = ("[CLS]", *words, "[SEP]") if special else tuple(words)
    word_of = (None, *range(n_words), None) if special else tuple(range(n_words))
    heads = tuple(max(0, position - 1 - number % 2) for position in range(1, n_words + 1))
    relations = tuple(
        "root" if head == 0 else RELATIONS[position % 12] for position, head in enumerate(heads)
    )
    places = np.arange(len(nodes))
    away = places[None, :] - places[:, None]
    wanted = rng.integers(-3, 4, size=(n_layers, n_heads, 1, 1))
    sharp = rng.uniform(0.1, 3, size=(n_layers, n_heads, 1, 1))
    scores = -sharp * np.abs(away - wanted) + rng.normal(0, 0.3, (n_layers, n_heads, *away.shape))
    weights = np.exp(scores)
    attention = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    return Example(f"made-up-{number}", nodes, word_of, heads, relations, attention)


def examples(count: int = 12, *, n_layers: int = 6, n_heads: int = 12) -> list[Example]:
    """Sentences of different lengths."""
    return [
        example(
            (WORDS * 2)[shift : shift + 8 + 2 * shift],
            number=shift,
            n_layers=n_layers,
            n_heads=n_heads,
        )
        for shift in range(count)
    ]
