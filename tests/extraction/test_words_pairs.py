"""Pairs of texts are encoded as pairs: which piece belongs to which word of which text."""

from types import SimpleNamespace

import numpy as np
import pytest

from headscope.extraction.words import NO_WORD, Aligner
from tests.extraction.families import FAMILY, family_tokenizer
from tests.extraction.toys import (
    BERT,
    EVERY_KIND,
    GEMMA,
    ROBERTA,
    boundaries_from_text,
    byte_level,
    template,
    texts,
    wordpiece,
)


def align(tokenizer, first, second):
    """Pieces of one pair."""
    first, second = first.split(" "), second.split(" ")
    (pieces,) = Aligner(tokenizer).align([[*first, *second]], [len(first)])
    return pieces


def test_a_pair_by_hand_as_bert_takes_it():
    pieces = align(BERT, "the naive", "cat .")
    expected = ["[CLS]", "the", "na", "##ive", "[SEP]", "cat", ".", "[SEP]"]
    assert texts(BERT, pieces) == expected
    assert pieces.type_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert pieces.segment_of.tolist() == [-1, 0, 0, 0, -1, 1, 1, -1]
    assert pieces.word_of.tolist() == [-1, 0, 1, 1, -1, 2, 3, -1]
    assert pieces.special.tolist() == [True, False, False, False, True, False, False, True]
    assert pieces.special_names == ("[CLS]", "[SEP]", "[SEP]")
    assert pieces.n_words == 4


def test_a_pair_by_hand_as_roberta_takes_it():
    pieces = align(ROBERTA, "the dog", "than dog")
    expected = ["<s>", "Ġthe", "Ġdog", "</s>", "</s>", "Ġthan", "Ġdog", "</s>"]
    assert texts(ROBERTA, pieces) == expected
    assert pieces.type_ids.tolist() == [0] * 8
    assert pieces.segment_of.tolist() == [-1, 0, 0, -1, -1, 1, 1, -1]
    assert pieces.word_of.tolist() == [-1, 0, 1, -1, -1, 2, 3, -1]


def test_a_pair_without_any_marker_as_gpt2_takes_it():
    pieces = align(byte_level("Ġdog", specials=("<|endoftext|>",)), "dog dog", "dog")
    assert pieces.segment_of.tolist() == [0, 0, 1]
    assert pieces.word_of.tolist() == [0, 1, 2]


@EVERY_KIND
def test_a_single_text_is_all_first(tokenizer):
    (pieces,) = Aligner(tokenizer).align([["the", "cat"]])
    assert pieces.segment_of.tolist() == [NO_WORD if s else 0 for s in pieces.special]


@EVERY_KIND
def test_pieces_are_those_of_both_texts_in_the_template_of_the_tokenizer(tokenizer):
    first, second = "the cat , the dog", "a dog . the"
    pieces = align(tokenizer, first, second)
    assert pieces.ids.tolist() == tokenizer.encode(first, second).ids
    (alone, other) = Aligner(tokenizer).align([first.split(), second.split()])
    for segment, single, shift in ((0, alone, 0), (1, other, 5)):
        at = pieces.segment_of == segment
        assert pieces.ids[at].tolist() == single.ids[~single.special].tolist()
        assert (pieces.word_of[at] - shift).tolist() == single.word_of[~single.special].tolist()
    assert (pieces.word_of[pieces.segment_of == NO_WORD] == NO_WORD).all()


@EVERY_KIND
def test_pairs_and_single_texts_in_one_call_equal_each_alone(tokenizer):
    sentences = [["the", "cat"], ["a", "dog", "."], ["the", "the", "the", "."]]
    n_first = [1, None, 3]
    together = Aligner(tokenizer).align(sentences, n_first)
    for words, n, pieces in zip(sentences, n_first, together, strict=True):
        (alone,) = Aligner(tokenizer).align([words], [n])
        for name in ("ids", "type_ids", "special", "word_of", "segment_of"):
            assert getattr(pieces, name).tolist() == getattr(alone, name).tolist()


@pytest.mark.parametrize("name", sorted(FAMILY))
def test_families_get_the_ids_and_segments_that_their_tokenizer_gives(name):
    tokenizer = family_tokenizer(name)
    expected = tokenizer("the cat", "a cat the", return_token_type_ids=True)
    pieces = align(tokenizer.backend_tokenizer, "the cat", "a cat the")
    assert pieces.ids.tolist() == expected["input_ids"]
    assert pieces.type_ids.tolist() == expected["token_type_ids"]
    told = [NO_WORD if part is None else part for part in expected.sequence_ids()]
    assert pieces.segment_of.tolist() == told
    assert {*pieces.word_of.tolist()} - {NO_WORD} == {0, 1, 2, 3, 4}


def test_words_that_look_special_or_have_no_piece_stay_words_of_their_text():
    pieces = align(BERT, "[SEP] the \u00ad", "\u200b [SEP] cat [CLS]")
    shown = list(zip(texts(BERT, pieces), pieces.word_of, pieces.segment_of, strict=True))
    assert shown == [
        ("[CLS]", -1, -1),
        ("[SEP]", 0, 0),
        ("the", 1, 0),
        ("[SEP]", -1, -1),
        ("[SEP]", 4, 1),
        ("cat", 5, 1),
        ("[CLS]", 6, 1),
        ("[SEP]", -1, -1),
    ]
    assert pieces.has_piece.tolist() == [True, True, False, False, True, True, True]


class Told:
    """A tokenizer whose word ids of pairs are what it is told."""

    def __init__(self, real, word_ids):
        self.real, self.word_ids = real, word_ids

    def encode(self, *given, **options):
        return self.real.encode(*given, **options)

    def encode_batch(self, sentences, **options):
        for encoding in self.real.encode_batch(sentences, **options):
            names = ("ids", "type_ids", "special_tokens_mask", "tokens", "sequence_ids")
            copied = {name: getattr(encoding, name) for name in names}
            yield SimpleNamespace(**copied, word_ids=self.word_ids)


@pytest.mark.parametrize(
    "word_ids",
    [
        [None, 0, 0, None, 0, 0, None],
        [None, 0, 2, None, 0, 1, None],  # the third word of a text of two
        [None, 0, 1, None, 2, 3, None],
        [None, 0, 1, None, None, None, None],
    ],
    ids=["all zero", "of the other text", "going on", "first only"],
)
def test_useless_word_ids_are_replaced_by_offsets_within_each_text(word_ids):
    aligner = Aligner(Told(wordpiece(["i", "love", "my", "cat"]), word_ids))
    assert not aligner.by_offsets
    (pieces,) = aligner.align([["i", "love", "my", "cat"]], [2])
    assert pieces.word_of.tolist() == [-1, 0, 1, -1, 2, 3, -1]
    assert pieces.segment_of.tolist() == [-1, 0, 0, -1, 1, 1, -1]


def test_boundaries_marked_only_in_running_text_fall_back_to_offsets():
    assert Aligner(GEMMA).by_offsets
    pieces = align(GEMMA, "I love", "my cat")
    assert np.bincount(pieces.word_of).tolist() == [1, 5, 2, 1]
    assert np.bincount(pieces.segment_of).tolist() == [6, 3]


def test_a_piece_across_two_words_of_either_text_is_given_up():
    tokenizer = boundaries_from_text("the▁cat")
    assert align(tokenizer, "a", "the cat") is None
    assert align(tokenizer, "the cat", "a") is None
    assert align(tokenizer, "the", "cat").word_of.tolist()[:3] == [0, 0, 0]


def test_a_template_that_turns_the_texts_round_is_given_up():
    tokenizer = template(wordpiece(["the", "cat"]), "[CLS] $A [SEP]", "[CLS] $B [SEP] $A [SEP]")
    assert align(tokenizer, "the", "cat") is None
