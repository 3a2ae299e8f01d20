"""The one loop: what it counts, warns of, passes on."""

from dataclasses import replace

import pytest

from headscope.datasets import open_corpus
from headscope.errors import ParseError
from headscope.extraction.encoder import load_encoder
from headscope.extraction.observers import Resampling
from headscope.extraction.run import run, versions
from headscope.probing.surface import Surface


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("demo")


def observed(encoder, corpus, **options):
    return run(encoder, corpus, [Surface(encoder, Resampling(0, corpus.sha256))], **options)


def test_counts_of_a_treebank(encoder, ewt):
    data = observed(encoder, open_corpus(ewt)).data
    assert (data.n_sentences, data.n_words, data.n_tokens, data.n_units) == (100, 2319, 2747, 10)
    assert (data.unit, data.format, data.annotation) == ("document", "conllu", "gold")
    assert set(data.skipped.values()) == {0}
    assert data.unk_rate == 0.0


def test_the_demo_model_is_told_to_be_tuned(encoder, ewt):
    assert "contrastively tuned" in observed(encoder, open_corpus(ewt, limit=2)).warnings[0]


def test_too_long_sentences_are_counted_and_named(encoder, hostile):
    seen = observed(encoder, open_corpus(hostile / "long-1000.conllu"))
    assert seen.data.skipped["too_long"] == 1
    assert any("1000 words) was left out: 3983 tokens" in text for text in seen.warnings)


def test_broken_sentences_stop_the_run_or_are_counted(encoder, hostile):
    path = hostile / "cycle.conllu"
    with pytest.raises(ParseError, match="found a cycle of heads"):
        observed(encoder, open_corpus(path))
    seen = observed(encoder, open_corpus(path, skip_bad=True))
    assert seen.data.skipped["broken"] == 1
    assert seen.data.n_sentences == 1
    assert any("broken sentence left out" in text for text in seen.warnings)


def test_words_without_pieces_are_counted(encoder, hostile):
    seen = observed(encoder, open_corpus(hostile / "zero-width.conllu"))
    assert seen.data.skipped["words_without_pieces"] == 2
    assert seen.data.n_words == 5


def test_a_language_the_vocabulary_does_not_hold_is_told(encoder, hostile):
    told = " ".join(observed(encoder, open_corpus(hostile / "unk-words.conllu")).warnings)
    assert "are unknown to this tokenizer" in told
    spelled = " ".join(observed(encoder, open_corpus(hostile / "hangul-nfc.conllu")).warnings)
    assert "pieces on average" in spelled


def test_parsed_text_is_told(encoder, ewt):
    corpus = replace(open_corpus(ewt, limit=2), annotation="parsed")
    assert any("a parser's, not gold" in text for text in observed(encoder, corpus).warnings)


def test_remarks_on_the_corpus_are_passed_on(encoder, hostile):
    seen = observed(encoder, open_corpus(hostile / "duplicate-sent-id.conllu"))
    assert any("sentence ids given before: 1" in text for text in seen.warnings)


def test_progress_hears_of_every_sentence_and_token(encoder, ewt):
    heard = []
    seen = observed(
        encoder, open_corpus(ewt), batch_tokens=300, progress=lambda *counts: heard.append(counts)
    )
    assert len(heard) > 5
    assert tuple(map(sum, zip(*heard, strict=True))) == (100, seen.data.n_tokens)


def test_versions_name_what_can_change_a_number():
    assert {"headscope", "torch", "transformers", "tokenizers", "numpy", "python"} == set(
        versions()
    )
