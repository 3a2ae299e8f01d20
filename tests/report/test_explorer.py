"""Example sentences: what is stored is what the analysis says."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from headscope.report import explorer
from headscope.report.explorer import (
    STEPS,
    explorer_section,
    fitting,
    found_share,
    packed,
    payload,
    predictions,
    scorable_arcs,
)
from headscope.results import DIRECTIONS, NOT_TOKENS, Example
from tests.synthetic import dependency, example, examples, provenance

WEIGHTS = np.array(
    # [CLS]  a    b    c
    [
        [0.7, 0.1, 0.1, 0.1],
        [0.6, 0.3, 0.05, 0.05],  # a: itself, then a tie of b and c
        [0.1, 0.2, 0.3, 0.4],  # b: c
        [1.0, 0.0, 0.0, 0.0],  # c: nothing among the words
    ],
    dtype=np.float32,
)


def small(weights=WEIGHTS, **changes):
    sentence = Example(
        sent_id="s1",
        nodes=("[CLS]", "a", "b", "c"),
        word_of=(None, 0, 1, 2),
        heads=(2, 0, 2),
        relations=("det", "root", "obj"),
        attention=weights[None, None],
    )
    return replace(sentence, **changes)


def unpacked(encoded, shape):
    return np.frombuffer(base64.b64decode(encoded), dtype="<u2").reshape(shape)


def test_predictions_by_hand():
    forth, back = (predictions(small(), direction)[0, 0].tolist() for direction in DIRECTIONS)
    # a: b before c; b: c; c: no mass at all.
    assert forth == [1, 2, -1]
    # columns: b gives a most; a gives b all there is; b gives c more than a does.
    assert back == [1, 0, 1]


def test_arcs_and_shares_by_hand():
    assert scorable_arcs(small()) == [(0, 1), (2, 1)]
    shares = [found_share(small(), predictions(small(), side))[0][0] for side in DIRECTIONS]
    assert shares == [0.5, 1.0]


def test_words_without_a_node_take_their_arcs_with_them():
    cut = small(
        nodes=("[CLS]", "a", "c"),
        word_of=(None, 0, 2),
        attention=WEIGHTS[[0, 1, 3]][:, [0, 1, 3]][None, None],
    )
    assert scorable_arcs(cut) == []
    assert found_share(cut, predictions(cut, "dependent_to_head")) == [[0.0]]
    assert predictions(cut, "dependent_to_head")[0, 0].tolist() == [2, -1, -1]


def test_a_sentence_of_special_tokens_predicts_nothing():
    bare = small(word_of=(None,) * 4, heads=(), relations=())
    assert predictions(bare, "dependent_to_head").shape == (1, 1, 0)
    assert payload(bare)["arcs"] == 0


def test_attention_comes_back_to_within_half_a_step():
    sentence = example(n_layers=2, n_heads=3)
    stored = payload(sentence)
    back = unpacked(stored["attention"], sentence.attention.shape) / STEPS
    assert np.abs(back - sentence.attention).max() <= 0.5 / STEPS + 1e-7
    assert stored["shape"] == [2, 3, len(sentence.nodes)]


def test_missing_and_overflowing_weights_are_stored_within_bounds():
    odd = WEIGHTS.copy()
    odd[0, 0], odd[1, 1] = np.nan, 1.0000005
    back = unpacked(payload(small(odd))["attention"], (4, 4))
    assert (back[0, 0], back[1, 1]) == (0, STEPS)


def test_predictions_are_stored_plus_one():
    stored = payload(small())["predicted"]
    assert unpacked(stored["dependent_to_head"], (3,)).tolist() == [2, 3, 0]
    assert packed(np.array([1, 256])) == base64.b64encode(b"\x01\x00\x00\x01").decode()


def test_the_axes_are_not_exchanged():
    turned = small(WEIGHTS.T)
    assert payload(turned)["attention"] != payload(small())["attention"]
    forth, back = (predictions(turned, direction).tolist() for direction in DIRECTIONS)
    assert forth == predictions(small(), "head_to_dependent").tolist()
    assert back == predictions(small(), "dependent_to_head").tolist()


@pytest.mark.parametrize("count", [1, 3, 20])
def test_any_number_of_sentences(count):
    section = explorer_section(examples(count, n_layers=2, n_heads=3))
    assert len(re.findall(r'id="example-\d+"', section)) == count
    assert section.count("<option") == count + 2 + 3 + 2


def test_no_sentence_is_said():
    section = explorer_section([])
    assert "without example sentences" in section
    assert "<svg" not in section


def test_too_much_is_left_out_and_said(monkeypatch):
    many = examples(4, n_layers=2, n_heads=3)
    sizes = [one.attention.size * 2 * 4 // 3 for one in many]
    monkeypatch.setattr(explorer, "MAX_CHARACTERS", sizes[0] + sizes[1])
    assert fitting(many) == many[:2]
    assert "2 of 4 sentences are left out" in explorer_section(many)


def start_of(section):
    (found,) = re.findall(r'id="explorer-start">(.*?)</script>', section)
    return json.loads(found)


def test_the_best_head_over_all_arcs_comes_first():
    sentences = examples(2, n_layers=4, n_heads=2)
    result = dependency(provenance(n_layers=4, n_heads=2))
    best = result.overall["all_arcs"].best
    assert start_of(explorer_section(sentences, result)) == {
        "layer": best.layer,
        "head": best.head,
        "direction": best.direction,
    }
    share = np.array(found_share(sentences[0], predictions(sentences[0], "dependent_to_head")))
    start = start_of(explorer_section(sentences))
    assert share[start["layer"], start["head"]] == share.max()


def test_hostile_and_right_to_left_words_are_inert():
    words = (
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "שלום",
        "a\u2028b",
    )
    section = explorer_section([example(words, n_layers=2, n_heads=3)])
    assert "<script>alert" not in section
    assert "<img" not in section
    assert "\u2028" not in section.split("<option")[0]
    (document,) = re.findall(r'id="example-0">(.*?)</script>', section)
    assert json.loads(document)["nodes"][1:-1] == list(words)


def test_words_in_the_selector_are_isolated():
    assert "1. \u2068שלום a\u2069" in explorer_section([example(("שלום", "a"))])


def test_a_layer_that_cannot_be_seen_is_null_and_says_why():
    weights = np.stack([WEIGHTS, np.full_like(WEIGHTS, np.nan)])
    stored = payload(small(attention=weights[:, None]))
    assert stored["unseen"] == [1]
    assert stored["whyUnseen"] == NOT_TOKENS
    assert stored["found"] == {"dependent_to_head": [[0.5], [None]],
                               "head_to_dependent": [[1.0], [None]]}  # fmt: skip
    section = explorer_section([small(attention=weights[:, None])])
    assert "NaN" not in section
    assert NOT_TOKENS in section
