"""From model and data to results: one pass, controls, headers, notebooks' entry points."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import headscope
from headscope.datasets import Sentence, open_corpus
from headscope.errors import HeadscopeError
from headscope.probing import analysis
from headscope.probing.analysis import Settings, analyse, reordered, shuffled
from headscope.results.schema import schema


@pytest.fixture(scope="module")
def small():
    return open_corpus("demo", limit=60)


@pytest.fixture(scope="module")
def whole(encoder, small):
    return analyse(encoder, small, settings=Settings(n_examples=3))


def test_one_pass_gives_the_same_as_two(encoder, small, whole):
    alone = analyse(encoder, small, ("dependency",))
    assert alone.surface is None
    assert alone.dependency.to_json() == whole.dependency.to_json()
    surface = analyse(encoder, small, ("surface",)).surface
    assert surface.to_json() == whole.surface.to_json()


@pytest.mark.parametrize("kind", ["surface", "dependency"])
def test_results_fit_their_schemas(whole, kind):
    result = getattr(whole, kind)
    text = result.to_json()
    assert "NaN" not in text
    jsonschema.validate(json.loads(text), schema(kind))


def test_header_says_what_was_analysed(whole):
    origin = whole.dependency.provenance
    assert (origin.model.name, origin.model.n_layers, origin.model.n_heads) == ("demo", 6, 12)
    assert (origin.data.name, origin.data.unit, origin.data.n_units) == ("demo", "document", 3)
    assert (origin.data.n_sentences, origin.data.annotation) == (60, "gold")
    assert origin.data.skipped["arcs_on_missing_words"] == 0
    assert origin.settings["rows"] == "mean"
    assert any("contrastively tuned" in warning for warning in origin.warnings)
    assert "only the first 60 sentences" in origin.data.note


def test_examples_come_along(whole):
    assert len(whole.examples) == 3
    assert all(e.attention.shape[:2] == (6, 12) for e in whole.examples)


def test_same_seed_same_bytes_other_seed_other_intervals(encoder, ewt):
    corpus = open_corpus(ewt)  # 10 documents: fewer give no interval
    once, again, other = (
        analyse(encoder, corpus, ("surface",), settings=Settings(seed=s)).surface for s in (0, 0, 1)
    )
    assert once.to_json() == again.to_json()
    first, second = once.measures["entropy"], other.measures["entropy"]
    np.testing.assert_array_equal(first.values, second.values)
    assert not np.array_equal(first.low, second.low)


def test_python_entry_points_take_settings_as_keywords(encoder, small, whole):
    result = headscope.dependency(encoder, small, coarse=True, rows="first")
    assert result.provenance.settings["coarse"] is True
    assert not any(":" in label for label in result.relations)
    assert headscope.surface(encoder, small).to_json() == whole.surface.to_json()


def chance(corpus):
    """Mean over arcs of 1 / (number of other words): what a blind guess gets."""
    shares = [
        1 / (len(s.words) - 1)
        for s in corpus.read()
        for head in s.heads
        if head and len(s.words) > 1
    ]
    return float(np.mean(shares))


@pytest.mark.parametrize("control", ["random-weights", "shuffled-words"])
def test_controls_behave_at_chance(encoder, control):
    corpus = open_corpus("demo", limit=60)
    result = analyse(encoder, corpus, settings=Settings(control=control)).dependency
    real, blind = result, result.control
    assert blind is not None
    assert blind.control is None
    level = chance(corpus)
    accuracy = np.concatenate(
        [blind.overall["all_arcs"].accuracy[d].ravel() for d in blind.overall["all_arcs"].accuracy]
    )
    # The mean over heads is a blind guess; the best head of the real model is far above any.
    assert abs(accuracy.mean() - level) < 0.25 * level
    assert real.overall["all_arcs"].best.accuracy > 2.5 * accuracy.max()
    assert blind.overall["all_arcs"].count == real.overall["all_arcs"].count


def test_control_of_surface_with_random_weights_is_near_uniform(encoder, small):
    result = analyse(encoder, small, ("surface",), settings=Settings(control="random-weights"))
    control = result.surface.control
    entropy = control.measures["entropy"]
    assert np.abs(entropy.values - entropy.uniform).max() < 0.2
    assert np.abs(result.surface.measures["entropy"].values - entropy.uniform).max() > 2


def test_shuffling_keeps_the_tree_on_its_words(small):
    sentence = Sentence(
        ("the", "dog", "barks"), (2, 3, 0), ("det", "nsubj", "root"),
        ("DET", "NOUN", "VERB"), "s", 0, 0, 1,
    )  # fmt: skip
    mixed = reordered(sentence, [2, 0, 1])
    assert mixed.words == ("barks", "the", "dog")
    assert mixed.heads == (0, 3, 1)
    assert mixed.relations == ("root", "det", "nsubj")
    assert mixed.upos == ("VERB", "DET", "NOUN")
    plain = list(small.read())
    once, again, other = (list(shuffled(small, seed).read()) for seed in (5, 5, 6))
    assert once == again != other
    for before, after in zip(plain, once, strict=True):
        pairs = [
            sorted(
                (s.words[i], s.words[h - 1] if h else "", r)
                for i, (h, r) in enumerate(zip(s.heads, s.relations, strict=True))
            )
            for s in (before, after)
        ]
        assert pairs[0] == pairs[1]
        assert before.unit == after.unit


def test_words_of_a_pair_are_shuffled_within_their_text_and_its_target_stays(tmp_path):
    path = tmp_path / "x.tsv"
    rows = [f"a{i} b c d. e f g\th i{i} j. k l m\tn o p q\t{i}\n" for i in range(20)]
    path.write_text("text\ttext_pair\ttarget\tlabel\n" + "".join(rows))
    corpus = open_corpus(path)
    plain, mixed = list(corpus.read()), list(shuffled(corpus, 0).read())
    for before, after in zip(plain, mixed, strict=True):
        n = before.n_first
        assert (after.n_first, after.label, after.target) == (n, before.label, before.target)
        assert sorted(after.words[:n]) == sorted(before.words[:n])
        assert sorted(after.words[n:]) == sorted(before.words[n:])
        heads = [
            sorted(
                (s.words[i], s.words[head - 1] if head else "") for i, head in enumerate(s.heads)
            )
            for s in (before, after)
        ]
        assert heads[0] == heads[1]
    assert all(
        b.words[: b.n_first] != a.words[: a.n_first] for b, a in zip(plain, mixed, strict=True)
    )
    assert all(
        b.words[b.n_first :] != a.words[a.n_first :] for b, a in zip(plain, mixed, strict=True)
    )


def test_nothing_to_score_is_told_not_refused(encoder, hostile):
    result = analyse(encoder, open_corpus(hostile / "one-word.conllu"), ("dependency",)).dependency
    document = json.loads(result.to_json())
    jsonschema.validate(document, schema("dependency"))
    assert document["values"]["overall"]["all_arcs"]["count"] == 0
    assert document["values"]["uas"]["dependent_to_head"]["all_arcs"] is None
    assert any("no arc to score" in text for text in document["warnings"])


def test_progress_hears_of_every_sentence_of_both_passes(encoder, small):
    heard = []
    analyse(
        encoder, small, ("surface",),
        settings=Settings(control="shuffled-words"), progress=lambda n, tokens: heard.append(n),
    )  # fmt: skip
    assert sum(heard) == 2 * 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": "men"}, "unknown rows 'men'; did you mean 'mean'"),
        ({"control": "random"}, "unknown control 'random'"),
        ({"target": "colum"}, "unknown target 'colum'; did you mean 'column'"),
        ({"batch_tokens": 0}, "batch_tokens is 0; expected at least 1"),
        ({"seed": -1}, "seed is -1; expected 0 or more"),
        ({"seed": 2**64}, "below 2..63"),
        ({"n_examples": -1}, "-1 sentences to look at; expected 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(HeadscopeError, match=message):
        Settings(**settings)


def test_unknown_analysis_is_refused(encoder, small):
    with pytest.raises(HeadscopeError, match="unknown analysis 'surfce'; did you mean 'surface'"):
        analyse(encoder, small, ("surfce",))


def test_unknown_pieces_are_told(encoder, hostile):
    corpus = open_corpus(hostile / "hangul-nfc.conllu")
    result = analyse(encoder, corpus, ("surface",)).surface
    assert result.provenance.data.unk_rate > 0.05
    told = " ".join(result.provenance.warnings)
    assert "of the words" in told
    assert "are unknown to this tokenizer" in told


def test_analysis_module_and_package_offer_the_same_entry():
    assert headscope.analyse is analysis.analyse
    assert replace(Settings(), seed=3) == headscope.Settings(seed=3)


TREEBANKS = (
    "arabic-pud", "chinese-gsdsimp", "czech-pud", "english-ewt", "english-gum-open", "english-pud",
    "finnish-tdt", "german-gsd", "hebrew-iahltwiki", "japanese-gsd", "korean-gsd", "korean-kaist",
    "turkish-boun",
)  # fmt: skip


def check_treebank(encoder, path, limit=None):
    """The analysis runs; what it scores and leaves out adds up to what the file holds."""
    corpus = open_corpus(path, limit=limit)
    sentences = list(corpus.read())
    result = analyse(encoder, corpus).dependency
    jsonschema.validate(json.loads(result.to_json()), schema("dependency"))
    skipped = result.provenance.data.skipped
    assert skipped["too_long"] == skipped["misaligned"] == skipped["broken"] == 0
    assert result.provenance.data.n_words == sum(len(s.words) for s in sentences)
    arcs = sum(head > 0 for s in sentences for head in s.heads)
    assert result.overall["all_arcs"].count + skipped["arcs_on_missing_words"] == arcs


@pytest.mark.parametrize("name", TREEBANKS)
def test_real_treebanks_run(encoder, shared, name):
    path = sorted((shared / "data" / f"ud-{name}").glob("*.conllu"))[0]
    check_treebank(encoder, path, limit=20)


@pytest.mark.slow
@pytest.mark.parametrize("name", TREEBANKS)
def test_whole_treebanks_run(encoder, shared, name):
    paths = sorted((shared / "data" / f"ud-{name}").glob("*.conllu"))
    assert paths
    for path in paths:
        check_treebank(encoder, path)
