"""Sentences in, padded batches of similar length out: each once, in an order that is its own."""

import re

import numpy as np
import pytest
import torch

from headscope.datasets import open_corpus
from headscope.extraction import batches as module
from headscope.extraction.batches import Batch, Tally, batches, collate
from headscope.extraction.words import NO_WORD, Aligner
from tests.extraction.toys import boundaries_from_text, encoder_of, sentence, wordpiece

LETTERS = wordpiece(["the", "cat", ".", "東"], letters=True)


def lengths(*n_words):
    """Sentences of so many one-letter words, each of one piece."""
    return [sentence(["a"] * n, ordinal=i, line=10 * i + 1) for i, n in enumerate(n_words)]


def ordinals(found):
    return [[item.ordinal for item in batch.sentences] for batch in found]


def run(sentences, *, tally=None, batch_tokens=1024, **encoder):
    toy = encoder_of(LETTERS, **encoder)
    return list(batches(toy, sentences, tally=tally, batch_tokens=batch_tokens))


def test_one_batch_by_hand():
    words = [["the", "cat"], ["cab", "\u200b"]]
    (batch,) = run([sentence(w, ordinal=i) for i, w in enumerate(words)], pad_id=9)
    assert ordinals([batch]) == [[1, 0]]
    ids = {piece: LETTERS.token_to_id(piece) for piece in ("c", "##a", "##b", "the", "cat")}
    assert batch.input_ids.tolist() == [
        [2, ids["c"], ids["##a"], ids["##b"], 3],
        [2, ids["the"], ids["cat"], 3, 9],
    ]
    assert batch.type_ids.tolist() == [[0] * 5] * 2
    assert batch.valid.tolist() == [[True] * 5, [True] * 4 + [False]]
    assert batch.special.tolist() == [
        [True, False, False, False, True],
        [True, False, False, True, False],
    ]
    assert batch.word_of.tolist() == [[-1, 0, 0, 0, -1], [-1, 0, 1, -1, -1]]
    assert batch.n_tokens.tolist() == [5, 4]
    assert (batch.n_words, len(batch)) == (2, 2)
    assert [p.n_words for p in batch.pieces] == [2, 2]
    kinds = [t.dtype for t in (batch.input_ids, batch.valid, batch.special, batch.word_of)]
    assert kinds == [torch.int64, torch.bool, torch.bool, torch.int64]


def test_the_longest_sentence_comes_first_and_equal_lengths_keep_their_order():
    found = run(lengths(3, 5, 3, 9, 5))
    assert ordinals(found) == [[3, 1, 4, 0, 2]]


@pytest.mark.parametrize("batch_tokens", [1, 7, 12, 20, 64, 1024])
def test_a_batch_holds_so_many_tokens_at_most_padding_included(batch_tokens):
    sizes = [3, 1, 8, 2, 2, 5, 13, 1, 1, 4]
    found = run(lengths(*sizes), batch_tokens=batch_tokens)
    for batch in found:
        assert batch.input_ids.numel() <= batch_tokens or len(batch) == 1
        assert batch.input_ids.shape[1] == batch.n_tokens.max()
    assert sum(ordinals(found), []) == sum(ordinals(run(lengths(*sizes))), [])


def test_a_batch_is_as_full_as_the_limit_lets_it_be():
    assert [len(batch) for batch in run(lengths(*[6] * 7), batch_tokens=24)] == [3, 3, 1]


def test_every_sentence_comes_once_with_its_own_words(ewt):
    corpus = list(open_corpus(ewt).read())
    found = run(corpus, batch_tokens=100)
    assert sorted(sum(ordinals(found), [])) == list(range(100))
    aligner = Aligner(LETTERS)
    for batch in found:
        for row, item in enumerate(batch.sentences):
            (alone,) = aligner.align([item.words])
            n = int(batch.n_tokens[row])
            assert batch.input_ids[row, :n].tolist() == alone.ids.tolist()
            assert batch.word_of[row, :n].tolist() == alone.word_of.tolist()
            assert batch.pieces[row].n_words == len(item.words)


def test_padding_has_the_pad_id_and_belongs_to_nothing():
    (batch,) = run(lengths(2, 6), pad_id=33)
    assert batch.input_ids[1].tolist()[4:] == [33] * 4
    assert not batch.valid[1, 4:].any()
    assert not batch.special[1, 4:].any()
    assert (batch.word_of[1, 4:] == NO_WORD).all()


def test_twice_the_same_sentences_give_twice_the_same_batches():
    sizes = np.random.default_rng(0).integers(1, 30, size=50).tolist()
    first, second = (run(lengths(*sizes), batch_tokens=60) for _ in range(2))
    assert ordinals(first) == ordinals(second)


def test_a_generator_gives_the_same_batches_as_a_list():
    sizes = [4, 2, 7, 7, 1]
    assert ordinals(run(item for item in lengths(*sizes))) == ordinals(run(lengths(*sizes)))


def test_no_sentence_gives_no_batch():
    tally = Tally()
    assert run([], tally=tally) == []
    assert (tally.n_sentences, tally.unk_rate) == (0, 0.0)


def test_no_more_than_a_window_of_sentences_is_read_ahead(monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 8)
    taken = []

    def endless():
        number = 0
        while True:
            taken.append(number)
            yield sentence(["a"] * (1 + number % 5), ordinal=number)
            number += 1

    stream = batches(encoder_of(LETTERS), endless(), batch_tokens=21)
    assert taken == []
    seen = []
    while len(seen) < 30:
        seen += [item.ordinal for item in next(stream).sentences]
        assert len(taken) <= 8 * (1 + (len(seen) - 1) // 8)
    assert sorted(seen[:24]) == list(range(24))


def test_the_window_orders_within_itself_alone(monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 3)
    assert ordinals(run(lengths(1, 2, 3, 9, 8, 7))) == [[2, 1, 0], [3, 4, 5]]


def test_a_window_is_bounded():
    assert module.WINDOW == 2048


def test_a_sentence_that_is_too_long_is_left_out_counted_and_named():
    tally = Tally()
    found = run(lengths(3, 11, 8), tally=tally, max_length=10)
    assert ordinals(found) == [[2, 0]]
    assert tally.skipped["too_long"] == 1
    assert tally.left_out == [
        "sentence s1 (line 11, 11 words) was left out: 13 tokens, and the model takes 10"
    ]
    assert (tally.n_sentences, tally.n_words, tally.n_tokens) == (2, 11, 15)
    assert tally.units == {0, 2}


def test_a_misaligned_sentence_is_left_out_counted_and_named():
    crossing = boundaries_from_text("the▁cat")
    tally = Tally()
    given = [sentence(w, ordinal=i, line=i + 5) for i, w in enumerate(("a", "the cat", "the dog"))]
    found = list(batches(encoder_of(crossing), given, tally=tally))
    assert ordinals(found) == [[2, 0]]
    assert tally.skipped["misaligned"] == 1
    assert tally.left_out == [
        "sentence s1 (line 6, 2 words) was left out: its pieces do not fit its words"
    ]


@pytest.mark.parametrize("words", [["\u200b"], [""], ["", "\u00ad"], []])
def test_a_sentence_without_any_token_is_left_out_counted_and_named(words):
    bare = wordpiece(["a"], single=None)
    tally = Tally()
    given = [sentence(["a"]), sentence(words, ordinal=1)]
    found = list(batches(encoder_of(bare), given, tally=tally))
    assert ordinals(found) == [[0]]
    assert tally.skipped["misaligned"] == 1
    assert re.search(r"s1 .* was left out: its words have no piece at all", tally.left_out[0])


def test_a_sentence_of_special_tokens_alone_stays_with_its_missing_word():
    tally = Tally()
    (batch,) = run([sentence(["\u200b"])], tally=tally)
    assert batch.word_of.tolist() == [[NO_WORD, NO_WORD]]
    assert (batch.n_words, batch.pieces[0].has_piece.tolist()) == (1, [False])
    assert tally.skipped["words_without_pieces"] == 1
    assert (tally.n_pieces, tally.unk_rate) == (0, 0.0)


def test_the_list_of_left_out_sentences_is_short_and_their_number_exact():
    tally = Tally()
    assert run(lengths(*[30] * 50), tally=tally, max_length=5) == []
    assert (tally.skipped["too_long"], len(tally.left_out)) == (50, 20)


def test_c030_unknown_pieces_are_counted_over_text_alone():
    tally = Tally()
    given = [
        sentence("the 한국어 cat"),
        sentence("한국어 한국어", ordinal=1),
        sentence("a", ordinal=2),
    ]
    run(given, tally=tally)
    assert (tally.n_pieces, tally.n_unknown) == (6, 3)
    assert tally.unk_rate == 0.5
    assert tally.n_tokens == 12


def test_c030_a_word_with_several_unknown_pieces_is_one_unknown_word():
    tally = Tally()
    run([sentence(["the", "\U0001f600.\U0001f600", "cat", "한국어"])], tally=tally)
    assert (tally.n_unknown, tally.n_unknown_words, tally.n_words) == (3, 2, 4)


def test_c030_special_tokens_are_never_unknown():
    tally = Tally()
    run([sentence("the cat")], tally=tally, unk_id=2)
    assert (tally.n_unknown, tally.n_unknown_words) == (0, 0)


def test_c030_a_tokenizer_without_unknown_token_knows_everything():
    tally = Tally()
    run([sentence("한국어")], tally=tally, unk_id=None)
    assert (tally.n_unknown, tally.unk_rate) == (0, 0.0)


def test_left_out_sentences_are_in_no_count():
    tally = Tally()
    run([sentence(["한국어"] * 20), sentence("cat", ordinal=1)], tally=tally, max_length=6)
    assert (tally.n_unknown, tally.n_pieces, tally.n_words, tally.units) == (0, 1, 1, {1})


def test_units_are_documents_not_sentences():
    tally = Tally()
    run([sentence("a", ordinal=i, unit=i // 3) for i in range(7)], tally=tally)
    assert tally.units == {0, 1, 2}


def test_words_without_pieces_are_counted():
    tally = Tally()
    run([sentence(["a", "\u00ad", "\u200b", "b"])], tally=tally)
    assert tally.skipped == {"too_long": 0, "misaligned": 0, "words_without_pieces": 2}
    assert (tally.n_words, tally.n_pieces) == (4, 2)


def test_counts_arrive_as_batches_stream_by(monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 2)
    tally = Tally()
    stream = batches(encoder_of(LETTERS), lengths(1, 2, 3, 4), tally=tally)
    next(stream)
    assert tally.n_sentences == 2
    list(stream)
    assert (tally.n_sentences, tally.n_words) == (4, 10)


def test_collate_pads_to_the_longest_whatever_the_order():
    encoder = encoder_of(LETTERS, pad_id=7)
    given = lengths(1, 4, 2)
    pieces = Aligner(LETTERS).align([item.words for item in given])
    batch = collate(encoder, list(zip(given, pieces, strict=True)))
    assert isinstance(batch, Batch)
    assert batch.n_tokens.tolist() == [3, 6, 4]
    assert batch.input_ids[0].tolist()[3:] == [7, 7, 7]
    assert batch.input_ids.device == encoder.device


def test_batches_that_another_rank_takes_are_not_made_but_counted():
    shapes, tally = [], Tally()

    def takes(n_sentences, length):
        shapes.append((n_sentences, length))
        return len(shapes) % 2 == 0

    toy = encoder_of(LETTERS)
    found = batches(toy, lengths(1, 1, 4, 1, 2), tally=tally, batch_tokens=6, takes=takes)
    assert ordinals(found) == [[4], [3]]
    assert shapes == [(1, 6), (1, 4), (2, 3), (1, 3)]
    assert (tally.n_sentences, tally.n_tokens) == (5, 6 + 4 + 3 * 3)
