"""Dependency accuracy: hand-made maps, a plain re-implementation, reference numbers, merging."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.datasets import Sentence, open_corpus
from headscope.errors import MergeError
from headscope.extraction.batches import batches
from headscope.extraction.calibration import observe
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.masks import band
from headscope.extraction.observers import MIN_UNITS, Block, Resampling
from headscope.extraction.run import run
from headscope.probing.dependency import FLUSH_ROWS, Dependency, predicted_heads
from headscope.probing.relations import OFFSETS
from headscope.results import DIRECTIONS
from tests import models

EXPECTED = Path(__file__).resolve().parents[1] / "data" / "expected" / "dependency.json"
TO_HEAD, FROM_HEAD = DIRECTIONS
RESAMPLING = Resampling(0, "ab" * 32)


def observed(encoder, sentences, *, batch_tokens=1024, **settings):
    observer = Dependency(encoder, RESAMPLING, **settings)
    return models.shown(observer, sentences, batch_tokens=batch_tokens)


def sentence(words, heads, relations=None, unit=0, ordinal=0):
    words = tuple(words.split())
    relations = tuple(relations.split()) if relations else ("dep",) * len(words)
    return Sentence(words, tuple(heads), relations, ("X",) * len(words), "s", ordinal, unit, 1)


def test_predictions_by_hand():
    # Row 0 prefers itself, which does not count; row 1 ties; row 2 has no mass elsewhere.
    maps = torch.tensor([[[[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.0, 0.0, 0.7]]]])
    to_head, from_head = predicted_heads(maps.clone())
    assert to_head.tolist() == [[[1, 0, -1]]]
    # Columns: who attends most to word 0, 1, 2: word 1; word 0; word 1.
    assert from_head.tolist() == [[[1, 0, 1]]]


def test_transposing_the_map_exchanges_the_directions():
    maps = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    to_head, from_head = predicted_heads(maps.clone())
    again_to, again_from = predicted_heads(maps.transpose(2, 3).contiguous())
    assert torch.equal(to_head, again_from)
    assert torch.equal(from_head, again_to)
    assert not torch.equal(to_head, from_head)


def plain_hits(encoder, batch, rows):
    """(sentence, word, direction, layer, head) -> right, by loops over the model's own maps."""
    hits = {}
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        maps = encoder.model(**inputs(encoder, batch), output_attentions=True).attentions
    for index, (sent, pieces) in enumerate(zip(batch.sentences, batch.pieces, strict=True)):
        tokens = [np.flatnonzero(pieces.word_of == w) for w in range(len(sent.words))]
        for layer, layer_maps in enumerate(maps):
            for head in range(encoder.n_heads):
                a = layer_maps[index, head].double().numpy()
                n = len(tokens)
                words = np.zeros((n, n))
                for i in range(n):
                    of_row = tokens[i] if rows == "mean" else tokens[i][:1]
                    for j in range(n):
                        words[i, j] = np.mean([a[t, tokens[j]].sum() for t in of_row])
                np.fill_diagonal(words, 0)
                for word, gold in enumerate(sent.heads):
                    if gold:
                        hits[sent.ordinal, word, 0, layer, head] = words[word].argmax() == gold - 1
                        hits[sent.ordinal, word, 1, layer, head] = (
                            words[:, word].argmax() == gold - 1
                        )
    return hits


@pytest.mark.parametrize("rows", ["mean", "first"])
def test_equals_plain_loops_over_the_models_own_attention(encoder, rows):
    sentences = [s for s in open_corpus("demo", limit=12).read() if len(s.words) < 25][:4]
    observer = observed(encoder, sentences, batch_tokens=400, rows=rows)
    relations, _ = observer.result()
    by_ordinal = {s.ordinal: s for s in sentences}
    right, cases = {}, {}
    for batch in batches(encoder, sentences, batch_tokens=400):
        for (ordinal, word, direction, layer, head), hit in plain_hits(
            encoder, batch, rows
        ).items():
            label = by_ordinal[ordinal].relations[word]
            table = right.setdefault(label, np.zeros((2, encoder.n_layers, encoder.n_heads)))
            table[direction, layer, head] += hit
            cases[label] = cases.get(label, 0) + (direction == layer == head == 0)
    assert {label: score.count for label, score in relations.items()} == cases
    for label, score in relations.items():
        found = np.stack([score.accuracy[d] for d in DIRECTIONS]) * score.count
        # An argmax may flip where two words get the same attention but for float32 rounding.
        assert np.abs(found - right[label]).max() < 1 + 1e-9, label
        assert np.abs(found - right[label]).sum() <= 2, label


@pytest.fixture(scope="module")
def on_ewt(encoder):
    path = Path(__file__).resolve().parents[1] / "data" / "ewt" / "en_ewt-dev.first100.conllu"
    corpus = open_corpus(path)
    made = {}
    for rows, coarse in (("mean", False), ("mean", True), ("first", False)):
        observer = Dependency(encoder, RESAMPLING, rows=rows, coarse_labels=coarse)
        run(encoder, corpus, [observer])
        made[rows, coarse] = observer.result()
    return made


NAMES = {"dep->head": TO_HEAD, "head->dep": FROM_HEAD}
TOTALS = {"all_noroot": "all_arcs", "all_noroot_nopunct": "no_punct"}


@pytest.mark.parametrize("block", ["full", "universal"])
def test_accuracies_equal_the_reference_numbers(on_ewt, block):
    expected = json.loads(EXPECTED.read_text())["merge_mean"][block]
    relations, overall = on_ewt["mean", block == "universal"]
    assert {label: score.count for label, score in relations.items()} == {
        label: count for label, count in expected["counts"].items() if label not in ("root", "all")
    }
    for theirs, ours in NAMES.items():
        for label, score in relations.items():
            apart = np.abs(score.accuracy[ours] - np.array(expected["accuracy"][theirs][label]))
            assert (apart * score.count).max() < 1.01, label
        for name, total in TOTALS.items():
            apart = np.abs(overall[total].accuracy[ours] - np.array(expected["uas"][theirs][name]))
            assert (apart * overall[total].count).max() < 1.01


@pytest.mark.parametrize("block", ["full", "universal"])
def test_best_heads_and_offsets_equal_the_reference_numbers(on_ewt, block):
    expected = json.loads(EXPECTED.read_text())["merge_mean"][block]["best_head"]
    relations, _ = on_ewt["mean", block == "universal"]
    for label, score in relations.items():
        theirs, best = expected[label], score.best
        assert (best.layer, best.head, best.direction, best.n_tied) == (
            theirs["layer"], theirs["head"], NAMES[theirs["direction"]], theirs["n_tied"],
        ), label  # fmt: skip
        assert best.accuracy == pytest.approx(theirs["accuracy"], abs=1e-6)
        baseline = theirs["baseline_unclamped"]
        assert score.offset_baseline.accuracy == pytest.approx(baseline["accuracy"], abs=1e-6)
        if baseline["offset"]:  # the reference tries offset 0 too, which is never right
            assert score.offset_baseline.offset == baseline["offset"], label


def test_first_piece_rows_equal_the_reference_numbers(on_ewt):
    expected = json.loads(EXPECTED.read_text())["merge_first"]["full"]["uas"]
    _, overall = on_ewt["first", False]
    for theirs, ours in NAMES.items():
        apart = np.abs(
            overall["all_arcs"].accuracy[ours] - np.array(expected[theirs]["all_noroot"])
        )
        assert (apart * overall["all_arcs"].count).max() < 1.01


def test_halves_added_equal_the_whole(encoder):
    sentences = list(open_corpus("demo", limit=16).read())
    whole = observed(encoder, sentences, batch_tokens=1)
    first = observed(encoder, sentences[:7], batch_tokens=1)
    second = observed(encoder, sentences[7:], batch_tokens=1)
    both = first + second
    assert set(both.totals()[0]) == set(whole.totals()[0])
    for label, sums in whole.totals()[0].items():
        np.testing.assert_array_equal(both.totals()[0][label], sums)
    assert both.totals()[1] == whole.totals()[1]
    np.testing.assert_array_equal((second + first).totals()[0]["nsubj"], both.totals()[0]["nsubj"])


def test_batch_size_and_padding_do_not_matter(encoder):
    sentences = list(open_corpus("demo", limit=20).read())
    alone, together = (
        observed(encoder, sentences, batch_tokens=n).result()[1]["all_arcs"] for n in (1, 4000)
    )
    for direction in DIRECTIONS:
        apart = np.abs(alone.accuracy[direction] - together.accuracy[direction]) * alone.count
        assert apart.max() < 1.01


def test_result_can_be_asked_for_midway_and_changes_nothing(encoder):
    sentences = list(open_corpus("demo", limit=20).read())
    asked, plain = (Dependency(encoder, RESAMPLING) for _ in range(2))
    with observe(encoder, [asked, plain]) as seen:
        for batch in batches(encoder, sentences, batch_tokens=200):
            seen.forward(batch)
            asked.result()
    for label, sums in plain.totals()[0].items():
        np.testing.assert_array_equal(asked.totals()[0][label], sums)


def test_flushing_early_gives_the_same_sums(encoder, monkeypatch):
    sentences = list(open_corpus("demo", limit=20).read())
    late = observed(encoder, sentences)
    monkeypatch.setattr("headscope.probing.dependency.FLUSH_ROWS", 1)
    early = observed(encoder, sentences)
    assert sum(len(s.words) for s in sentences) < FLUSH_ROWS
    for label, sums in late.totals()[0].items():
        np.testing.assert_array_equal(early.totals()[0][label], sums)


def test_sums_under_every_column_equal_a_loop_over_units(encoder):
    sentences = list(open_corpus("demo", limit=12).read())
    sentences = [s if i % 3 else _in_unit(s, 7) for i, s in enumerate(sentences)]
    observer = observed(encoder, sentences)
    alone = [(one.unit, observed(encoder, [one]).totals()[0]) for one in sentences]
    for label in ("nsubj", "det", "punct"):
        # Column 0 has weight 1: the sentence's own hits, which its unit's weights multiply.
        slow = sum(
            np.outer(RESAMPLING.weights([unit])[0], sums[label][0])
            for unit, sums in alone
            if label in sums
        )
        fast = observer.totals()[0][label]
        assert np.abs(fast - slow).max() <= RESAMPLING.weights([s.unit for s in sentences]).max()
        np.testing.assert_array_equal(fast[:, -1], slow[:, -1])


def _in_unit(sent, unit):
    return Sentence(
        sent.words, sent.heads, sent.relations, sent.upos, sent.sent_id, sent.ordinal, unit, 1
    )


def test_offsets_by_hand(encoder):
    # the -> dog (+1), dog -> barks (+1), loudly -> barks (-1)
    observer = observed(
        encoder, [sentence("the dog barks loudly", (2, 3, 0, 3), "det nsubj root advmod")]
    )
    sums = observer.totals()[0]
    start = 2 * encoder.n_layers * encoder.n_heads
    places = slice(start, start + len(OFFSETS))
    by_offset = {label: dict(zip(OFFSETS, sums[label][0, places], strict=True)) for label in sums}
    assert [o for o, hit in by_offset["det"].items() if hit] == [1]
    assert [o for o, hit in by_offset["nsubj"].items() if hit] == [1]
    assert [o for o, hit in by_offset["advmod"].items() if hit] == [-1]
    assert "root" not in sums


def toy(kind):
    """A tiny model and a sentence of three words, one piece each, whose heads are 2, 0, 2."""
    model = models.encoder(kind)
    return model, sentence("a b c", (2, 0, 2), "left root right")


def test_a_causal_word_sees_nothing_on_its_right():
    # C058: 1 of 2 arcs in each direction, and which of them it is.
    model, words = toy("gpt2")
    relations, overall = observed(model, [words]).result()
    for direction in DIRECTIONS:
        assert overall["all_arcs"].ceiling[direction].tolist() == [0.5] * 3
    assert relations["left"].ceiling[TO_HEAD].tolist() == [0.0] * 3
    assert relations["left"].ceiling[FROM_HEAD].tolist() == [1.0] * 3
    assert relations["right"].ceiling[TO_HEAD].tolist() == [1.0] * 3
    assert relations["right"].ceiling[FROM_HEAD].tolist() == [0.0] * 3
    assert relations["right"].best.ceiling == 1.0


def test_a_model_that_sees_everything_has_no_ceiling():
    model, words = toy("bert")
    _, overall = observed(model, [words]).result()
    assert all((overall["all_arcs"].ceiling[d] == 1).all() for d in DIRECTIONS)
    assert overall["all_arcs"].best.ceiling == 1.0


def test_no_accuracy_lies_above_its_ceiling():
    model = models.encoder("gpt2")
    sentences = [
        sentence(text, heads, unit=unit, ordinal=unit)
        for unit, (text, heads) in enumerate(
            (("a b c d", (2, 0, 4, 2)), ("e f g", (3, 3, 0)), ("h i j k", (0, 1, 2, 2)))
        )
    ]
    relations, overall = observed(model, sentences).result()
    for score in (*relations.values(), *overall.values()):
        for direction in DIRECTIONS:
            assert (score.accuracy[direction] <= score.ceiling[direction][:, None]).all()
    # Of 8 arcs the head of 4 stands on the left: c-d the other way, d-b, i-h, j-i, k-i.
    assert overall["all_arcs"].ceiling[TO_HEAD][0] == 4 / 8
    assert overall["all_arcs"].ceiling[FROM_HEAD][0] == 4 / 8


def test_layers_with_windows_have_ceilings_of_their_own(encoder):
    words = sentence("the dog is old", (2, 4, 4, 0))
    (batch,) = batches(encoder, [words])
    n = batch.input_ids.shape[1]
    assert n == 6, "one piece a word"
    observer = Dependency(encoder, RESAMPLING)
    probs = torch.full((1, encoder.n_heads, n, n), 1 / n)
    for layer in range(encoder.n_layers):
        mask = None if layer == 0 else band(False, 1, batch.valid)
        observer.update(Block(layer, 0, probs, batch, batch, mask))
    observer.close(batch)
    _, overall = observer.result()
    # dog -> old lies two words away.
    for direction in DIRECTIONS:
        assert overall["all_arcs"].ceiling[direction].tolist() == pytest.approx([1] + [2 / 3] * 5)


def test_arcs_on_words_without_pieces_are_left_out_and_counted(encoder):
    words = Sentence(
        ("dogs", "\u00ad", "bark"), (3, 3, 0), ("nsubj", "dep", "root"), ("X",) * 3, "s", 0, 0, 1
    )
    observer = observed(encoder, [words])
    assert observer.skipped == {"arcs_on_missing_words": 1, "arcs_across_windows": 0}
    assert {label: sums[0, -1] for label, sums in observer.totals()[0].items()} == {"nsubj": 1}


def test_one_word_sentences_have_nothing_to_score(encoder):
    observer = observed(encoder, [sentence("Yes", (0,)), sentence("No", (0,))])
    assert observer.totals() == ({}, {})


def test_coarse_labels_cut_subtypes(encoder):
    sent = sentence("she was seen yesterday", (3, 3, 0, 3), "nsubj:pass aux:pass root obl:tmod")
    assert set(observed(encoder, [sent], coarse_labels=True).totals()[0]) == {"nsubj", "aux", "obl"}
    assert set(observed(encoder, [sent]).totals()[0]) == {"nsubj:pass", "aux:pass", "obl:tmod"}


def test_only_the_smallest_units_are_remembered(encoder):
    sentences = [sentence("dogs bark", (2, 0), unit=u, ordinal=u) for u in range(30, 0, -1)]
    units = observed(encoder, sentences).totals()[1]["dep"]
    assert units == frozenset(range(1, MIN_UNITS + 1))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"rows": "first"}, "rows mean and first"),
        ({"coarse_labels": True}, "coarse labels False and True"),
    ],
)
def test_other_settings_do_not_merge(encoder, other, told):
    with pytest.raises(MergeError, match=f"cannot add dependency sums of different runs: {told}$"):
        Dependency(encoder, RESAMPLING) + Dependency(encoder, RESAMPLING, **other)


def test_another_model_of_the_same_size_does_not_merge(encoder):
    other = replace(encoder, info=replace(encoder.info, weights_sha256="f" * 64))
    with pytest.raises(MergeError, match="weights [0-9a-f]{12} in float32 and ffffffffffff in"):
        Dependency(encoder, RESAMPLING) + Dependency(other, RESAMPLING)


def test_other_seeds_do_not_merge(encoder):
    with pytest.raises(MergeError, match="cannot add dependency sums"):
        Dependency(encoder, RESAMPLING) + Dependency(encoder, Resampling(1, "ab" * 32))
