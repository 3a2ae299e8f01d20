"""Which piece belongs to which word: the given word list decides, whatever a tokenizer thinks."""

from types import SimpleNamespace

import numpy as np
import pytest

from headscope.datasets import open_corpus
from headscope.extraction.words import NO_WORD, Aligner
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
    template,
    texts,
    wordpiece,
)


def test_wordpiece_by_hand():
    pieces = align(BERT, "the naive cat .")
    assert texts(BERT, pieces) == ["[CLS]", "the", "na", "##ive", "cat", ".", "[SEP]"]
    assert pieces.word_of.tolist() == [-1, 0, 1, 1, 2, 3, -1]
    assert pieces.special.tolist() == [True, *[False] * 5, True]
    assert pieces.special_names == ("[CLS]", "[SEP]")
    assert pieces.type_ids.tolist() == [0] * 7
    assert (pieces.n_words, pieces.has_piece.tolist()) == (4, [True] * 4)


def test_type_ids_are_those_of_the_template():
    tokenizer = template(wordpiece(["the"]), "[CLS]:0 $A:0 [SEP]:0")
    tokenizer.post_processor = type(tokenizer.post_processor)(
        single="[CLS]:0 $A:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    assert align(tokenizer, "the the").type_ids.tolist() == [0, 1, 1, 1]


@EVERY_KIND
def test_pieces_of_each_word_are_those_of_running_text(tokenizer):
    words = ["the", "cat", ",", "the", "dog", ".", "the"]
    aligner = Aligner(tokenizer)
    (pieces,) = aligner.align([words])
    running = tokenizer.encode(" ".join(words))
    assert pieces.ids.tolist() == running.ids
    assert aligner.by_offsets == (tokenizer in (GEMMA, *list(KINDS.values())[2::3]))
    for word, form in enumerate(words):
        cut = [tokenizer.id_to_token(int(i)) for i in pieces.ids[pieces.word_of == word]]
        assert bare(cut) == form


@EVERY_KIND
def test_ids_are_padding_free_and_words_never_fall(tokenizer):
    pieces = align(tokenizer, "a bb ccc dd e")
    assert (np.diff(of_words(pieces)) >= 0).all()
    assert set(of_words(pieces)) == set(range(5))
    assert (pieces.word_of[pieces.special] == NO_WORD).all()


@EVERY_KIND
def test_many_sentences_at_once_equal_each_alone(tokenizer):
    sentences = [["the", "cat"], ["a"], ["the", "the", "the", "."]]
    together = Aligner(tokenizer).align(sentences)
    for words, pieces in zip(sentences, together, strict=True):
        alone = align(tokenizer, words)
        assert pieces.ids.tolist() == alone.ids.tolist()
        assert pieces.word_of.tolist() == alone.word_of.tolist()


@EVERY_KIND
def test_c022_first_word_keeps_its_first_letter(tokenizer):
    pieces = align(tokenizer, "larger than life")
    words = [
        [texts(tokenizer, pieces)[t] for t in np.flatnonzero(pieces.word_of == w)] for w in (0, 2)
    ]
    assert [bare(word) for word in words] == ["larger", "life"]
    assert pieces.has_piece.all()


def test_c024_lone_space_piece_belongs_to_the_following_word():
    for tokenizer in (XLMR, GEMMA):
        pieces = align(tokenizer, "the sum")
        at = texts(tokenizer, pieces).index("▁")
        assert texts(tokenizer, pieces)[at + 1 : at + 4] == ["s", "u", "m"]
        assert pieces.word_of[at : at + 4].tolist() == [1, 1, 1, 1]


def test_c025_offsets_that_restart_at_each_word_are_not_used():
    pieces = align(ROBERTA, ["My", "dogs"])
    assert texts(ROBERTA, pieces)[1:-1] == ["Ġ", "M", "y", "Ġdog", "s"]
    assert of_words(pieces) == [0, 0, 0, 1, 1]


@EVERY_KIND
def test_c026_the_word_list_decides_not_the_pre_tokenizer(tokenizer):
    pieces = align(tokenizer, ["an", "18th", "century", "poet's"])
    assert pieces.n_words == 4
    assert pieces.has_piece.all()
    assert counts(pieces)[1] >= 2
    assert set(of_words(pieces)) == {0, 1, 2, 3}


def test_c027_boundaries_marked_only_in_running_text_fall_back_to_offsets():
    running = GEMMA.encode("I love my cat")
    assert set(running.word_ids) == {None, 0}
    aligner = Aligner(GEMMA)
    assert aligner.by_offsets
    (pieces,) = aligner.align([["I", "love", "my", "cat"]])
    assert pieces.n_words == 4
    assert counts(pieces) == [1, 5, 3, 1]


class Lying:
    """A tokenizer whose word ids are what it is told."""

    def __init__(self, real, word_ids):
        self.real, self.word_ids = real, word_ids

    def encode(self, *given, **options):
        return self.real.encode(*given, **options)

    def encode_batch(self, sentences, **options):
        for encoding in self.real.encode_batch(sentences, **options):
            fields = ("ids", "type_ids", "special_tokens_mask", "tokens")
            copied = {name: getattr(encoding, name) for name in fields}
            yield SimpleNamespace(**copied, word_ids=self.word_ids)


@pytest.mark.parametrize(
    "word_ids",
    [[None, 0, 0, 0, 0, None], [None, 0, 1, 2, 7, None], [None, 1, 0, 2, 3, None], [None] * 6],
    ids=["all zero", "beyond the words", "falling", "none"],
)
def test_c027_useless_word_ids_are_replaced_by_offsets(word_ids):
    tokenizer = wordpiece(["i", "love", "my", "cat"])
    aligner = Aligner(Lying(tokenizer, word_ids))
    assert not aligner.by_offsets
    (pieces,) = aligner.align([["I", "love", "my", "cat"]])
    assert pieces.word_of.tolist() == [-1, 0, 1, 2, 3, -1]


def test_c039_a_sentence_on_which_both_ways_fail_is_given_up_alone():
    class Mute(Lying):
        def encode(self, *given, **options):
            encoding = self.real.encode(*given, **options)
            if options:
                return encoding
            fields = ("ids", "type_ids", "special_tokens_mask", "tokens")
            copied = {name: getattr(encoding, name) for name in fields}
            return SimpleNamespace(**copied, offsets=[(0, 1)] * len(encoding.ids))

    mute = Mute(wordpiece(["i", "love", "my", "cat"]), [None, 0, 0, 0, 0, None])
    mute_aligner = Aligner(Lying(mute.real, mute.word_ids))
    mute_aligner.tokenizer = mute
    assert mute_aligner.align([["i", "love", "my", "cat"]]) == [None]


def test_a_piece_across_two_words_is_given_up():
    tokenizer = boundaries_from_text("the▁cat")
    assert texts(tokenizer, SimpleNamespace(ids=tokenizer.encode("the cat").ids))[1] == "the▁cat"
    assert align(tokenizer, "the cat") is None
    assert align(tokenizer, "the dog").word_of.tolist()[0] == NO_WORD


def test_a_piece_across_two_words_that_have_others_is_given_up():
    tokenizer = boundaries_from_text("e▁c")
    assert "e▁c" in tokenizer.encode("the cat").tokens
    assert align(tokenizer, "the cat") is None


def test_special_tokens_belong_to_no_word_whatever_their_word_ids():
    tokenizer = wordpiece(["i", "love", "my", "cat"])
    (pieces,) = Aligner(Lying(tokenizer, [0, 0, 1, 2, 3, 3])).align([["i", "love", "my", "cat"]])
    assert pieces.word_of.tolist() == [-1, 0, 1, 2, 3, -1]


def test_pieces_that_do_not_cover_their_words_are_given_up():
    """A tokenizer that cuts at a number of pieces: the lost end of the sentence is noticed."""
    tokenizer = boundaries_from_text()
    assert Aligner(tokenizer).by_offsets
    aligner = Aligner(tokenizer)
    tokenizer.enable_truncation(6)
    assert aligner.align([["the", "cat"]]) == [None]
    tokenizer.no_truncation()
    assert aligner.align([["the", "cat"]])[0].n_words == 2


@pytest.mark.parametrize(
    "single", ["$A [SEP] [CLS]", "[CLS] [CLS] $A", "[MASK] $A [SEP] [SEP]", "$A"]
)
def test_c020_c038_special_tokens_are_found_by_mask_at_any_place(single):
    tokenizer = template(wordpiece(["the", "cat", "."]), single)
    pieces = align(tokenizer, "the cat .")
    assert [texts(tokenizer, pieces)[t] for t in np.flatnonzero(pieces.special)] == [
        name for name in single.split() if name != "$A"
    ]
    assert of_words(pieces) == [0, 1, 2]


def test_c038_two_texts_in_one_input_are_not_taken_for_one_sentence():
    """Word ids that begin again after a marker in the middle are no alignment of one sentence."""
    tokenizer = wordpiece(["the", "cat", "."])
    tokenizer.post_processor = type(tokenizer.post_processor)(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    pair = tokenizer.encode(["the", "."], ["cat", "."], is_pretokenized=True)
    assert Aligner(tokenizer)._from_word_ids([["the", ".", "cat", "."]], pair) is None


@EVERY_KIND
def test_a_word_that_looks_special_is_text(tokenizer):
    names = ("[CLS]", "[SEP]") if tokenizer is BERT else ("<s>", "</s>")
    words = [names[1], "a", names[0], names[1]]
    pieces = align(tokenizer, words)
    assert pieces.special.tolist() == [True, *[False] * (len(pieces.ids) - 2), True]
    assert [
        w for t, w in zip(texts(tokenizer, pieces), pieces.word_of, strict=True) if t in names
    ] == [
        NO_WORD,
        0,
        2,
        3,
        NO_WORD,
    ]
    assert pieces.special_names == names


@EVERY_KIND
def test_c039_a_word_cut_otherwise_by_its_place_is_aligned_in_the_full_input(tokenizer):
    pieces = align(tokenizer, ["the", "the", "the"])
    assert sorted(set(of_words(pieces))) == [0, 1, 2]
    assert pieces.ids.tolist() == tokenizer.encode("the the the").ids


def test_c041_many_to_many_alignment():
    tokenizer = wordpiece(["a", "##b", "c", "'", "s"])
    assert _groups(align(tokenizer, ["ab", "c"])) == [[0, 1], [2]]
    assert _groups(align(tokenizer, ["'s"])) == [[0, 1]]


def _groups(pieces):
    return [(np.flatnonzero(pieces.word_of == w) - 1).tolist() for w in range(pieces.n_words)]


def test_c042_white_space_tokens_keep_their_place():
    pieces = align(BERT, ["the", "\n", "\t", "cat"])
    assert pieces.has_piece.tolist() == [True, False, False, True]
    assert of_words(pieces) == [0, 3]


def test_c044_gold_words_are_kept_when_the_tokenizer_cuts_more():
    pieces = align(BERT, ["Inc."])
    assert (pieces.n_words, set(of_words(pieces))) == (1, {0})
    assert texts(BERT, pieces)[-2] == "."


def test_c045_the_given_list_decides_between_one_word_and_two():
    one, two = align(BERT, ["東京"]), align(BERT, ["東", "京"])
    assert one.ids.tolist() == two.ids.tolist()
    assert (of_words(one), of_words(two)) == ([0, 0], [0, 1])


def test_whole_sentences_of_a_treebank_align(ewt):
    sentences = [item.words for item in open_corpus(ewt).read()]
    for tokenizer in KINDS.values():
        aligned = Aligner(tokenizer).align(sentences)
        assert None not in aligned
        assert sum(pieces.n_words for pieces in aligned) == 2319
        assert all(pieces.has_piece.all() for pieces in aligned)
