"""A shard: one file, each tensor read by itself, and which keys were seen where that is special."""

import numpy as np
import pytest
import safetensors
import torch
from transformers import MistralConfig

from headscope.datasets import open_corpus
from headscope.errors import ParseError
from headscope.extraction.batches import batches
from headscope.extraction.calibration import observe
from headscope.extraction.loading import load_encoder
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.replay import Replay
from headscope.extraction.record.shards import Shard, Shelf, packed, shard_name
from headscope.extraction.record.writing import record
from tests.extraction.toys import random_model, save
from tests.models import batch_of


def shelf_of(n_layers=2, causal=False, **settings):
    return Shelf(SentenceMaps(n_heads=3), range(n_layers), causal, RecordSettings(**settings))


def numbered(batch, n_heads=3, start=0):
    """For each sentence a map of running numbers."""
    for side in batch.n_tokens.tolist():
        size = n_heads * side * side
        yield torch.arange(start, start + size).float().view(n_heads, side, side)
        start += size


@pytest.fixture
def batch(model):
    return batch_of(model, lengths=(4, 3))


def filled(batch, shelf):
    for layer in range(2):
        shelf.add_layer(layer, list(numbered(batch, start=1000 * layer)), None)
    shelf.close_batch(batch)
    return shelf


def test_numbers_come_back_where_they_were_put(batch, tmp_path):
    shelf = filled(batch, shelf_of())
    assert shelf.n_bytes == 2 * 3 * (16 + 9) * 4
    (tmp_path / "s").write_bytes(shelf.content("f" * 64, 5))
    shard = Shard(tmp_path / "s", "f" * 64, 5, 3)
    assert shard.ordinals.tolist() == [0, 1]
    assert shard.sides.tolist() == shard.n_tokens.tolist() == [4, 3]
    for layer in range(2):
        expected = list(numbered(batch, start=1000 * layer))
        for index, maps in enumerate(shard.layer(layer)):
            np.testing.assert_array_equal(maps, expected[index].numpy())
            np.testing.assert_array_equal(shard.attention(layer, index), expected[index].numpy())
            assert shard.visible(layer, index) is None
    assert shard.ids(1).tolist() == batch.pieces[1].ids.tolist()


def test_an_emptied_shelf_starts_again(batch):
    shelf = filled(batch, shelf_of())
    content = shelf.content("f", 0)
    shelf.clear()
    assert (shelf.n_bytes, shelf.ordinals) == (0, [])
    assert filled(batch, shelf).content("f", 0) == content


def test_keys_seen_are_kept_where_they_are_special(batch, tmp_path):
    shelf = shelf_of(n_layers=3, causal=True)
    seen = packed([np.eye(side, dtype=bool) for side in (4, 3)])
    for visible in (None, seen):
        shelf.add_layer(0, list(numbered(batch)), None)
        shelf.add_layer(1, list(numbered(batch)), visible)
        shelf.add_layer(2, list(numbered(batch)), visible)
        shelf.close_batch(batch)
    (tmp_path / "s").write_bytes(shelf.content("f", 0))
    shard = Shard(tmp_path / "s", "f", 0, 3)
    for index, side in enumerate((4, 3, 4, 3)):
        expected = np.tri(side, dtype=bool) if index < 2 else np.eye(side, dtype=bool)
        assert shard.visible(0, index) is None
        for layer in (1, 2):
            np.testing.assert_array_equal(shard.visible(layer, index), expected)
    # Once for both layers, eight keys in a byte.
    assert {name for name in shard.names if name.startswith("visible")} == {"visible.0"}
    with safetensors.safe_open(tmp_path / "s", framework="np") as file:
        assert file.get_slice("visible.0").get_shape() == [2 + 2 + 2 + 2]


def test_one_layer_is_one_tensor(whole):
    path = whole.folder / shard_name(0)
    with safetensors.safe_open(path, framework="np") as file:
        names = set(file.keys())
        assert file.get_slice("attention.1").get_dtype() == "F32"
    rest = {"ids", "word_of", "special", "ordinals", "n_tokens", "sides"}
    assert names == {f"attention.{layer}" for layer in range(3)} | rest


def test_shards_are_closed_by_their_size(whole, small):
    for shard in whole.shards[:-1]:
        assert 4 * 4 * 3 * int((shard.sides**2).sum()) >= small.shard_bytes


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "no shard of a record"), (b"\x08" + bytes(7) + b"{}      ", "no shard of a record")],
)
def test_what_is_no_shard_is_one_line(tmp_path, content, found):
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(ParseError, match=found) as caught:
        Shard(tmp_path / "s", "f", 0, 3)
    assert "\n" not in str(caught.value)


def test_a_shard_of_another_record_is_one_line(whole, tmp_path):
    place = tmp_path / "s"
    place.write_bytes((whole.folder / shard_name(0)).read_bytes())
    fingerprint = whole.manifest.fingerprint
    with pytest.raises(ParseError, match=f"found shard 0 of record {fingerprint[:12]}; expected"):
        Shard(place, "0" * 64, 0, 4)
    with pytest.raises(ParseError, match="expected shard 1 of record"):
        Shard(place, fingerprint, 1, 4)


class Seen:
    """Keeps what every query saw, by sentence and layer."""

    needs = "maps"

    def __init__(self):
        self.found = {}

    def update(self, block):
        visible = block.visible()[:, 0]
        for row, sentence in enumerate(block.batch.sentences):
            n = int(block.batch.n_tokens[row])
            self.found[sentence.ordinal, block.layer] = visible[row, :n, :n].tolist()

    def close(self, batch):
        pass


def test_sliding_windows_are_replayed(tmp_path, ewt):
    size = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2}
    size |= {"num_hidden_layers": 2, "intermediate_size": 12, "vocab_size": 61}
    config = MistralConfig(**size, max_position_embeddings=64, sliding_window=5)
    model = load_encoder(save(tmp_path / "model", random_model(config)), device="cpu")
    corpus = open_corpus(ewt, limit=30)
    made = record(model, corpus, tmp_path / "r", settings=RecordSettings(batch_tokens=150))
    direct, replayed = Seen(), Seen()
    stream = list(batches(model, corpus.read(), batch_tokens=150))
    with observe(model, [direct]) as observation:
        for batch in stream:
            observation.forward(batch)
    replay = Replay(model, made.folder, [replayed])
    for batch in stream:
        replay.forward(batch)
    assert replayed.found == direct.found
    longest = max(direct.found.values(), key=len)
    assert sum(longest[-1]) == 5
    assert made.shards[0].visible(0, 0) is not None
