"""The observer that writes shards."""

import pytest

from headscope.datasets.records import read_manifest
from headscope.errors import MergeError, ModelError
from headscope.extraction.batches import batches
from headscope.extraction.calibration import observe
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.recorder import Recorder
from headscope.extraction.record.shards import Shard


@pytest.fixture
def manifest(whole):
    """Of a record of which nothing was written yet."""
    return whole.manifest.__class__(
        **{**vars(whole.manifest), "status": "unfinished", "shards": ()}
    )


def test_a_shard_is_written_once_it_is_full_and_the_rest_at_the_end(
    model, corpus, manifest, tmp_path
):
    recorder = Recorder(model, RecordSettings(shard_bytes=400_000), tmp_path, manifest, ())
    counts = []
    with observe(model, [recorder]) as seen:
        for batch in batches(model, corpus.read(), batch_tokens=100):
            seen.forward(batch)
            recorder.settle()  # a thread writes
            counts.append(len(recorder.manifest.shards))
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] > 1
    recorder.finish()
    found = read_manifest(tmp_path)
    assert (found, found.status) == (recorder.manifest, "finished")
    for number, part in enumerate(found.shards):
        shard = Shard(tmp_path / part.name, manifest.fingerprint, number, model.n_heads)
        assert len(shard.ordinals) == part.n_sentences


def test_batches_that_the_shards_hold_are_known(model, corpus, manifest, small, tmp_path):
    first, second, *_ = batches(model, corpus.read(), batch_tokens=100)
    done = [sentence.ordinal for sentence in first.sentences]
    recorder = Recorder(model, small, tmp_path, manifest, done)
    assert recorder.has(first)
    assert not recorder.has(second)


def test_hidden_states_are_wanted_where_they_are_kept(model, manifest, tmp_path):
    wanting = Recorder(model, RecordSettings(hidden_states=(7,)), tmp_path, manifest, ())
    assert wanting.wants_states
    assert not Recorder(model, RecordSettings(), tmp_path, manifest, ()).wants_states
    with pytest.raises(ModelError, match="hidden state 7 was asked for; the model gives 0 to 1"):
        wanting.take_states(None, [None, None])


def test_records_are_not_added(model, manifest, small, tmp_path):
    recorder = Recorder(model, small, tmp_path, manifest, ())
    with pytest.raises(MergeError, match="records cannot be added"):
        _ = recorder + recorder
