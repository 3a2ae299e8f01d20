"""Marks on tokens: special ones by id, stops by text, words by their own, segments and texts."""

from dataclasses import replace

import pytest
import torch
from jaxtyping import TypeCheckError

from headscope.datasets import Sentence
from headscope.extraction.batches import batches
from headscope.extraction.tokens import describe_tokens
from tests.drawn import marks, where
from tests.extraction.toys import encoder_of, wordpiece
from tests.models import encoder


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
    found = {name: pieces_at(model, batch, mask) for name, mask in tokens.sets.items()}
    assert found["cls"] == ["[CLS]"] * 3
    assert found["separator"] == ["[SEP]"] * 3
    assert found["special"] == ["[CLS] [SEP]"] * 3
    assert found["punctuation"] == [", . . . . . . ,", ".", "."]
    assert found["punctuation_words"] == [", . ,", ".", "."]
    assert found["punctuation_all"] == [", . . . .", "", "."]
    assert tokens.annotated.tolist() == [[True], [False], [True]]
    assert tokens.valid.sum(1).tolist() == [16, 5, 3]
    assert torch.equal(tokens.sets["all"], tokens.valid)
    assert tokens.first[:, 0].all()
    assert tokens.first.sum() == 3


def test_the_word_sep_is_no_separator_and_neither_is_it_special():
    model = encoder_of(wordpiece(["the", "cat", ".", ","], letters=True))
    batch, tokens = described(model)
    named = batch.input_ids[0] == model.separator_id
    assert tokens.sets["separator"][0].sum() == 1
    assert torch.equal(tokens.sets["separator"][0], named & batch.special[0])


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta", "camembert", "albert"])
def test_special_tokens_of_every_vocabulary(kind):
    model = encoder(kind)
    batch, tokens = described(model, SENTENCES[1:])
    names = {"albert": ("[CLS]", "[SEP]")}.get(kind, ("<s>", "</s>"))
    assert pieces_at(model, batch, tokens.sets["cls"]) == [names[0]] * 2
    assert pieces_at(model, batch, tokens.sets["separator"]) == [names[1]] * 2
    assert pieces_at(model, batch, tokens.sets["special"]) == [" ".join(names)] * 2
    for name in ("punctuation", "punctuation_words"):
        stops = pieces_at(model, batch, tokens.sets[name])
        assert [text.strip("Ġ▁ ") for text in stops] == [".", "."]


def test_single_sentences_have_one_segment_and_no_second_text():
    model = encoder_of(wordpiece(["the", "cat", ".", ","], letters=True))
    _, tokens = described(model)
    assert torch.equal(tokens.sets["segment 0"], tokens.valid)
    assert not tokens.has_segments.any()
    assert not tokens.has_texts.any()


def test_segments_and_texts_are_told_apart_and_padding_has_none():
    model = encoder_of(wordpiece(["the", "cat", ".", ","], letters=True))
    (batch,) = batches(model, SENTENCES[1:])
    # [CLS] the cat . [SEP] and [CLS] . [SEP], two tokens of padding.
    types = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]])
    batch = replace(batch, type_ids=types)
    batch.__dict__["segment_of"] = torch.tensor([[-1, 0, 0, 1, -1], [-1, 0, -1, -1, -1]])
    tokens = describe_tokens(batch, model)
    sets = {name: mask.int().tolist() for name, mask in tokens.sets.items() if " " in name}
    assert sets == {
        "segment 0": [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0]],
        "segment 1": [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]],
        "text 0": [[0, 1, 1, 0, 0], [0, 1, 0, 0, 0]],
        "text 1": [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]],
    }
    assert tokens.has_segments.tolist() == tokens.has_texts.tolist() == [[True], [False]]


def test_columns_hold_the_sets_without_the_first_token_and_no_empty_one():
    places, columns = marks(3, cls={0}, separator={2}, special={0, 2}).columns
    held = {name: columns[0, :, place].tolist() for name, place in places.items()}
    assert held == {
        "all": [0, 1, 1],
        "separator": [0, 0, 1],
        "special": [0, 0, 1],
    }
    assert columns.dtype == torch.float64
    pair = marks(3, segment=[0, 1, 1], text=[-1, 0, 1])
    assert list(pair.columns[0]) == ["all", "text 0", "segment 1", "text 1"]


def test_marks_on_some_places_and_whether_there_are_any():
    tokens = marks(4, cls={0}, separator={0, 3}).rows(1, 3)
    assert tokens.valid.shape == tokens.sets["cls"].shape == (1, 2)
    assert not tokens.first.any()
    whole = marks(4, cls={0}, separator={0, 3})
    assert [whole.any_of("cls").item(), whole.any_of("cls", skip=1).item()] == [True, False]
    assert whole.any_of("separator", skip=1).item()


def test_shapes_are_checked_in_tests():
    with pytest.raises(TypeCheckError, match="first"):
        replace(marks(3), first=where([True] * 4))
