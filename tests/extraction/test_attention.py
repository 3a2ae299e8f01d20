"""Sentence after sentence with its attention, in the order given."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BartConfig, BartModel

import headscope
from headscope.datasets import Sentence, open_corpus
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.extraction import attention as module
from headscope.extraction.batches import batches
from headscope.extraction.loading import load_encoder
from headscope.extraction.own_maps import own_maps, own_output
from headscope.extraction.words import Merger
from tests.extraction import zoo
from tests.extraction.toys import bert_config, random_model, save
from tests.models import own_attention


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = bert_config(num_hidden_layers=3, max_position_embeddings=64)
    return save(tmp_path_factory.mktemp("model"), random_model(config))


@pytest.fixture(scope="module")
def model(folder):
    return load_encoder(folder, device="cpu")


GIVEN = ["the cat .", ["a", "dog", "and", "the", "cat"], ("cat",), "the  dog\n."]
WORDS = [("the", "cat", "."), ("a", "dog", "and", "the", "cat"), ("cat",), ("the", "dog", ".")]


@pytest.mark.parametrize("ahead", [1, 30, 2**17])
def test_order_and_numbers_are_those_of_each_sentence_alone(model, monkeypatch, ahead):
    monkeypatch.setattr(module, "AHEAD_CELLS", ahead)
    found = list(headscope.attention(model, GIVEN))
    assert [sentence.words for sentence, _ in found] == WORDS
    for sentence, maps in found:
        (batch,) = batches(model, [sentence])
        own, _ = own_attention(model, batch)
        merger = Merger(batch.word_of, batch.n_words)
        expected = torch.cat([merger.merge(layer) for layer in own]).numpy()
        assert maps.dtype == np.float32
        np.testing.assert_allclose(maps, expected, atol=1e-5)


def test_between_tokens_every_row_sums_to_one(model):
    for sentence, maps in headscope.attention(model, GIVEN, level="subword"):
        (batch,) = batches(model, [sentence])
        assert maps.shape == (3, 4, batch.input_ids.shape[1], batch.input_ids.shape[1])
        np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)


def test_the_first_piece_may_speak_for_the_word(model):
    (_, maps), *_ = headscope.attention(model, ["dog"], rows="first")
    (_, whole), *_ = headscope.attention(model, ["dog"], level="subword")
    np.testing.assert_allclose(maps[..., 0, 0], whole[:, :, 1, 1:4].sum(-1), atol=1e-6)


def test_sentences_of_a_corpus_come_back_as_they_are(folder, ewt):
    given = [s for s in open_corpus(ewt).read() if len(" ".join(s.words)) < 50]
    found = headscope.attention(folder, [*given, given[0]])
    assert [sentence for sentence, _ in found] == [*given, given[0]]


def test_reading_goes_only_a_little_ahead(model, monkeypatch):
    monkeypatch.setattr(module, "AHEAD_CELLS", 20)
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield ["the", "cat", "."]

    stream = headscope.attention(model, endless())
    for number in range(1, 10):
        next(stream)
        assert len(taken) <= number + 3
    stream.close()


def test_between_two_sentences_the_model_is_as_it_was(model):
    before = model.model.config._attn_implementation
    stream = headscope.attention(model, GIVEN)
    next(stream)
    assert model.model.config._attn_implementation == before
    stream.close()


def test_what_the_model_cannot_take_is_told(model):
    with pytest.raises(InputError, match="sentence 2 .* cannot be taken: 72 tokens, .* takes 64"):
        list(headscope.attention(model, ["the", "a " * 70]))


@pytest.mark.parametrize("given", ["  ", [], [1, 2], 3, None])
def test_what_is_no_sentence_is_told(model, given):
    with pytest.raises(InputError, match="sentence 2: found .*; expected a list of sentences, eac"):
        list(headscope.attention(model, ["the", given]))


@pytest.mark.parametrize("given", ["The cat", 3, None])
def test_one_sentence_in_place_of_a_list_is_told_at_once(given):
    with pytest.raises(InputError, match=f"found {given!r}; expected a list of sentences: "):
        headscope.attention("no model", given)


def test_faults_are_told_at_once_not_at_the_first_sentence(model):
    with pytest.raises(HeadscopeError, match="unknown level 'words'"):
        headscope.attention(model, [], level="words")
    with pytest.raises(ModelError, match="found --target copy, and its encoder attention reads no"):
        headscope.attention(model, [], target="copy")


@pytest.mark.parametrize("level", ["word", "subword"])
def test_layers_that_cannot_be_seen_are_empty_and_move_no_other(level, tmp_path):
    model = load_encoder(zoo.saved(tmp_path, "funnel"), device="cpu")
    assert (model.n_layers, model.unseen) == (5, (2,))
    for sentence, maps in headscope.attention(model, GIVEN, level=level):
        (batch,) = batches(model, [sentence])
        assert maps.shape[:2] == (5, 4)
        merger = Merger(batch.word_of, batch.n_words)
        for found, own in zip(maps, own_maps(model, own_output(model, batch)), strict=True):
            if own is None:
                assert np.isnan(found).all()
                continue
            expected = merger.merge(own) if level == "word" else own
            np.testing.assert_allclose(found, expected[0].numpy(), atol=1e-5)


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    """A folder with an encoder-decoder of 3 + 2 layers and 2 heads."""
    config = BartConfig(
        d_model=8, encoder_layers=3, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12, vocab_size=300,
        max_position_embeddings=60, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        decoder_start_token_id=3,
    )  # fmt: skip
    return save(tmp_path_factory.mktemp("bart"), random_model(config, BartModel))


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_of_a_decoder_beside_an_encoder_words_are_those_of_the_target(bart, kind):
    encoder = load_encoder(bart, attention=kind, device="cpu")
    blank = [Sentence(w, (0,) * len(w), w, w, "s", 9, 9, 1) for w in WORDS]
    given = [replace(s, target=t) for s, t in zip(blank, reversed(blank), strict=True)]
    found = list(headscope.attention(encoder, given))
    assert [sentence for sentence, _ in found] == given
    whole = copy.deepcopy(encoder.model)
    whole.set_attn_implementation("eager")
    for sentence, maps in found:
        n_keys = len(sentence.target.words if kind == "decoder" else sentence.words)
        assert maps.shape == (2, 2, len(sentence.target.words), n_keys)
        (batch,) = batches(encoder, [sentence])
        columns = (batch.keys.word_of, batch.keys.n_words)
        merger = Merger(batch.queries.word_of, batch.queries.n_words, columns=columns)
        out = whole(
            input_ids=batch.input_ids,
            decoder_input_ids=batch.target.input_ids,
            output_attentions=True,
        )
        own = out.decoder_attentions if kind == "decoder" else out.cross_attentions
        expected = torch.cat([merger.merge(layer) for layer in own]).numpy()
        np.testing.assert_allclose(maps, expected, atol=1e-5)


def test_a_decoder_may_read_a_copy_of_each_sentence(bart):
    encoder = load_encoder(bart, attention="cross", device="cpu")
    for sentence, maps in headscope.attention(encoder, GIVEN, target="copy"):
        assert maps.shape == (2, 2, len(sentence.words), len(sentence.words))
    tokens = list(headscope.attention(encoder, ["the cat"], target="copy", level="subword"))
    np.testing.assert_allclose(tokens[0][1].sum(-1), 1, atol=1e-5)
    with pytest.raises(InputError, match="sentence 1 .*: found no target"):
        list(headscope.attention(encoder, GIVEN))
