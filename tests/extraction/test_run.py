"""The one loop over a corpus: what it counts, what it tells, what passes through it."""

from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
import torch

import headscope
from headscope.datasets import open_corpus
from headscope.errors import ParseError
from headscope.extraction.calibration import KeepMaps
from headscope.extraction.observers import Resampling
from headscope.extraction.run import SHOWN, run, versions
from headscope.extraction.words import Aligner
from headscope.probing.surface import Surface
from tests.models import encoder


def conllu(path, *sentences):
    """A treebank of flat trees; a sentence that begins with "#" opens a document first."""
    blocks = []
    for number, text in enumerate(sentences, 1):
        words = text.removeprefix("#").split()
        rows = [
            f"{i}\t{word}\t_\tX\t_\t_\t{i - 1}\t{'root' if i == 1 else 'dep'}\t_\t_"
            for i, word in enumerate(words, 1)
        ]
        mark = [f"# newdoc id = d{number}"] if text.startswith("#") else []
        blocks.append("\n".join([*mark, f"# sent_id = s{number}", *rows]))
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")
    return path


class Counting:
    """Counts what it is handed."""

    needs = "rows"

    def __init__(self):
        self.n_updates, self.sentences = 0, []

    def update(self, block):
        self.n_updates += 1

    def close(self, batch):
        self.sentences += [sentence.sent_id for sentence in batch.sentences]


@pytest.fixture(scope="module")
def model():
    """BERT with the words the, cat, full stop, comma, single letters, and 20 positions."""
    return encoder("bert")


# Pieces: [CLS] the cat . [SEP]; [CLS] the 9=[UNK] d ##o ##g [SEP]; 19 pieces and 2; one letter.
TEXTS = ("#the cat .", "the 9 dog", "the " * 19, "#a")


def test_counts_found_by_hand(model, tmp_path):
    corpus = open_corpus(conllu(tmp_path / "t.conllu", *TEXTS))
    counting = Counting()
    data = run(model, corpus, [counting]).data
    assert sorted(counting.sentences) == ["s1", "s2", "s4"]
    assert (data.n_sentences, data.n_words, data.n_tokens) == (3, 3 + 3 + 1, 5 + 7 + 3)
    assert data.unk_rate == pytest.approx(1 / 9)
    assert (data.unit, data.n_units) == ("document", 2)
    assert data.skipped == {
        "too_long": 1, "misaligned": 0, "words_without_pieces": 0, "broken": 0,
    }  # fmt: skip
    assert (data.name, data.format, data.annotation, data.note) == (
        "t.conllu",
        "conllu",
        "gold",
        "",
    )
    assert data.sha256 == corpus.sha256


def test_units_are_sentences_where_no_documents_are_marked(model, tmp_path):
    path = conllu(tmp_path / "t.conllu", *(text.removeprefix("#") for text in TEXTS))
    data = run(model, open_corpus(path), []).data
    assert (data.unit, data.n_units) == ("sentence", 3)


def test_a_document_of_which_nothing_was_scored_is_no_unit(model, tmp_path):
    path = conllu(tmp_path / "t.conllu", "#the cat", "#" + "the " * 19)
    assert run(model, open_corpus(path), []).data.n_units == 1


def test_counts_on_real_text_equal_those_of_each_sentence_alone(model, ewt):
    corpus, aligner = open_corpus(ewt), Aligner(model.tokenizer)
    counting = Counting()
    data = run(model, corpus, [counting], batch_tokens=64).data
    pieces = [aligner.align([s.words])[0] for s in corpus.read()]
    kept = [p for p in pieces if p is not None and len(p.ids) <= 20]
    assert 0 < len(kept) < 100
    assert len(kept) == data.n_sentences == len(set(counting.sentences))
    assert data.n_words == sum(p.n_words for p in kept)
    assert data.n_tokens == sum(len(p.ids) for p in kept)
    assert data.skipped["too_long"] == sum(p is not None for p in pieces) - len(kept)
    assert data.skipped["misaligned"] == sum(p is None for p in pieces)


def test_counts_of_a_treebank_with_the_packaged_model(demo, ewt):
    found = run(demo, open_corpus(ewt), [])
    data = found.data
    assert (data.n_sentences, data.n_words, data.n_tokens, data.n_units) == (100, 2319, 2747, 10)
    assert set(data.skipped.values()) == {0}
    assert data.unk_rate == 0.0
    assert "contrastively tuned" in found.warnings[0]


def test_hostile_texts_are_counted_and_told(demo, hostile):
    long = run(demo, open_corpus(hostile / "long-1000.conllu"), [])
    assert long.data.skipped["too_long"] == 1
    assert any("1000 words) was left out: 3983 tokens" in text for text in long.warnings)
    invisible = run(demo, open_corpus(hostile / "zero-width.conllu"), []).data
    assert (invisible.skipped["words_without_pieces"], invisible.n_words) == (2, 5)
    unknown = " ".join(run(demo, open_corpus(hostile / "unk-words.conllu"), []).warnings)
    assert "are unknown to this tokenizer" in unknown
    spelled = " ".join(run(demo, open_corpus(hostile / "hangul-nfc.conllu"), []).warnings)
    assert "pieces on average" in spelled


def test_progress_is_told_of_every_batch(model, tmp_path):
    told = []
    corpus = open_corpus(conllu(tmp_path / "t.conllu", *TEXTS))
    counting = Counting()
    data = run(
        model, corpus, [counting], batch_tokens=7, progress=lambda *counts: told.append(counts)
    ).data
    assert told == [(1, 7), (1, 5), (1, 3)]
    assert counting.n_updates == 3 * model.n_layers
    assert sum(n for n, _ in told) == data.n_sentences


def warnings_of(model, path, **changes):
    return run(model, replace(open_corpus(path), **changes), []).warnings


def test_warnings_come_from_model_data_and_what_was_left_out(tmp_path):
    model = encoder("bert")
    model.notes = ("a note on the model",)
    path = conllu(tmp_path / "t.conllu", "the 9 8", "the " * 19)
    note, parsed, unknown, left_out = warnings_of(model, path, annotation="parsed")
    assert note == "a note on the model"
    assert parsed == "trees and parts of speech are a parser's, not gold"
    assert unknown.startswith("67% of the words (67% of the pieces) are unknown to this tokenizer")
    assert left_out == (
        "sentence s2 (line 6, 19 words) was left out: 21 tokens, and the model takes 20"
    )


def test_a_corpus_without_surprises_has_no_warning(model, tmp_path):
    assert warnings_of(model, conllu(tmp_path / "t.conllu", "the cat .")) == ()


def test_remarks_of_the_corpus_are_passed_on(model, tmp_path):
    path = conllu(tmp_path / "t.conllu", "the cat", "the cat")
    path.write_text(path.read_text().replace("s2", "s1"))
    (remark,) = warnings_of(model, path)
    assert remark.startswith("sentence ids given before: 1")


def test_many_left_out_sentences_are_counted_not_listed(model, tmp_path):
    path = conllu(tmp_path / "t.conllu", *["the " * 19] * 25, "the cat")
    found = run(model, open_corpus(path), [])
    assert found.data.skipped["too_long"] == 25
    assert len(found.warnings) == SHOWN + 1
    assert found.warnings[-1] == "left out besides: 5 sentences"


def broken(path, n_broken):
    """A treebank with that many sentences whose first head is out of range, and a good one."""
    texts = [*["dog dog"] * n_broken, "the cat"]
    conllu(path, *texts)
    path.write_text(path.read_text().replace("dog\t_\tX\t_\t_\t1", "dog\t_\tX\t_\t_\t7"))
    return path


def test_a_broken_corpus_stops_the_pass_and_the_model_is_restored(model, tmp_path):
    before, counting = model.model.config._attn_implementation, Counting()
    corpus = open_corpus(broken(tmp_path / "t.conllu", 2))
    with pytest.raises(ParseError, match=r"t\.conllu:3: found"):
        run(model, corpus, [counting])
    assert model.model.config._attn_implementation == before
    assert counting.sentences == []


def test_broken_sentences_left_out_are_counted_and_named(model, tmp_path):
    corpus = open_corpus(broken(tmp_path / "t.conllu", 2), skip_bad=True)
    for _ in range(2):  # reading again counts anew
        found = run(model, corpus, [])
        assert found.data.skipped["broken"] == 2
        assert found.data.n_sentences == 1
        assert [w.partition(": ")[0] for w in found.warnings] == ["broken sentence left out"] * 2


def test_many_broken_sentences_are_counted_not_listed(model, tmp_path):
    corpus = open_corpus(broken(tmp_path / "t.conllu", SHOWN + 7), skip_bad=True)
    found = run(model, corpus, [])
    assert found.data.skipped["broken"] == SHOWN + 7
    assert found.warnings[-1] == "left out besides: 7 broken sentences"
    assert len(found.warnings) == SHOWN + 1


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_on_the_way_restores_the_model(model, tmp_path, failure):
    before = model.model.config._attn_implementation

    def fail(*_):
        raise failure

    with pytest.raises(failure):
        run(model, open_corpus(conllu(tmp_path / "t.conllu", *TEXTS)), [], progress=fail)
    assert model.model.config._attn_implementation == before


def test_the_longest_map_can_be_chosen(model, tmp_path):
    corpus, keep = open_corpus(conllu(tmp_path / "t.conllu", *TEXTS)), KeepMaps()
    # One of TEXTS is longer than the model takes at all.
    assert run(model, corpus, [keep], max_map_tokens=7).data.skipped["too_long"] == 1
    assert len(keep.maps) == model.n_layers


def test_a_sentence_whose_map_is_too_large_is_left_out_and_told(model, tmp_path):
    corpus, keep = open_corpus(conllu(tmp_path / "t.conllu", *TEXTS)), KeepMaps()
    found = run(model, corpus, [keep], max_map_tokens=6)
    assert found.data.skipped["too_long"] == 2
    assert found.data.n_sentences == len(TEXTS) - 2
    assert [w for w in found.warnings if w.endswith("7 tokens, and whole maps are kept up to 6")]
    assert max(m.shape[2] for m in keep.maps) == 5
    without_maps = run(model, corpus, [], max_map_tokens=6)
    assert without_maps.data.skipped["too_long"] == 1


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_the_size_of_batches_changes_nothing(ewt, batch_tokens):
    model = encoder("bert", dtype=torch.float64)  # in float32 rounding would hide small faults
    corpus = open_corpus(ewt, limit=40)
    surfaces = [Surface(model, Resampling(0, corpus.sha256)) for _ in range(2)]
    passes = [
        run(model, corpus, [surface], batch_tokens=size)
        for surface, size in zip(surfaces, (200, batch_tokens), strict=True)
    ]
    assert passes[0] == passes[1]
    assert (surfaces[0].counts == surfaces[1].counts).all()
    assert np.abs(surfaces[0].sums - surfaces[1].sums).max() < 1e-9
    assert np.abs(surfaces[0].uniform - surfaces[1].uniform).max() < 1e-9


def test_versions_name_all_that_can_change_a_number():
    found = versions()
    assert sorted(found) == ["headscope", "numpy", "python", "tokenizers", "torch", "transformers"]
    assert found["headscope"] == headscope.__version__
    assert found["transformers"] == version("transformers")
