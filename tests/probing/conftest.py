"""The packaged model, loaded once for all tests of probing."""

import pytest

from headscope.extraction.loading import load_encoder


@pytest.fixture(scope="session")
def encoder():
    return load_encoder("demo")
