"""Pairs in batches, and what a decoder reads beside an encoder: the target, shifted by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right as bart_shift
from transformers.models.mbart.modeling_mbart import shift_tokens_right as mbart_shift

from headscope.errors import InputError
from headscope.extraction.batches import Tally, batches
from headscope.extraction.words import NO_WORD, Aligner
from tests.extraction.toys import (
    BERT,
    ROBERTA,
    boundaries_from_text,
    encoder_of,
    sentence,
    template,
    texts,
    wordpiece,
)

T5 = template(wordpiece(["the", "cat", "."], letters=True), "$A [SEP]", "$A [SEP] $B [SEP]")
MBART = template(wordpiece(["the", "cat"], letters=True), "$A [SEP] [MASK]")
BARE = wordpiece(["the", "cat"], letters=True, single=None)


def paired(first, second, **rest):
    return replace(sentence(f"{first} {second}", **rest), n_first=len(first.split()))


def aimed(words, target, **rest):
    return replace(sentence(words, **rest), target=sentence(target, **rest))


def beside_decoder(tokenizer, *, start_id=0, attention="decoder", **rest):
    """An encoder-decoder of which the decoder's attention is observed."""
    return encoder_of(tokenizer, start_id=start_id, attention=attention, **rest)


def decoded(tokenizer, given, *, start_id=0, attention="decoder", **options):
    toy = beside_decoder(tokenizer, start_id=start_id, attention=attention)
    return list(batches(toy, given, **options))


# Pairs


def test_a_pair_and_a_single_text_in_one_batch_by_hand():
    given = [paired("the cat", "the", ordinal=0), sentence("cat .", ordinal=1)]
    tally = Tally()
    (batch,) = batches(encoder_of(BERT), given, tally=tally)
    assert batch.segment_of.tolist() == [[-1, 0, 0, -1, 1, -1], [-1, 0, 0, -1, -1, -1]]
    assert batch.type_ids.tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert batch.word_of.tolist() == [[-1, 0, 1, -1, 2, -1], [-1, 0, 1, -1, -1, -1]]
    assert batch.segment_of.dtype == torch.int64
    assert (tally.n_words, tally.n_tokens, tally.n_pieces) == (5, 10, 5)
    assert batch.target is None


def test_without_a_decoder_targets_are_not_read():
    (batch,) = batches(encoder_of(BERT), [aimed("the", "cat " * 600)], target="column")
    assert (batch.target, batch.cross) == (None, False)


# What a decoder reads


def test_a_target_by_hand_as_bart_takes_it():
    given = [aimed("the", "the dog")]
    (batch,) = decoded(ROBERTA, given, start_id=2)
    (pieces,) = batch.target.pieces
    assert texts(ROBERTA, pieces) == ["</s>", "<s>", "Ġthe", "Ġdog"]
    assert batch.target.special.tolist() == [[True, True, False, False]]
    assert batch.target.word_of.tolist() == [[NO_WORD, NO_WORD, 0, 1]]
    assert batch.target.segment_of.tolist() == [[NO_WORD, NO_WORD, 0, 0]]
    assert pieces.special_names == ("</s>", "<s>")
    assert texts(ROBERTA, batch.pieces[0]) == ["<s>", "Ġthe", "</s>"]
    assert batch.target.sentences == (given[0].target,)


def test_a_target_by_hand_as_t5_takes_it():
    (batch,) = decoded(T5, [aimed("the", "the cat")])
    assert texts(T5, batch.target.pieces[0]) == ["[PAD]", "the", "cat"]
    assert batch.target.word_of.tolist() == [[NO_WORD, 0, 1]]
    assert batch.target.pieces[0].special_names == ("[PAD]",)


def test_a_target_by_hand_as_mbart_takes_it():
    (batch,) = decoded(MBART, [aimed("the", "the cat")], start_id=None)
    assert texts(MBART, batch.target.pieces[0]) == ["[MASK]", "the", "cat", "[SEP]"]
    assert batch.target.special.tolist() == [[True, False, False, True]]
    assert batch.target.word_of.tolist() == [[NO_WORD, 0, 1, NO_WORD]]
    assert batch.target.pieces[0].special_names == ("[MASK]", "[SEP]")


def test_without_an_end_token_nothing_is_dropped():
    (batch,) = decoded(BARE, [aimed("the", "the cat")])
    assert texts(BARE, batch.target.pieces[0]) == ["[PAD]", "the", "cat"]
    assert batch.target.pieces[0].special_names == ("[PAD]",)


@pytest.mark.parametrize("tokenizer", [ROBERTA, T5, BERT], ids=["bart", "t5", "bert"])
def test_decoder_input_is_what_the_library_makes_of_labels(tokenizer):
    words = ["the the", "a", "the a the a the"]
    given = [aimed("a", target, ordinal=i) for i, target in enumerate(words)]
    (batch,) = decoded(tokenizer, given, start_id=2)
    for text, pieces in zip(batch.target.sentences, batch.target.pieces, strict=True):
        (whole,) = Aligner(tokenizer).align([text.words])
        labels = torch.from_numpy(whole.ids)[None]
        assert pieces.ids.tolist() == bart_shift(labels, 0, 2)[0].tolist()


def test_decoder_input_of_mbart_is_what_the_library_makes_of_labels():
    (batch,) = decoded(MBART, [aimed("a", "the cat the")], start_id=None)
    (whole,) = Aligner(MBART).align([["the", "cat", "the"]])
    expected = mbart_shift(torch.from_numpy(whole.ids)[None], 0)[0]
    assert batch.target.input_ids[0].tolist() == expected.tolist()


def test_a_copy_is_the_sentence_itself_with_its_words_and_tree():
    given = [sentence("the cat ."), paired("the cat", "cat", ordinal=1)]
    (batch,) = decoded(T5, given, target="copy")
    assert batch.target.sentences == batch.sentences
    assert {item.ordinal for item in batch.sentences} == {0, 1}
    at = [item.ordinal for item in batch.sentences].index(1)
    assert texts(T5, batch.target.pieces[at]) == ["[PAD]", "the", "cat", "[SEP]", "cat"]
    assert batch.target.segment_of[at].tolist() == [-1, 0, 0, -1, 1]


def test_a_missing_target_is_one_line_that_says_what_to_do():
    given = [aimed("the", "cat"), sentence("the", ordinal=1, line=7)]
    with pytest.raises(
        InputError, match=r"sentence s1 \(line 7\): found no target, .*copy"
    ) as info:
        decoded(T5, given)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(("attention", "cross"), [("decoder", False), ("cross", True)])
def test_queries_are_the_targets_and_keys_as_the_attention_says(attention, cross):
    (batch,) = decoded(T5, [aimed("the cat", "cat")], attention=attention)
    assert batch.cross is cross
    assert batch.queries is batch.target
    assert batch.keys is (batch if cross else batch.target)


def test_counts_are_those_of_the_targets():
    tally = Tally()
    given = [aimed("the cat .", "the 한국어"), aimed("the", "cat", ordinal=1)]
    decoded(T5, given, tally=tally)
    assert (tally.n_sentences, tally.n_words, tally.n_tokens, tally.n_pieces) == (2, 3, 5, 3)
    assert (tally.n_unknown, tally.units) == (1, {0, 1})


def test_sentence_and_target_stay_together_whatever_their_lengths():
    drawn = np.random.default_rng(0).integers(1, 20, size=(60, 2)).tolist()
    given = [aimed(["a"] * n, ["a"] * m, ordinal=i) for i, (n, m) in enumerate(drawn)]
    found = decoded(T5, given, batch_tokens=60)
    seen = []
    for batch in found:
        for one, other in zip(batch.sentences, batch.target.sentences, strict=True):
            assert other is given[one.ordinal].target
            seen.append(one.ordinal)
        for side in (batch, batch.target):
            assert side.input_ids.numel() <= 60 or len(batch) == 1
    assert sorted(seen) == list(range(60))


def test_without_padding_both_sides_are_of_equal_length():
    sizes = [(3, 2), (2, 3), (3, 2), (3, 3), (2, 3), (1, 3)]
    given = [aimed(["a"] * n, ["a"] * m, ordinal=i) for i, (n, m) in enumerate(sizes)]
    toy = replace(beside_decoder(T5), equal_lengths=True)
    found = list(batches(toy, given))
    groups = sorted(sorted(item.ordinal for item in batch.sentences) for batch in found)
    assert groups == [[0, 2], [1, 4], [3], [5]]
    assert all(side.valid.all() for batch in found for side in (batch, batch.target))


def test_a_sentence_with_too_long_a_target_is_left_out_counted_and_named():
    tally = Tally()
    given = [aimed("a", ["a"] * 10, line=5), aimed("a", ["a"] * 9, ordinal=1)]
    (batch,) = batches(beside_decoder(T5, max_length=10), given, tally=tally)
    assert [item.ordinal for item in batch.sentences] == [1]
    assert tally.skipped["too_long"] == 1
    assert tally.left_out == [
        "sentence s0 (line 5, 1 words) was left out: its target: 11 tokens, and the model takes 10"
    ]
    assert (tally.n_sentences, tally.n_words) == (1, 9)
    with_maps = decoded(T5, given, max_map_tokens=10)
    assert [item.ordinal for item in with_maps[0].sentences] == [1]


def test_a_sentence_whose_target_cannot_be_aligned_is_left_out():
    tally = Tally()
    given = [aimed("a", "the cat"), aimed("a", "the dog", ordinal=1)]
    (batch,) = decoded(boundaries_from_text("the▁cat"), given, start_id=2, tally=tally)
    assert [item.ordinal for item in batch.sentences] == [1]
    assert tally.skipped["misaligned"] == 1
    assert "was left out: its target: its pieces do not fit its words" in tally.left_out[0]
