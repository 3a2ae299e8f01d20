"""Surface measures: numbers found by hand, plain loops, padding, blocks, kinds of tokens."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.stats
import torch
from jaxtyping import TypeCheckError

from headscope.datasets import Sentence
from headscope.extraction.batches import batches
from headscope.extraction.measures import MEASURES, Tokens, Weights, describe_tokens, entropy
from tests.extraction.toys import encoder_of, wordpiece
from tests.loops import Sequence, plain_surface, uniform_attention
from tests.models import encoder

MASKS = ("cls", "separator", "special", "punctuation", "punctuation_words", "punctuation_all")


def where(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def tokens_of(n=3, *, causal=False, annotated=True, **places):
    """One sequence without padding; the given places are True."""
    masks = {name: where([i in places.get(name, ()) for i in range(n)]) for name in MASKS}
    return Tokens(valid=where([True] * n), annotated=where(annotated)[0:1], causal=causal, **masks)


def measured(tokens, probs, *blocks):
    """{measure: (sums [B, H], counts [B])}, from one block of all rows or from the given ones."""
    n = probs.shape[2]
    total = sum(
        Weights(tokens, start, stop).totals(probs[:, :, start:stop])
        for start, stop in blocks or ((0, n),)
    )
    counts = [m.n_rows(tokens) for m in MEASURES.values()]
    return {name: (total[:, :, i].numpy(), counts[i].numpy()) for i, name in enumerate(MEASURES)}


def one(tokens, rows):
    """{measure: (sum, count)} of one head of one sequence."""
    found = measured(tokens, torch.tensor(rows, dtype=torch.float64).view(1, 1, len(rows), -1))
    return {name: (sums.item(), counts.item()) for name, (sums, counts) in found.items()}


FULL = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
CAUSAL = [[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.2, 0.5, 0.3]]
PLACES = {
    "cls": {0},
    "separator": {2},
    "special": {0, 2},
    "punctuation": {1},
    "punctuation_words": {1, 2},
    "punctuation_all": {1},
}
BY_HAND = {  # sum of FULL, of CAUSAL, number of rows
    "previous": (0.1 + 0.2, 0.3 + 0.5, 2),
    "next": (0.3 + 0.3, 0.0, 2),
    "self": (0.5 + 0.6 + 0.6, 1.0 + 0.7 + 0.3, 3),
    "first": (0.5 + 0.1 + 0.2, 1.0 + 0.3 + 0.2, 3),
    "cls": (0.8, 1.5, 3),
    "separator": (0.2 + 0.3 + 0.6, 0.3, 3),
    "special": (0.7 + 0.4 + 0.8, 1.0 + 0.3 + 0.5, 3),
    "punctuation": (0.3 + 0.6 + 0.2, 0.7 + 0.5, 3),
    "punctuation_words": (0.5 + 0.9 + 0.8, 0.7 + 0.8, 3),
    "punctuation_all": (1.1, 1.2, 3),
    "entropy": (2.8778692, 0.0 + 0.6108643 + 1.0296530, 3),
    "entropy_from_first": (1.0296530, 0.0, 1),
    "entropy_from_cls": (1.0296530, 0.0, 1),
    "distance": (0.3 + 0.4 + 0.1 + 0.3 + 0.4 + 0.2, 0.3 + 0.4 + 0.5, 3),
}


@pytest.mark.parametrize("name", MEASURES)
def test_numbers_found_by_hand(name):
    full, causal, n_rows = BY_HAND[name]
    assert one(tokens_of(**PLACES), FULL)[name] == pytest.approx((full, n_rows), abs=1e-7)
    n_causal = 0 if name == "next" else n_rows
    found = one(tokens_of(causal=True, **PLACES), CAUSAL)[name]
    assert found == pytest.approx((causal, n_causal), abs=1e-7)


def test_a_transposed_map_gives_other_numbers():
    there = one(tokens_of(**PLACES), FULL)
    back = one(tokens_of(**PLACES), [list(column) for column in zip(*FULL, strict=True)])
    assert there["previous"][0] == pytest.approx(back["next"][0])
    for name in ("previous", "first", "separator", "entropy_from_first"):
        assert there[name][0] != pytest.approx(back[name][0])


UNIFORM = {  # full, causal
    "previous": (2 / 3, 1 / 2 + 1 / 3),
    "next": (2 / 3, 0.0),
    "self": (1.0, 1 + 1 / 2 + 1 / 3),
    "first": (1.0, 1 + 1 / 2 + 1 / 3),
    "separator": (1.0, 1 / 3),
    "special": (2.0, 1 + 1 / 2 + 2 / 3),
    "entropy": (3 * math.log(3), math.log(2) + math.log(3)),
    "entropy_from_first": (math.log(3), 0.0),
    "distance": (1 + 2 / 3 + 1, 1 / 2 + 1),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_attention_found_by_hand(name):
    for causal, expected in zip((False, True), UNIFORM[name], strict=True):
        tokens = tokens_of(causal=causal, **PLACES)
        sums, _ = measured(tokens, tokens.uniform)[name]
        assert sums.item() == pytest.approx(expected, abs=1e-12)


def drawn(seed=0, *, causal=False, lengths=(7, 4, 1, 6), width=9, n_heads=5):
    """Random maps and tokens of padded sequences, special ones in odd places."""
    rng = np.random.default_rng(seed)
    shape = (len(lengths), width)
    valid = np.arange(width) < np.array(lengths).reshape(-1, 1)
    scores = rng.normal(0, 3, (len(lengths), n_heads, width, width))
    scores[rng.random(scores.shape) < 0.2] = -1e9  # probabilities that are exactly zero
    scores[:, :, np.arange(width), np.arange(width)] = 0
    seen = valid[:, None, None, :] & (np.tri(width, dtype=bool) if causal else True)
    probs = np.where(seen, np.exp(scores - scores.max(3, keepdims=True)), 0)
    probs = np.where(valid[:, None, :, None], probs, rng.random(probs.shape))  # padding: anything
    probs = probs / probs.sum(3, keepdims=True)
    masks = {name: (rng.random(shape) < 0.3) & valid for name in MASKS}
    masks["cls"][0, 2] = True
    masks["cls"][1] = False
    masks["separator"][0, [1, 3]] = True
    masks["separator"][-1] = False
    annotated = rng.random(len(lengths)) < 0.5
    masks["punctuation_all"] &= annotated.reshape(-1, 1)
    tokens = Tokens(
        valid=torch.from_numpy(valid),
        annotated=torch.from_numpy(annotated),
        causal=causal,
        **{name: torch.from_numpy(mask) for name, mask in masks.items()},
    )
    return tokens, torch.from_numpy(probs)


def plain(tokens, probs, row, head):
    """The same of one head of one sequence, in loops."""
    n = int(tokens.valid[row].sum())
    places = {name: set(np.flatnonzero(getattr(tokens, name)[row])) for name in MASKS}
    attention = probs[row, head, :n, :n].tolist()
    annotated = bool(tokens.annotated[row])
    return plain_surface(Sequence(attention, annotated=annotated, causal=tokens.causal, **places))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_measure_equals_plain_loops(seed, causal):
    tokens, probs = drawn(seed, causal=causal)
    found = measured(tokens, probs)
    for row in range(4):
        for head in range(5):
            expected = plain(tokens, probs, row, head)
            assert expected.keys() == MEASURES.keys()
            for name, (total, n_rows) in expected.items():
                sums, counts = found[name]
                assert counts[row] == n_rows, (name, row)
                assert sums[row, head] == pytest.approx(total, abs=1e-9), (name, row, head)


@pytest.mark.parametrize("causal", [False, True])
def test_uniform_attention_equals_plain_loops(causal):
    tokens, _ = drawn(causal=causal)
    uniform = tokens.uniform
    found = measured(tokens, uniform)
    for row, length in enumerate((7, 4, 1, 6)):
        flat = torch.zeros(4, 1, 9, 9, dtype=torch.float64)
        flat[row, 0, :length, :length] = torch.tensor(
            uniform_attention(length, causal), dtype=torch.float64
        )
        assert torch.allclose(uniform[row, 0, :length], flat[row, 0, :length])
        for name, (total, n_rows) in plain(tokens, flat, row, 0).items():
            sums, counts = found[name]
            assert counts[row] == n_rows
            assert sums[row, 0] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_twice_as_long_changes_nothing(causal):
    tokens, probs = drawn(causal=causal, width=7)
    twice = torch.nn.functional.pad(probs, (0, 7, 0, 7))
    twice[:, :, 7:] = 1 / 14  # rows of padding are uniform over everything
    masks = {
        field.name: torch.nn.functional.pad(getattr(tokens, field.name), (0, 7))
        for field in fields(tokens)
        if field.name not in ("annotated", "causal")
    }
    padded = replace(tokens, **masks)
    short, long = measured(tokens, probs), measured(padded, twice)
    for name in MEASURES:
        assert long[name][0] == pytest.approx(short[name][0], abs=1e-12)
        assert (long[name][1] == short[name][1]).all()
    short, long = measured(tokens, tokens.uniform), measured(padded, padded.uniform)
    for name in MEASURES:
        assert long[name][0] == pytest.approx(short[name][0], abs=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("stops", [range(10), (0, 4, 9), (0, 1, 8, 9), (0, 2, 4, 6, 8, 9)])
def test_blocks_of_rows_add_up_to_the_whole(stops, causal):
    tokens, probs = drawn(causal=causal)
    blocks = list(zip(stops, list(stops)[1:], strict=False))
    whole, parts = measured(tokens, probs), measured(tokens, probs, *blocks)
    for name in MEASURES:
        assert parts[name][0] == pytest.approx(whole[name][0], abs=1e-12)


def test_sums_are_float64_whatever_the_maps_are():
    tokens, probs = drawn()
    exact = measured(tokens, probs)
    for dtype in (torch.float32, torch.float64):
        given = probs.to(dtype)
        kept = given.clone()
        total = Weights(tokens, 0, 9).totals(given)
        assert total.dtype == torch.float64
        assert torch.equal(given, kept)
        for i, name in enumerate(MEASURES):
            assert total[:, :, i].numpy() == pytest.approx(exact[name][0], abs=1e-5)


def test_a_sequence_without_tokens_has_no_rows():
    tokens, probs = drawn(lengths=(4, 0))
    for name, (sums, counts) in measured(tokens, probs).items():
        assert counts[1] == 0, name
        assert (sums[1] == 0).all(), name


def test_entropy_of_hard_rows():
    # C073: zeros, certainty, subnormal numbers; 0.0 and never -0.0.
    rows = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [1.0, 1e-45, 0.0]]
    for dtype in (torch.float32, torch.float64):
        (found,) = entropy(torch.tensor(rows, dtype=dtype).view(1, 1, 4, 3))[0]
        assert found.dtype == torch.float64
        assert found[0].item() == pytest.approx(0.693147, abs=1e-6)
        assert str(found[1].item()) == "0.0"
        assert found[2].item() == pytest.approx(0.562335, abs=1e-6)
        assert 0 <= found[3].item() < 1e-37
    assert "-0." not in str(entropy(torch.eye(4).view(1, 1, 4, 4)))


def test_entropy_equals_scipy():
    _, probs = drawn(2)
    probs[..., 3:5] = 0
    probs = probs / probs.sum(3, keepdim=True).clamp(min=1e-9)
    expected = scipy.stats.entropy(probs.numpy(), axis=3)
    expected = np.nan_to_num(expected)
    assert entropy(probs).numpy() == pytest.approx(expected, abs=1e-12)
    assert entropy(probs.float()).numpy() == pytest.approx(expected, abs=1e-6)
    assert (entropy(probs).numpy() >= 0).all()


def test_entropy_of_zeros_has_finite_gradients():
    probs = torch.tensor([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]]], requires_grad=True)
    entropy(probs).sum().backward()
    assert torch.isfinite(probs.grad).all()


def test_shapes_of_signatures_are_checked_in_tests():
    with pytest.raises(TypeCheckError, match="probs"):
        entropy(torch.zeros(3, 3))
    with pytest.raises(TypeCheckError, match="special"):
        replace(tokens_of(), special=where([True] * 4))


def sentence(words, upos):
    words, upos = tuple(words.split()), tuple(upos.split())
    heads, relations = tuple(range(len(words))), ("dep",) * len(words)
    return Sentence(words, heads, relations, upos, "s", 0, 0, 1)


SENTENCES = (
    sentence("the cat , U.S. cat . [SEP] ... ,", "DET NOUN PUNCT PROPN NOUN PUNCT X PUNCT SYM"),
    sentence("the cat .", "_ _ _"),
    sentence(".", "PUNCT"),
)


def described(model, sentences=SENTENCES):
    (batch,) = batches(model, sentences)
    return batch, describe_tokens(batch, model)


def pieces_at(model, batch, mask):
    """Text of the pieces at which a mask is True, a string for each sentence."""
    return [
        " ".join(model.tokenizer.id_to_token(int(i)) for i in ids[row])
        for ids, row in zip(batch.input_ids, mask, strict=True)
    ]


def test_tokens_of_a_batch_are_told_by_id_text_and_word():
    model = encoder_of(wordpiece(["the", "cat", ".", ","], letters=True))
    batch, tokens = described(model)
    assert batch.input_ids.shape == (3, 16)
    assert pieces_at(model, batch, tokens.cls) == ["[CLS]"] * 3
    assert pieces_at(model, batch, tokens.separator) == ["[SEP]"] * 3
    assert pieces_at(model, batch, tokens.special) == ["[CLS] [SEP]"] * 3
    assert pieces_at(model, batch, tokens.punctuation) == [", . . . . . . ,", ".", "."]
    assert pieces_at(model, batch, tokens.punctuation_words) == [", . ,", ".", "."]
    assert pieces_at(model, batch, tokens.punctuation_all) == [", . . . .", "", "."]
    assert tokens.annotated.tolist() == [True, False, True]
    assert tokens.valid.sum(1).tolist() == [16, 5, 3]
    assert tokens.first[:, 0].all()
    assert tokens.first.sum() == 3
    assert not tokens.causal


def test_the_word_sep_is_no_separator_and_neither_is_it_special():
    model = encoder_of(wordpiece(["the", "cat", ".", ","], letters=True))
    batch, tokens = described(model)
    named = batch.input_ids[0] == model.separator_id
    assert tokens.separator[0].sum() == 1
    assert tokens.separator[0].tolist() == (named & batch.special[0]).tolist()


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta", "camembert", "albert"])
def test_special_tokens_of_every_vocabulary(kind):
    model = encoder(kind)
    batch, tokens = described(model, SENTENCES[1:])
    names = {"albert": ("[CLS]", "[SEP]")}.get(kind, ("<s>", "</s>"))
    assert pieces_at(model, batch, tokens.cls) == [names[0]] * 2
    assert pieces_at(model, batch, tokens.separator) == [names[1]] * 2
    assert pieces_at(model, batch, tokens.special) == [" ".join(names)] * 2
    stops = pieces_at(model, batch, tokens.punctuation)
    assert [text.strip("Ġ▁ ") for text in stops] == [".", "."]
    words = pieces_at(model, batch, tokens.punctuation_words)
    assert [text.strip("Ġ▁ ") for text in words] == [".", "."]


def test_measures_that_cannot_exist_have_no_rows():
    model = encoder("gpt2")
    model.causal = True  # as calibration finds
    batch, tokens = described(model, SENTENCES[1:])
    missing = {
        name for name, measure in MEASURES.items() if not bool(measure.n_rows(tokens)[0].any())
    }
    assert missing == {
        "next", "cls", "separator", "special", "punctuation_all", "entropy_from_cls",
    }  # fmt: skip
    assert MEASURES["punctuation_all"].n_rows(tokens).tolist() == [0, int(batch.n_tokens[1])]
    for name in missing:
        assert MEASURES[name].why_none != MEASURES["self"].why_none


def test_each_measure_says_in_one_way_what_is_summed():
    for measure in MEASURES.values():
        ways = (measure.keys, measure.offset, measure.by_offset, measure.entropy_rows)
        assert sum(way is not None for way in ways) == 1
