"""A record as data: the same results as from the model, and a line where it will not do."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, SqueezeBertConfig

import headscope
from headscope.datasets import open_corpus
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.extraction.batches import batches
from headscope.extraction.calibration import KeepMaps
from headscope.extraction.hook import inputs
from headscope.extraction.loading import load_encoder
from headscope.extraction.observation import Observation
from headscope.extraction.record.recorder import Recorder
from headscope.extraction.record.replay import Replay
from headscope.extraction.record.writing import record
from headscope.extraction.run import run
from headscope.probing.analysis import Settings, analyse
from headscope.results.envelope import plain
from tests.extraction import zoo
from tests.extraction.toys import random_model, save


def assert_close(found, expected, path=""):
    """Equal to 1e-12, the setting that names the record left out.

    A direct run has the scores at hand, of which float32 entropies come out a little otherwise.
    """
    if path == "/settings":
        assert found.pop("record") is not None
        assert expected.pop("record") is None
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for key in expected:
            assert_close(found[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_close(*pair, f"{path}/{number}")
    elif isinstance(expected, float):
        limit = 1e-7 if "entropy" in path else 1e-12
        assert found == pytest.approx(expected, abs=limit), path
    else:
        assert found == expected, path


def never(*_, **__):
    raise AssertionError("the model was run")


@pytest.mark.parametrize("batch_tokens", [200, 64])
def test_analyses_give_what_the_direct_run_gives(model, corpus, whole, monkeypatch, batch_tokens):
    settings = Settings(batch_tokens=batch_tokens, n_examples=2)
    expected = analyse(model, corpus, settings=replace(settings, batch_tokens=200))
    monkeypatch.setattr(Observation, "forward", never)
    found = analyse(model, whole.folder, settings=settings)
    if batch_tokens == 200:
        assert_close(found.surface.to_dict(), expected.surface.to_dict())
        assert_close(found.dependency.to_dict(), expected.dependency.to_dict())
    for name, item in expected.surface.measures.items():
        limit = 1e-7 if "entropy" in name else 1e-12
        np.testing.assert_allclose(found.surface.measures[name].values, item.values, atol=limit)
    assert [e.sent_id for e in found.examples] == [e.sent_id for e in expected.examples]
    for one, other in zip(found.examples, expected.examples, strict=True):
        np.testing.assert_array_equal(one.attention, other.attention)


def test_the_result_says_where_its_attention_came_from(model, whole):
    result = headscope.surface(model, whole.folder)
    assert result.provenance.settings["record"] == {
        "fingerprint": whole.manifest.fingerprint,
        "level": "subword",
        "rows": "mean",
        "precision": "float32",
    }


def test_the_first_sentences_of_a_record_are_those_of_the_corpus(model, ewt, whole):
    found = analyse(model, open_corpus(whole.folder, limit=20))
    expected = analyse(model, open_corpus(ewt, limit=20))
    assert found.dependency.provenance.data.n_words == expected.dependency.provenance.data.n_words
    for name, item in expected.surface.measures.items():
        np.testing.assert_allclose(found.surface.measures[name].values, item.values, atol=1e-5)


def test_a_record_between_words_gives_the_same_dependency(model, corpus, small, tmp_path):
    made = record(model, corpus, tmp_path / "r", settings=replace(small, level="word"))
    found = headscope.dependency(model, made.folder, batch_tokens=200)
    expected = headscope.dependency(model, corpus, batch_tokens=200)
    assert_close(found.to_dict(), expected.to_dict())


def test_a_record_between_words_serves_nothing_else(model, corpus, small, tmp_path):
    made = record(model, corpus, tmp_path / "r", settings=replace(small, level="word"))
    with pytest.raises(InputError, match="attention between words; Surface looks at all tokens"):
        headscope.surface(model, made.folder)
    with pytest.raises(InputError, match="made with --rows mean; expected first"):
        headscope.dependency(model, made.folder, rows="first")


def test_words_without_pieces_stay_words(model, hostile, tmp_path):
    corpus = open_corpus(hostile / "zero-width.conllu")
    made = [
        record(model, corpus, tmp_path / level, settings=headscope.RecordSettings(level=level))
        for level in ("word", "subword")
    ]
    expected = headscope.dependency(model, corpus)
    assert expected.provenance.data.skipped["arcs_on_missing_words"] > 0
    for one in made:
        assert_close(headscope.dependency(model, one.folder).to_dict(), expected.to_dict())


@pytest.mark.parametrize("control", ["random-weights", "shuffled-words"])
def test_controls_run_the_model(model, corpus, whole, control):
    found = headscope.dependency(model, whole.folder, control=control, batch_tokens=200)
    expected = headscope.dependency(model, corpus, control=control, batch_tokens=200)
    assert_close(plain(found.control.values()), plain(expected.control.values()))
    assert found.control.provenance.settings["record"] is None


def test_another_model_is_refused_and_both_are_named(other, model, whole):
    names = [encoder.info.weights_sha256[:12] for encoder in (model, other)]
    with pytest.raises(InputError) as caught:
        headscope.surface(other, whole.folder)
    message = str(caught.value)
    assert f"attention of {model.info.name} (weights {names[0]})" in message
    assert f"expected that of {other.info.name} (weights {names[1]})" in message
    assert "\n" not in message


def test_pieces_that_are_not_those_recorded_are_refused(model, whole, corpus):
    first, second, *_ = sorted(whole.places)
    (sentence,) = (s for s in corpus.read() if s.ordinal == first)
    replay = Replay(model, whole.folder, [])
    (swapped,) = batches(model, [replace(sentence, ordinal=second)])
    with pytest.raises(InputError, match="found attention of other pieces of sentence"):
        replay.forward(swapped)
    (unknown,) = batches(model, [replace(sentence, ordinal=10_000)])
    with pytest.raises(InputError, match="found no attention of sentence"):
        replay.forward(unknown)


def test_hidden_states_are_not_replayed(model, whole, small, tmp_path):
    settings = replace(small, hidden_states=(0,))
    wanting = Recorder(model, settings, tmp_path, whole.manifest, ())
    with pytest.raises(InputError, match="Recorder wants hidden states"):
        Replay(model, whole.folder, [wanting])


def test_maps_are_padded_as_batches_are(model, whole, corpus):
    keep, direct = KeepMaps(), KeepMaps()
    run(model, whole.corpus, [keep], batch_tokens=200)
    run(model, corpus, [direct], batch_tokens=200)
    assert [m.shape for m in keep.maps] == [m.shape for m in direct.maps]


def test_a_damaged_record_is_one_line(model, whole, tmp_path):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    path = out / "sentences.jsonl"
    path.write_bytes(path.read_bytes().replace(b"the", b"The"))
    with pytest.raises(InputError, match=r"sentences\.jsonl: found other bytes than were written"):
        headscope.surface(model, out)


def test_other_bytes_of_the_right_size_are_found_before_they_are_used(model, whole, tmp_path):
    folder = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    name = whole.manifest.shards[1].name
    with (folder / name).open("r+b") as file:
        file.seek(-4, 2)
        last = file.read(4)
        file.seek(-4, 2)
        file.write(bytes(255 - byte for byte in last))
    for attempt in (lambda: analyse(model, open_corpus(folder)), headscope.Record(folder).verify):
        with pytest.raises(InputError, match=f"{name}: found other bytes than were written"):
            attempt()
    whole.verify()


SIZE = {"vocab_size": 61, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
WIDTH = {"hidden_size": 8, "num_attention_heads": 4, "num_hidden_layers": 3}
FAMILIES = {
    "decoder": GPT2Config(**SIZE, n_embd=8, n_head=4, n_layer=3, n_positions=64),
    "maps of its own": SqueezeBertConfig(
        **SIZE, **WIDTH, embedding_size=8, intermediate_size=12, max_position_embeddings=64
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_other_kinds_of_model_are_replayed(name, ewt, tmp_path):
    model = load_encoder(save(tmp_path / "m", random_model(FAMILIES[name])), device="cpu")
    assert model.causal == (name == "decoder")
    assert (model.route == "maps") == (name == "maps of its own")
    corpus = open_corpus(ewt, limit=40)
    settings = headscope.RecordSettings(hidden_states=(0, 3), shard_bytes=100_000)
    made = record(model, corpus, tmp_path / "r", settings=settings)
    found, expected = analyse(model, made.folder), analyse(model, corpus)
    assert_close(found.surface.to_dict(), expected.surface.to_dict())
    assert_close(found.dependency.to_dict(), expected.dependency.to_dict())
    for ordinal, states in made.hidden_states(3):
        (batch,) = batches(model, [s for s in corpus.read() if s.ordinal == ordinal])
        with torch.no_grad():
            own = model.model(**inputs(model, batch)).last_hidden_state[0].numpy()
        np.testing.assert_allclose(states, own, atol=1e-5)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """Layer 2 of 5 cannot be seen."""
    return load_encoder(zoo.saved(tmp_path_factory.mktemp("funnel"), "funnel"), device="cpu")


@pytest.mark.parametrize("level", ["subword", "word"])
def test_layers_that_cannot_be_seen_are_in_no_shard(pooled, ewt, level, tmp_path):
    corpus = open_corpus(ewt, limit=20)
    settings = headscope.RecordSettings(level=level, shard_bytes=100_000)
    made = record(pooled, corpus, tmp_path / "r", settings=settings)
    assert made.manifest.identity["unseen"] == [2]
    assert all("attention.2" not in shard.names for shard in made.shards)
    sentences = list(corpus.read())
    for sentence, maps in headscope.attention(pooled, sentences, level=level):
        np.testing.assert_allclose(made.attention(sentence.ordinal), maps, atol=1e-6)
    assert [number for number, _ in made.layer(3)] == list(made.places)
    with pytest.raises(HeadscopeError, match="no attention of layer 2: its queries or keys are"):
        next(made.layer(2))
    kinds = ("surface", "dependency") if level == "subword" else ("dependency",)
    wanted = Settings(n_examples=2 if level == "subword" else 0)
    found = analyse(pooled, made.folder, kinds, settings=wanted)
    expected = analyse(pooled, corpus, kinds, settings=wanted)
    for kind in kinds:
        assert_close(getattr(found, kind).to_dict(), getattr(expected, kind).to_dict())
    assert len(found.examples) == wanted.n_examples
    for one, other in zip(found.examples, expected.examples, strict=True):
        np.testing.assert_array_equal(one.attention, other.attention)


def test_hidden_states_that_are_pooled_are_refused(pooled, ewt, tmp_path):
    settings = headscope.RecordSettings(hidden_states=(3,))
    with pytest.raises(ModelError, match="hidden state 3 was asked for; it has .* vectors for"):
        record(pooled, open_corpus(ewt, limit=5), tmp_path / "r", settings=settings)
