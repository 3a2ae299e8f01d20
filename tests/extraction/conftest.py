"""What tests of extraction share: a tiny random checkpoint, whole or to be broken, and the demo."""

import shutil
from pathlib import Path

import pytest

from headscope.extraction.loading import load_encoder
from tests.extraction.toys import bert_config, random_model, save


@pytest.fixture(scope="module")
def model():
    """A tiny random BERT."""
    return random_model(bert_config())


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """Its checkpoint, of this module's tests: not to be changed."""
    return save(tmp_path_factory.mktemp("saved"), model)


@pytest.fixture
def folder(saved, tmp_path):
    """A good checkpoint to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "toy"))


@pytest.fixture(scope="module")
def encoder(saved):
    """The tiny BERT, loaded."""
    return load_encoder(saved, device="cpu")


@pytest.fixture(scope="module")
def demo():
    """The packaged model, loaded."""
    return load_encoder("demo", device="cpu")
