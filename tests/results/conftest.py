"""Synthetic results with other numbers of layers than of heads, NaN, None and awkward names."""

import json
from dataclasses import replace

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from headscope.results import (
    DIRECTIONS,
    BestHead,
    DataInfo,
    DependencyResult,
    HeadMap,
    ModelInfo,
    OffsetBaseline,
    Provenance,
    RelationScore,
    SurfaceResult,
    schema,
)

N_LAYERS, N_HEADS = 3, 2
HOSTILE = '<img src=x onerror="alert(1)">'
ODD_LABEL = "a/b~c"


def a_matrix(start=0.0):
    return start + np.arange(N_LAYERS * N_HEADS, dtype=np.float64).reshape(N_LAYERS, N_HEADS) / 10


@pytest.fixture
def provenance():
    return Provenance(
        model=ModelInfo(
            name=HOSTILE,
            revision=None,
            weights_sha256="0" * 64,
            n_layers=N_LAYERS,
            n_heads=N_HEADS,
            family="bert",
            attention="encoder",
            dtype="float32",
        ),
        data=DataInfo(
            name="dev.conllu",
            sha256="f" * 64,
            format="conllu",
            unit="document",
            n_units=12,
            n_sentences=300,
            n_words=5224,
            n_tokens=6586,
            skipped={"too_long": 1},
            unk_rate=0.0,
            annotation="gold",
            note="",
        ),
        settings={"rows": "mean", "measures": ("previous", "cls"), "block": np.int64(64)},
        seed=0,
        versions={"headscope": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0"},
        warnings=("<b>one</b> warning",),
    )


@pytest.fixture
def surface_result(provenance):
    def build(*, control=None, shift=0.0):
        holed = a_matrix(shift)
        holed[2, 1] = np.nan
        nothing = np.full((N_LAYERS, N_HEADS), np.nan)
        measures = {
            "previous": HeadMap(
                "previous",
                holed,
                "probability",
                90,
                uniform=0.2,
                uniform_by_layer=np.array([0.1, 0.2, 0.3]),
                low=holed - 0.1,
                high=holed + 0.1,
            ),
            "entropy": HeadMap(
                "entropy",
                a_matrix(),
                "nats",
                99,
                uniform=1.0,
                uniform_by_layer=np.ones(N_LAYERS),
                why_no_interval="fewer than 10 units",
            ),
            "cls": HeadMap("cls", nothing, "probability", 0, why_null="the tokenizer has no [CLS]"),
        }
        undefined = np.zeros((N_LAYERS, N_HEADS))
        undefined[2, 1] = 90
        left = {
            "previous": replace(measures["previous"], values=holed / 2, undefined=undefined),
            "entropy": replace(measures["entropy"], undefined=0 * undefined),
            "cls": measures["cls"],
        }
        return SurfaceResult(provenance, control, measures, {"without_first": left})

    return build


def a_score(label, *, bare=False):
    """A relation; `bare` has neither intervals nor held-out figures, and says why."""
    accuracy = {direction: a_matrix(0.1 * i) for i, direction in enumerate(DIRECTIONS)}
    reasons = dict.fromkeys(
        (
            "best.ci95",
            "best.held_out_accuracy",
            "best.held_out_ci95",
            "offset_baseline.held_out_accuracy",
            "gain",
            "gain_ci95",
        ),
        "fewer than 10 units",
    )
    return RelationScore(
        label=label,
        count=7,
        accuracy=accuracy,
        low=None if bare else {key: item - 0.01 * (item > 0) for key, item in accuracy.items()},
        high=None if bare else {key: item + 0.01 for key, item in accuracy.items()},
        best=BestHead(
            layer=2,
            head=1,
            direction="head_to_dependent",
            accuracy=0.6,
            ci95=None if bare else (0.5, 0.7),
            n_tied=1,
            held_out_accuracy=None if bare else 0.55,
            held_out_ci95=None if bare else (0.45, 0.65),
            ceiling=0.75,
        ),
        ceiling={
            "dependent_to_head": np.array([0.5, 1.0, 1.0]),
            "head_to_dependent": np.array([1.0, 1.0, 0.75]),
        },
        offset_baseline=OffsetBaseline(-1, 0.4, None if bare else 0.35),
        gain=None if bare else 0.2,
        gain_ci95=None if bare else (0.1, 0.3),
        nulls=reasons if bare else {},
    )


@pytest.fixture
def dependency_result(provenance):
    def build(*, control=None, labels=("nsubj", ODD_LABEL), totals=("all_arcs", "no_punct")):
        relations = {label: a_score(label, bare=label == ODD_LABEL) for label in labels}
        overall = {name: a_score(name) for name in totals}
        return DependencyResult(provenance, control, relations, overall)

    return build


@pytest.fixture
def check_json():
    """Whatever holds for the JSON of every kind: schema, sorted keys, no NaN, reasons at nulls."""

    def check(result):
        text = result.to_json()
        assert text.endswith("}\n")
        assert "NaN" not in text
        assert "Infinity" not in text
        document = json.loads(text)
        assert document == result.to_dict()
        assert text == json.dumps(document, sort_keys=True, ensure_ascii=False) + "\n"
        Draft202012Validator(schema(result.kind)).validate(document)
        for holder in filter(None, (document, document["control"])):
            assert {path: resolve(holder, path) for path in holder["nulls"]} == dict.fromkeys(
                holder["nulls"]
            )
        return document

    return check


def resolve(document, path):
    """What a JSON pointer points to; None where its last part is absent."""
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    for part in parents:
        document = document[part]
    return document.get(last)
