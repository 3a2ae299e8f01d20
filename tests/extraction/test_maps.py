"""Maps of a batch, cut into those of single sentences."""

from types import SimpleNamespace

import pytest
import torch

from headscope.errors import HeadscopeError
from headscope.extraction.batches import collate
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.words import Aligner
from tests.extraction.toys import sentence, wordpiece

LETTERS = wordpiece(["the", "cat", "."], letters=True)


@pytest.fixture
def batch():
    """[CLS] d ##o ##g . [SEP]; [CLS] the cat [SEP]."""
    given = [sentence("dog ."), sentence("the cat", ordinal=1)]
    pieces = Aligner(LETTERS).align([one.words for one in given])
    encoder = SimpleNamespace(pad_id=0, device="cpu", info=SimpleNamespace(attention="encoder"))
    return collate(encoder, list(zip(given, pieces, strict=True)))


def test_padding_is_left_out(batch):
    probs = torch.rand(2, 3, 6, 6)
    first, second = SentenceMaps(3).cut(probs, batch)
    assert first.equal(probs[0])
    assert second.equal(probs[1, :, :4, :4])


def test_words_by_hand(batch):
    probs = torch.zeros(2, 1, 6, 6)
    probs[0, 0, 1:4, 1:4] = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.3, 0.3, 0.3]])
    probs[0, 0, 1:4, 4] = torch.tensor([0.4, 0.1, 0.1])
    mean, _ = SentenceMaps(1, "word").cut(probs, batch)
    assert mean[0, 0].tolist() == pytest.approx([(0.6 + 0.3 + 0.9) / 3, 0.2])
    first, second = SentenceMaps(1, "word", "first").cut(probs, batch)
    assert first[0, 0].tolist() == pytest.approx([0.6, 0.4])
    assert second.shape == (1, 2, 2)


def test_sides_count_tokens_or_words(batch):
    assert SentenceMaps(1).sides(batch) == [6, 4]
    assert SentenceMaps(1, "word").sides(batch) == [2, 2]


def test_unknown_names_are_refused():
    with pytest.raises(HeadscopeError, match="unknown level 'token'"):
        SentenceMaps(1, "token")
    with pytest.raises(HeadscopeError, match="unknown rows 'sum'"):
        SentenceMaps(1, "word", "sum")
