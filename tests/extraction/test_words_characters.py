"""Words whose characters a tokenizer drops, joins, lengthens or cuts into bytes."""

import unicodedata

import numpy as np
import pytest
from tokenizers import normalizers

from headscope.datasets import open_corpus
from headscope.extraction.words import Aligner
from tests.extraction.toys import (
    BERT,
    EVERY_KIND,
    GEMMA,
    KINDS,
    ROBERTA,
    XLMR,
    align,
    bare,
    boundaries_from_text,
    counts,
    of_words,
    texts,
    unigram,
    wordpiece,
)


@EVERY_KIND
def test_c023_an_accent_or_a_special_token_in_the_text_shifts_nothing(tokenizer):
    mask = "[MASK]" if tokenizer is BERT else "<mask>"
    words = ["ah", ",", "naïve", mask, "test"]
    pieces = align(tokenizer, words)
    assert counts(pieces)[3] in (1, 2)
    assert pieces.has_piece.all()
    last = [texts(tokenizer, pieces)[t] for t in np.flatnonzero(pieces.word_of == 4)]
    assert bare(last) == "test"


NFC, NFD = "한국어", unicodedata.normalize("NFD", "한국어")


@EVERY_KIND
def test_c029_hangul_composed_and_decomposed_is_one_word(tokenizer):
    assert (len(NFC), len(NFD)) == (3, 8)
    for form in (NFC, NFD):
        pieces = align(tokenizer, ["the", form, "cat"])
        assert pieces.n_words == 3
        assert counts(pieces)[1] >= 1
        assert of_words(pieces)[-1] == 2


def test_c029_jamo_of_a_lower_casing_tokenizer_stay_one_word():
    jamo = sorted(set(NFD))
    tokenizer = wordpiece([*jamo, *(f"##{c}" for c in jamo), "the"])
    for form in (NFC, NFD):
        assert counts(align(tokenizer, ["the", form])) == [1, 8]


@pytest.mark.parametrize("form", [NFC, NFD, "cafe\u0301", "café"])
def test_c029_c037_a_composing_tokenizer_gives_the_word_whatever_its_form(form):
    tokenizer = boundaries_from_text("é", *NFC, composing=True)
    pieces = align(tokenizer, ["the", form, "cat"])
    composed = unicodedata.normalize("NFC", form)
    word = [texts(tokenizer, pieces)[t] for t in np.flatnonzero(pieces.word_of == 1)]
    assert word == ["▁", *composed]
    assert of_words(pieces)[-1] == 2
    assert counts(pieces)[1] == 1 + len(composed)


def test_c031_byte_pieces_of_one_emoji_go_to_its_word():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert (len(family), len(family.encode())) == (5, 18)
    for tokenizer in (ROBERTA, KINDS["byte-level without prefix space"]):
        assert counts(align(tokenizer, ["a", family, "a"]))[1] == 1 + 18
    for tokenizer in (BERT, XLMR, GEMMA):
        assert align(tokenizer, ["a", family, "a"]).has_piece.all()


def test_c032_three_emoji_are_one_word_or_three_as_given():
    emoji = "\U0001f600"
    one, three = align(BERT, [emoji * 3]), align(BERT, [emoji] * 3)
    assert texts(BERT, one) == ["[CLS]", "[UNK]", "[SEP]"]
    assert texts(BERT, three) == ["[CLS]", "[UNK]", "[UNK]", "[UNK]", "[SEP]"]
    assert (of_words(one), of_words(three)) == ([0], [0, 1, 2])


@pytest.mark.parametrize("nothing", ["\u00ad", "\u200b", "\u0301", "\x7f", ""])
def test_c033_c052_a_word_that_the_tokenizer_drops_stays_a_word(nothing):
    pieces = align(BERT, ["the", nothing, "cat"])
    assert pieces.n_words == 3
    assert pieces.has_piece.tolist() == [True, False, True]
    assert of_words(pieces) == [0, 2]


def test_c052_a_dropped_character_inside_a_word_shifts_nothing():
    pieces = align(BERT, ["a\u200bb", "the"])
    assert texts(BERT, pieces) == ["[CLS]", "a", "##b", "the", "[SEP]"]
    assert of_words(pieces) == [0, 0, 1]


def test_c033_a_sentence_of_one_dropped_word_holds_special_tokens_alone():
    pieces = align(BERT, ["\u200b"])
    assert (pieces.special.all(), pieces.n_words, pieces.has_piece.tolist()) == (True, 1, [False])


@EVERY_KIND
def test_an_empty_word_does_not_shift_its_neighbours(tokenizer):
    pieces = align(tokenizer, ["", "a", "", "b"])
    letters = {
        bare([text]): word
        for text, word in zip(texts(tokenizer, pieces), pieces.word_of, strict=True)
    }
    assert (letters["a"], letters["b"]) == (1, 3)
    assert pieces.n_words == 4


def test_c034_c035_text_that_normalization_lengthens_keeps_its_words():
    wide = "\uff1f\u2026\u2026"
    for scheme in ("always", "never", None):
        tokenizer = unigram("?", "......", scheme=scheme, normalizer=_nfkc(scheme))
        pieces = align(tokenizer, ["a", wide, "\u30ff", "a"])
        assert counts(pieces)[0] == counts(pieces)[3] - (scheme != "always")
        assert {"?", "......"} <= {
            texts(tokenizer, pieces)[t] for t in np.flatnonzero(pieces.word_of == 1)
        }
        assert pieces.has_piece.all()


def _nfkc(scheme):
    marks = [normalizers.Replace(" ", "▁")] if scheme is None else []
    return normalizers.Sequence([normalizers.NFKC(), *marks])


def test_c036_lower_casing_that_changes_the_length_shifts_nothing():
    istanbul = "\u0130stanbul"
    assert (len(istanbul), len(istanbul.lower())) == (8, 9)
    lowered = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "▁")])
    for tokenizer in (BERT, ROBERTA, unigram(scheme=None, normalizer=lowered)):
        pieces = align(tokenizer, [istanbul, "x", istanbul, "x"])
        x = [
            w
            for t, w in zip(texts(tokenizer, pieces), pieces.word_of, strict=True)
            if t.strip("Ġ") == "x"
        ]
        assert x == [1, 3]


@EVERY_KIND
def test_c037_composed_and_decomposed_letters_leave_words_as_they_are(tokenizer):
    for form in ("café", "cafe\u0301"):
        pieces = align(tokenizer, ["the", form, "cat"])
        assert sorted(set(of_words(pieces))) == [0, 1, 2]


@EVERY_KIND
@pytest.mark.parametrize("spaced", ["10 000", "vice\u00a0versa", "a  b"])
def test_a_word_with_spaces_inside_is_one_word(tokenizer, spaced):
    pieces = align(tokenizer, ["the", spaced, "cat"])
    assert pieces.n_words == 3
    assert sorted(set(of_words(pieces))) == [0, 1, 2]
    assert counts(pieces)[0] == counts(align(tokenizer, ["the"]))[0]


def test_a_word_longer_than_the_model_is_still_aligned():
    long = align(ROBERTA, ["a", "x" * 3019, "a"])
    assert counts(long) == [2, 3020, 2]
    assert counts(align(BERT, ["a", "x" * 3019, "a"])) == [1, 1, 1]


@EVERY_KIND
def test_hostile_treebanks_keep_their_number_of_words(tokenizer, hostile):
    names = ("emoji-zwj", "combining-accents", "hangul-nfd", "zero-width", "soft-hyphen", "rtl")
    names += ("control-chars", "unk-words", "homoglyph-turkish", "form-with-space")
    for name in names:
        sentences = list(open_corpus(hostile / f"{name}.conllu").read())
        aligned = Aligner(tokenizer).align([item.words for item in sentences])
        assert [p and p.n_words for p in aligned] == [len(item.words) for item in sentences], name
