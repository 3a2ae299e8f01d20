"""What every test may use; no test reaches the network."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

# Shapes in signatures are checked in every call, for as long as the tests run.
install_import_hook(
    [f"headscope.extraction.{name}" for name in ("tokens", "digest", "rows", "measures")],
    "beartype.beartype",
)

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of large real data, beside the repository or at HEADSCOPE_SHARED."""
    folder = Path(os.environ.get("HEADSCOPE_SHARED") or TESTS.parents[1] / "shared")
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder}; set HEADSCOPE_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def hostile() -> Path:
    """The folder of malformed and nasty inputs."""
    return TESTS / "data" / "hostile"


@pytest.fixture(scope="session")
def ewt() -> Path:
    """A treebank that is always there: 100 sentences, 2,319 words, 10 documents."""
    return TESTS / "data" / "ewt" / "en_ewt-dev.first100.conllu"
