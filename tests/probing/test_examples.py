"""Sentences kept for looking at: chosen by seed, whole maps, special tokens as nodes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.datasets import Sentence, open_corpus
from headscope.errors import MergeError
from headscope.extraction.attention import attention
from headscope.extraction.batches import batches
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.loading import load_encoder
from headscope.extraction.observers import Resampling
from headscope.extraction.words import NO_WORD, Pieces
from headscope.probing.examples import MAX_WORDS, MIN_WORDS, Examples, nodes_of
from tests import models
from tests.extraction import zoo

RESAMPLING = Resampling(0, "12" * 32)


def kept(encoder, sentences, n_wanted=4, batch_tokens=1024, resampling=RESAMPLING):
    observer = Examples(encoder, resampling, n_wanted)
    return models.shown(observer, sentences, batch_tokens=batch_tokens)


@pytest.fixture(scope="module")
def sentences():
    return list(open_corpus("demo", limit=40).read())


def test_choice_depends_on_seed_and_place_alone(encoder, sentences):
    names = {
        tuple(e.sent_id for e in kept(encoder, sentences, batch_tokens=n).result())
        for n in (1, 900)
    }
    assert len(names) == 1
    (chosen,) = names
    assert len(chosen) == 4
    other = kept(encoder, sentences, resampling=Resampling(1, "12" * 32)).result()
    assert tuple(e.sent_id for e in other) != chosen


def test_lengths_are_those_that_can_be_looked_at(encoder, sentences):
    for example in kept(encoder, sentences).result():
        n_words = sum(word is not None for word in example.word_of)
        assert MIN_WORDS <= n_words <= MAX_WORDS
        assert len(example.heads) == len(example.relations) == n_words


def test_halves_added_equal_the_whole(encoder, sentences):
    both = kept(encoder, sentences[:15]) + kept(encoder, sentences[15:])
    assert [e.sent_id for e in both.result()] == [
        e.sent_id for e in kept(encoder, sentences).result()
    ]


def test_rows_are_distributions_over_nodes_and_equal_the_models_maps(encoder, sentences):
    (example,) = kept(encoder, [sentences[3]], n_wanted=1).result()
    np.testing.assert_allclose(example.attention.sum(3), 1, atol=1e-5)
    assert example.nodes[0] == "[CLS]"
    assert example.nodes[-1] == "[SEP]"
    assert tuple(
        n for n, w in zip(example.nodes, example.word_of, strict=True) if w is not None
    ) == (sentences[3].words)
    (batch,) = batches(encoder, [sentences[3]])
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        maps = encoder.model(**inputs(encoder, batch), output_attentions=True).attentions
    node_of, n_nodes = nodes_of(batch.pieces[0])
    map_ = maps[2][0, 5].double().numpy()
    slow = np.zeros((n_nodes, n_nodes))
    for node in range(n_nodes):
        rows = map_[node_of == node].mean(0)
        slow[node] = [rows[node_of == other].sum() for other in range(n_nodes)]
    np.testing.assert_allclose(example.attention[2, 5], slow, atol=1e-6)


def test_equals_the_reference_word_maps(encoder, ewt):
    reference = Path(__file__).resolve().parents[1] / "data" / "expected" / "words.json"
    if not reference.is_file():
        pytest.fail(f"{reference.name} is missing from the tests' data")
    expected = json.loads(reference.read_text())
    by_id = {s.sent_id: s for s in open_corpus(ewt).read()}
    checked = 0
    for item in expected["sentences"]:
        sentence = by_id[item["sent_id"]]
        if not MIN_WORDS <= len(sentence.words) <= MAX_WORDS:
            continue
        (example,) = kept(encoder, [sentence], n_wanted=1).result()
        ours = example.attention[expected["layer"], expected["head"]]
        np.testing.assert_allclose(ours, np.array(item["mean"]), atol=2e-6)
        checked += 1
    assert checked >= 2


def pieces(special, word_of):
    ids = np.arange(len(special))
    n_words = max(word_of) + 2  # the last word has no piece
    return Pieces(ids, ids, np.array(special, dtype=bool), np.array(word_of), 0 * ids, n_words)


def test_nodes_with_special_tokens_anywhere_and_a_word_without_pieces():
    node_of, n_nodes = nodes_of(pieces([1, 0, 0, 1, 0, 1], [NO_WORD, 0, 0, NO_WORD, 1, NO_WORD]))
    # CLS w0 w0 SEP w1 SEP; w2 has no piece and stands after w1.
    assert node_of.tolist() == [0, 1, 1, 2, 3, 5]
    assert n_nodes == 6


def test_a_word_without_pieces_is_a_node_that_gets_nothing(encoder):
    words = ("dogs", "\u00ad", "bark", "at", "cats")
    sentence = Sentence(words, (3, 3, 0, 5, 3), ("x",) * 5, ("X",) * 5, "s", 0, 0, 1)
    (example,) = kept(encoder, [sentence], n_wanted=1).result()
    assert example.nodes == ("[CLS]", *words, "[SEP]")
    assert not example.attention[:, :, :, 2].any()
    assert not example.attention[:, :, 2].any()


def test_other_settings_do_not_merge(encoder):
    with pytest.raises(MergeError, match="cannot add examples of different runs: number 3 and 4$"):
        Examples(encoder, RESAMPLING, 3) + Examples(encoder, RESAMPLING, 4)


def test_layers_that_cannot_be_seen_are_empty_and_move_no_other(tmp_path):
    model = load_encoder(zoo.saved(tmp_path, "funnel"), device="cpu")
    sentence = Sentence(("a", "b", "c", "d", "e"), (2, 0, 2, 3, 3), ("x",) * 5, ("X",) * 5, "s",
                        0, 0, 1)  # fmt: skip
    (example,) = kept(model, [sentence], n_wanted=1).result()
    assert example.unseen == (2,)
    # Every word is one piece, so that nodes are tokens.
    ((_, maps),) = attention(model, [sentence], level="subword")
    np.testing.assert_array_equal(example.attention, maps)
