"""Who saw whom comes back from a record: ceilings between words are those of a direct run."""

from dataclasses import replace

import numpy as np
import pytest

import headscope
from headscope.datasets import Corpus, Sentence, open_corpus
from headscope.extraction.loading import load_encoder
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.writing import record
from headscope.extraction.windows import Windows, windowed
from headscope.results import DIRECTIONS
from tests.extraction import zoo

LOCAL = ("mistral", "modernbert", "longformer", "gemma3_text", "gpt_oss", "gpt_neo")
VOCABULARY = ("the", "cat", ".", "ab", "xyz", "q", "\u00ad")
"""Of one piece, two, three; the last has none."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Family -> its tiny model, loaded from a folder once."""
    made = {}

    def load(family):
        if family not in made:
            folder = zoo.saved(tmp_path_factory.mktemp(family), family)
            made[family] = load_encoder(folder, device="cpu")
        return made[family]

    return load


def sentences(count, n_first=None):
    """Random words and trees, some sentences too short for any window to matter."""
    draw = np.random.default_rng(0)
    for number in range(count):
        n_words = int(draw.integers(3, 10))
        root = int(draw.integers(n_words))
        others = [[h + 1 for h in range(n_words) if h != word] for word in range(n_words)]
        heads = [0 if w == root else int(draw.choice(o)) for w, o in enumerate(others)]
        words = tuple(draw.choice(VOCABULARY, n_words).tolist())
        relations = tuple("root" if head == 0 else "dep" for head in heads)
        yield Sentence(
            words, tuple(heads), relations, ("X",) * n_words, str(number), number, number, number,
            n_first=n_first,
        )  # fmt: skip


def corpus_of(data_format="conllu", n_first=None):
    def read():
        return sentences(25, n_first)

    return Corpus("made up", "ab" * 32, data_format, "sentence", "gold", "", read, [])


def ceilings(result):
    """[relations and totals, directions, L]."""
    scores = {**result.relations, **result.overall}
    return {name: [one.ceiling[way].tolist() for way in DIRECTIONS] for name, one in scores.items()}


SMALL = RecordSettings(level="word", shard_bytes=5_000, batch_tokens=60)


@pytest.mark.parametrize("family", LOCAL)
@pytest.mark.parametrize("rows", ["mean", "first"])
def test_ceilings_between_words_are_those_of_a_direct_run(loaded, family, rows, tmp_path):
    model, corpus = loaded(family), corpus_of()
    made = record(model, corpus, tmp_path / "r", settings=replace(SMALL, rows=rows))
    found = headscope.dependency(model, made.folder, rows=rows, batch_tokens=100)
    expected = headscope.dependency(model, corpus, rows=rows)
    assert ceilings(found) == ceilings(expected)
    # The test is worth something: a window hides arcs that lie within the sentence.
    highest = expected.overall["all_arcs"].ceiling["dependent_to_head"]
    assert min(highest) < (0.5 if model.causal else 1.0)
    assert any("sights" in shard.names for shard in made.shards)


@pytest.mark.parametrize("family", LOCAL)
def test_ceilings_of_pairs_are_those_of_a_direct_run(loaded, family, tmp_path):
    model, corpus = loaded(family), corpus_of("pairs", n_first=2)
    made = record(model, corpus, tmp_path / "r", settings=SMALL)
    found = headscope.dependency(model, made.folder)
    assert ceilings(found) == ceilings(headscope.dependency(model, corpus))


@pytest.mark.parametrize("family", LOCAL)
def test_ceilings_of_windows_are_those_of_a_direct_run(loaded, family, tmp_path):
    model, corpus, cut = loaded(family), corpus_of(), Windows(24, 1)
    expected = headscope.dependency(model, corpus, windows=cut)
    assert expected.provenance.data.n_sentences == 25
    made = record(model, windowed(corpus, model, cut, wants_maps=True), tmp_path / "r",
                  settings=SMALL)  # fmt: skip
    found = headscope.dependency(model, open_corpus(made.folder))
    assert ceilings(found) == ceilings(expected)


def test_nothing_is_kept_where_all_or_all_earlier_words_are_seen(loaded, tmp_path):
    for family in ("bert", "gpt2"):
        made = record(loaded(family), corpus_of(), tmp_path / family, settings=SMALL)
        for shard in made.shards:
            assert not [name for name in shard.names if name.startswith(("visible", "sights"))]


@pytest.mark.parametrize("level", ["word", "subword"])
def test_layers_that_see_alike_share_one_tensor(loaded, level, tmp_path):
    made = record(
        loaded("modernbert"), corpus_of(), tmp_path / "r", settings=replace(SMALL, level=level)
    )
    special = [shard for shard in made.shards if "sights" in shard.names]
    assert special
    for shard in special:
        # Layers 0 and 3 see everything.
        assert [shard.sight(layer) for layer in range(5)] == [-1, 0, 0, -1, 0]
        assert "visible.1" not in shard.names


def test_shards_with_windows_are_made_anew_to_the_same_bytes(loaded, read_all, tmp_path):
    model, folder = loaded("mistral"), tmp_path / "r"
    shards = record(model, corpus_of(), folder, settings=SMALL).manifest.shards
    before = read_all(folder)
    assert len(shards) > 2
    (folder / shards[1].name).unlink()
    record(model, corpus_of(), folder, settings=SMALL)
    assert read_all(folder) == before
