"""Attention between words from attention between pieces."""

import json

import numpy as np
import pytest
import torch

from headscope.errors import HeadscopeError
from headscope.extraction.words import NO_WORD, Aligner, Merger
from headscope.probing.examples import nodes_of
from tests.extraction.toys import wordpiece

BY_HAND = [[0.5, 0.25, 0.25], [0.8, 0.2, 0.0], [0.4, 0.4, 0.2]]
ROWS = pytest.mark.parametrize("rows", ["mean", "first"])


def merge(probs, word_of, n_words, rows="mean"):
    """[W, W] of one map of one sentence."""
    probs = torch.tensor(probs, dtype=torch.float64)[None, None]
    return Merger(torch.tensor([word_of]), n_words, rows).merge(probs)[0, 0]


def by_loop(probs, word_of, n_words, rows):
    """The definition word by word: sum over the pieces attended to, mean or first of the rows."""
    merged = np.zeros((n_words, n_words))
    for i in range(n_words):
        queries = [t for t, word in enumerate(word_of) if word == i]
        queries = queries[:1] if rows == "first" else queries
        for j in range(n_words):
            keys = [t for t, word in enumerate(word_of) if word == j]
            cells = [sum(probs[q][k] for k in keys) for q in queries]
            merged[i, j] = sum(cells) / len(cells) if cells else 0.0
    return merged


def test_c040_rows_of_a_split_word_by_hand():
    """Word 0 is one piece, word 1 two: rows (.8, .2) and (.4, .6) over words."""
    mean = merge(BY_HAND, [0, 1, 1], 2)
    assert mean.tolist() == pytest.approx(np.array([[0.5, 0.5], [0.6, 0.4]]))
    first = merge(BY_HAND, [0, 1, 1], 2, "first")
    assert first.tolist() == pytest.approx(np.array([[0.5, 0.5], [0.8, 0.2]]))


def test_c040_mean_and_first_of_the_published_example():
    probs = [[0.8, 0.2, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]]
    split = [0, 0, 1]
    columns = [[0.8, 0.0, 0.2], [0.4, 0.0, 0.6], [0.0, 0.0, 1.0]]
    assert merge(columns, split, 2)[0].tolist() == pytest.approx([0.6, 0.4])
    assert merge(columns, split, 2, "first")[0].tolist() == pytest.approx([0.8, 0.2])
    assert merge(probs, split, 2)[0].tolist() == pytest.approx([1.0, 0.0])


def test_c040_mean_is_the_default():
    assert merge(BY_HAND, [0, 1, 1], 2).equal(merge(BY_HAND, [0, 1, 1], 2, "mean"))


def test_c043_three_words_of_which_one_is_split():
    pieces = Aligner(wordpiece(["a", "b1", "##b2", "c"])).align([["a", "b1b2", "c"]])[0]
    assert pieces.word_of.tolist() == [NO_WORD, 0, 1, 1, 2, NO_WORD]
    probs = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    merged = merge(probs, pieces.word_of.tolist(), 3).numpy()
    assert merged[0] == pytest.approx([probs[1, 1], probs[1, 2] + probs[1, 3], probs[1, 4]])
    assert merged[1, 0] == pytest.approx((probs[2, 1] + probs[3, 1]) / 2)
    assert merged[2, 1] == pytest.approx(probs[4, 2] + probs[4, 3])


def test_c043_a_matrix_that_is_off_by_one_gives_another_score():
    """Every token attends to the one before it: right for heads on the left, and only so."""
    word_of = [NO_WORD, 0, 1, 1, 2, NO_WORD]
    probs = np.eye(6, k=-1)
    probs[0, 0] = 1
    shifted = np.roll(probs, 1, axis=1)
    assert merge(probs, word_of, 3)[2].argmax() == 1
    assert merge(probs, word_of, 3)[1].argmax() != merge(shifted, word_of, 3)[1].argmax()
    assert merge(probs, word_of, 3).diagonal(-1).tolist() == pytest.approx([0.5, 1.0])
    assert merge(shifted, word_of, 3).diagonal(-1).tolist() != pytest.approx([0.5, 1.0])


def test_c038_special_tokens_in_the_middle_take_no_part():
    """[CLS] a . [SEP] b . [SEP]: each full stop is its own word."""
    word_of = [NO_WORD, 0, 1, NO_WORD, 2, 3, NO_WORD]
    probs = np.random.default_rng(1).dirichlet(np.ones(7), size=7)
    kept = [1, 2, 4, 5]
    assert merge(probs, word_of, 4).numpy() == pytest.approx(probs[np.ix_(kept, kept)])


def random_batch(seed, n_batch=3, n_heads=2, n_tokens=11, n_words=7):
    """Random maps; words split anyhow, some missing, special tokens anywhere, padding after."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(n_tokens), size=(n_batch, n_heads, n_tokens))
    word_of = np.sort(rng.integers(0, n_words, size=(n_batch, n_tokens)), axis=1)
    word_of[rng.random(word_of.shape) < 0.2] = NO_WORD
    word_of[0, -3:] = NO_WORD
    return probs, word_of, n_words


@ROWS
@pytest.mark.parametrize("seed", range(5))
def test_merging_equals_a_plain_loop(rows, seed):
    probs, word_of, n_words = random_batch(seed)
    merger = Merger(torch.from_numpy(word_of), n_words, rows)
    merged = merger.merge(torch.from_numpy(probs)).numpy()
    for sentence, head in np.ndindex(*probs.shape[:2]):
        expected = by_loop(probs[sentence, head], word_of[sentence], n_words, rows)
        assert merged[sentence, head] == pytest.approx(expected, abs=1e-12)
    for sentence in range(len(probs)):
        absent = [word not in word_of[sentence] for word in range(n_words)]
        assert merger.missing[sentence].tolist() == absent


@ROWS
def test_missing_words_hold_no_attention(rows):
    probs, word_of, n_words = random_batch(3)
    word_of[word_of == 2] = NO_WORD
    merger = Merger(torch.from_numpy(word_of), n_words, rows)
    merged = merger.merge(torch.from_numpy(probs))
    assert merger.missing[:, 2].all()
    assert not merged[:, :, 2].any()
    assert not merged[:, :, :, 2].any()


@ROWS
def test_rows_sum_to_one_when_special_tokens_are_nodes(rows):
    probs, word_of, n_words = random_batch(4)
    every = np.where(word_of == NO_WORD, n_words, word_of)
    merger = Merger(torch.from_numpy(every), n_words + 1, rows)
    sums = merger.merge(torch.from_numpy(probs)).sum(3).numpy()
    there = ~merger.missing.numpy()
    for head in range(probs.shape[1]):
        assert sums[:, head][there] == pytest.approx(1)
        assert not sums[:, head][~there].any()


@ROWS
def test_padding_twice_as_long_changes_nothing(rows):
    probs, word_of, n_words = random_batch(5)
    n_batch, n_heads, n_tokens, _ = probs.shape
    wide = np.full((n_batch, n_heads, 2 * n_tokens, 2 * n_tokens), 0.3)
    wide[:, :, :n_tokens, :n_tokens] = probs
    wide[:, :, :n_tokens, n_tokens:] = 0
    longer = np.pad(word_of, ((0, 0), (0, n_tokens)), constant_values=NO_WORD)
    short = Merger(torch.from_numpy(word_of), n_words, rows).merge(torch.from_numpy(probs))
    long = Merger(torch.from_numpy(longer), n_words, rows).merge(torch.from_numpy(wide))
    torch.testing.assert_close(short, long, rtol=0, atol=1e-15)


def test_shorter_sentences_end_in_missing_words():
    merger = Merger(torch.tensor([[0, 1, 2], [0, 0, NO_WORD]]), 3)
    assert merger.missing.tolist() == [[False] * 3, [False, True, True]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_type_of_the_map_is_kept(dtype):
    probs = torch.tensor(BY_HAND, dtype=dtype)[None, None]
    merged = Merger(torch.tensor([[0, 1, 1]]), 2).merge(probs)
    assert merged.dtype == dtype
    assert merged[0, 0, 1].tolist() == pytest.approx([0.6, 0.4], rel=1e-2)


def test_heads_and_words_keep_their_places():
    """More heads than words than sentences: an exchange of axes would show."""
    probs = torch.zeros(1, 5, 3, 3, dtype=torch.float64)
    probs[0, 4, 2, 0] = 1
    merged = Merger(torch.tensor([[0, 1, 2]]), 3).merge(probs)
    assert merged.nonzero().tolist() == [[0, 4, 2, 0]]


def test_an_unknown_row_rule_is_refused():
    with pytest.raises(HeadscopeError, match="unknown rows 'median'.*Known: first, mean"):
        Merger(torch.tensor([[0]]), 1, "median")


REFERENCE = "data/expected/words.json"


@pytest.fixture(scope="module")
def reference():
    from tests.conftest import TESTS

    return json.loads((TESTS / REFERENCE).read_text(encoding="utf-8"))


@ROWS
def test_reference_maps_of_the_demo_model(reference, rows):
    """Made with the field's original code; special tokens are nodes there."""
    from headscope.extraction.checkpoint import locate
    from headscope.extraction.tokenizer import read_tokenizer

    tokenizer = read_tokenizer(locate("demo")).tokenizer
    aligned = Aligner(tokenizer).align([item["words"] for item in reference["sentences"]])
    for item, pieces in zip(reference["sentences"], aligned, strict=True):
        assert [tokenizer.id_to_token(int(i)) for i in pieces.ids] == item["tokens"]
        node_of, n_nodes = nodes_of(pieces)
        merged = merge(item["token_level"], node_of.tolist(), n_nodes, rows)
        assert merged.numpy() == pytest.approx(np.array(item[rows]), abs=2e-6)


def test_equal_attention_gives_equal_numbers_whatever_the_number_of_pieces():
    """A third rounded to float32 would let a word of three pieces win over one of one piece."""
    word_of = torch.tensor([[-1, 0, 1, 1, 1, 2, 2, 3, -1]])
    uniform = torch.full((1, 1, 9, 9), 1 / 9)
    merged = Merger(word_of, 4).merge(uniform)[0, 0]
    for column in merged.T:
        assert len(set(column.tolist())) == 1
    assert merged[0, 0] == merged[1, 0] == merged[0, 3]


def test_columns_may_be_of_another_text():
    probs = torch.tensor([[[[0.5, 0.2, 0.3], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.0, 0.5, 0.5]]]])
    rows, columns = torch.tensor([[NO_WORD, 0, 1, 1]]), torch.tensor([[0, 0, 1]])
    merged = Merger(rows, 2, columns=(columns, 3)).merge(probs)[0, 0]
    torch.testing.assert_close(merged, torch.tensor([[0.3, 0.7, 0.0], [0.7, 0.3, 0.0]]))
