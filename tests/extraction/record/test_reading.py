"""Reading a record: what was written, one layer at a time, and one line where it is damaged."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.errors import HeadscopeError, InputError, ParseError
from headscope.extraction.batches import batches
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.reading import Record
from headscope.extraction.record.shards import Shelf
from headscope.extraction.record.writing import record
from tests.models import batch_of, own_attention


@pytest.fixture(scope="module")
def own(model, corpus):
    """Ordinal -> [L, H, T, T], each sentence by itself through the model's own eager attention."""
    found = {}
    for batch in batches(model, corpus.read(), batch_tokens=1):
        maps, _ = own_attention(model, batch)
        found[batch.sentences[0].ordinal] = torch.stack(maps)[:, 0], batch
    return found


def test_every_map_is_the_models_own(whole, own):
    assert len(whole.manifest.shards) > 2
    assert set(whole.places) == set(own)
    for ordinal, (maps, _) in own.items():
        np.testing.assert_allclose(whole.attention(ordinal), maps.numpy(), atol=1e-5)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_layer_is_that_of_every_sentence(whole, own, number):
    found = dict(whole.layer(number))
    assert set(found) == set(own)
    for ordinal, maps in found.items():
        assert maps.dtype == np.float32
        np.testing.assert_array_equal(maps, whole.attention(ordinal)[number])


def between_words(maps, word_of, n_words, rows):
    """In plain loops: columns summed, rows averaged, or the first."""
    pieces = [[t for t, word in enumerate(word_of) if word == w] for w in range(n_words)]
    merged = np.zeros((*maps.shape[:2], n_words, n_words))
    for i, from_word in enumerate(pieces):
        for j, to_word in enumerate(pieces):
            chosen = from_word if rows == "mean" else from_word[:1]
            sums = [maps[:, :, t][:, :, to_word].sum(-1) for t in chosen]
            merged[:, :, i, j] = sum(sums) / len(sums)
    return merged


@pytest.mark.parametrize("rows", ["mean", "first"])
def test_maps_between_words_are_merged_as_everywhere(model, corpus, small, own, tmp_path, rows):
    made = record(model, corpus, tmp_path / "r", settings=replace(small, level="word", rows=rows))
    for ordinal, (maps, batch) in own.items():
        expected = between_words(maps.numpy(), batch.word_of[0].tolist(), batch.n_words, rows)
        np.testing.assert_allclose(made.attention(ordinal), expected, atol=1e-5)


def test_half_precision_halves_the_file_and_keeps_three_digits(
    model, corpus, small, whole, tmp_path
):
    made = record(model, corpus, tmp_path / "r", settings=replace(small, precision="float16"))
    for ordinal in whole.places:
        found, exact = made.attention(ordinal), whole.attention(ordinal)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, exact.astype(np.float16).astype(np.float32))
    sizes = [sum(shard.size for shard in r.manifest.shards) for r in (made, whole)]
    assert 0.45 < sizes[0] / sizes[1] < 0.65


def test_hidden_states_are_the_models_own(model, corpus, small, own, tmp_path):
    made = record(model, corpus, tmp_path / "r", settings=replace(small, hidden_states=(3, 0)))
    for number in (0, 3):
        found = dict(made.hidden_states(number))
        assert set(found) == set(own)
        for ordinal, (_, batch) in own.items():
            with torch.no_grad():
                out = model.model(
                    input_ids=batch.input_ids, token_type_ids=batch.type_ids,
                    output_hidden_states=True,
                )  # fmt: skip
            expected = out.hidden_states[number][0].numpy()
            np.testing.assert_allclose(found[ordinal], expected, atol=1e-5)
    with pytest.raises(HeadscopeError, match="hidden state 1 was not recorded; kept: 3, 0"):
        next(made.hidden_states(1))


def test_tokens_are_those_of_the_pieces(whole, own):
    for shard in whole.shards:
        for ordinal, tokens in zip(shard.ordinals.tolist(), shard.tokens(), strict=True):
            (pieces,) = own[ordinal][1].pieces
            for name, found in tokens.items():
                np.testing.assert_array_equal(found, getattr(pieces, name))


def test_sentences_are_those_of_the_corpus(whole, corpus):
    assert list(whole.corpus.read()) == list(corpus.read())
    assert (whole.corpus.name, whole.corpus.sha256) == (corpus.name, corpus.sha256)


def test_what_is_not_there_is_told(whole, tmp_path):
    with pytest.raises(HeadscopeError, match="found layer 3; expected 0 to 2"):
        next(whole.layer(3))
    with pytest.raises(HeadscopeError, match="found no attention of sentence 999"):
        whole.attention(999)
    with pytest.raises(InputError, match="found no record; expected a folder that has one"):
        Record(tmp_path)


def test_a_shard_cut_short_is_one_line(whole, tmp_path):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    path = out / whole.manifest.shards[1].name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ParseError, match=r"shard-00001\.safetensors: found .* bytes; expected"):
        Record(out)
    with pytest.raises(ParseError, match=r"shard-00001\.safetensors: found .* bytes; expected"):
        _ = whole.__class__(out).shards


def test_an_unfinished_record_is_one_line(whole, tmp_path):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    path = out / "manifest.json"
    path.write_text(path.read_text().replace('"finished"', '"unfinished"'))
    with pytest.raises(InputError, match="found an unfinished record; expected a whole one"):
        Record(out)


PEAK = """
import re, sys
from pathlib import Path
from headscope.extraction.record.shards import Shard
shard = Shard(Path(sys.argv[1]), "f", 0, 4)
assert sum(float(maps[0, 0, 0]) for maps in shard.layer(1)) == 8.0
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
def test_memory_to_read_one_layer_does_not_depend_on_their_number(model, tmp_path):
    """A layer of eight maps takes 24 MiB; six more layers beside it take nothing."""
    batch = batch_of(model, lengths=(443,) * 8)
    peaks = []
    for n_layers in (2, 8):
        shelf = Shelf(SentenceMaps(n_heads=4), range(n_layers), False, RecordSettings())
        for layer in range(n_layers):
            shelf.add_layer(layer, [torch.full((4, 443, 443), float(layer))] * 8, None)
        shelf.close_batch(batch)
        path = tmp_path / str(n_layers)
        path.write_bytes(shelf.content("f", 0))
        run = [sys.executable, "-c", PEAK, str(path)]
        done = subprocess.run(run, capture_output=True, check=True, text=True)
        peaks.append(int(done.stdout) / 1024)
    assert abs(peaks[1] - peaks[0]) < 10


def test_the_folder_may_be_a_string(whole):
    assert Record(str(whole.folder)) == Record(whole.folder)
    assert Record(str(whole.folder)).folder == whole.folder
