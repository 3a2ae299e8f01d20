"""A tiny random model in a folder, and records of what it sees."""

import pytest

from headscope.datasets import open_corpus
from headscope.extraction.loading import load_encoder
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.writing import record
from tests.extraction.toys import bert_config, random_model, save

SMALL = RecordSettings(shard_bytes=100_000, batch_tokens=200)


def contents(folder):
    """Name -> bytes of every file."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """3 layers, 4 heads, 64 positions; words are spelled out, so that many sentences are longer."""
    config = bert_config(num_hidden_layers=3, max_position_embeddings=64)
    return save(tmp_path_factory.mktemp("model"), random_model(config))


@pytest.fixture(scope="session")
def model(saved):
    return load_encoder(saved, device="cpu")


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another model with the same tokenizer."""
    config = bert_config(num_hidden_layers=3, max_position_embeddings=64, intermediate_size=14)
    return load_encoder(save(tmp_path_factory.mktemp("other"), random_model(config)), device="cpu")


@pytest.fixture(scope="session")
def corpus(ewt):
    return open_corpus(ewt, limit=60)


@pytest.fixture(scope="session")
def whole(model, corpus, tmp_path_factory):
    """A finished record in several shards; tests that change a file copy it first."""
    return record(model, corpus, tmp_path_factory.mktemp("record") / "whole", settings=SMALL)


@pytest.fixture
def small():
    return SMALL


@pytest.fixture
def read_all():
    return contents
