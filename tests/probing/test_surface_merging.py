"""Surface sums of the same maps in any batches, blocks and halves; other runs do not add up."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headscope.errors import MergeError
from headscope.extraction.loading import untrained
from headscope.extraction.measures import MEASURES
from headscope.extraction.observers import Block, Resampling
from headscope.probing.surface import Surface
from tests import models

RESAMPLING = Resampling(0, "ef" * 32)


@pytest.fixture(scope="module")
def tiny():
    return models.encoder("bert")


def batches_of(model, group, probs):
    """[(batch, maps of its layers)] of the same maps: all at once, one by one, or as grouped."""
    whole = models.batch_of(model, (9, 5, 7, 4, 6))
    if group == "together":
        return [(whole, probs)]
    parts = []
    for row in range(len(whole)):
        n = int(whole.n_tokens[row])
        parts.append((models.sentence_of(whole, row), probs[:, row : row + 1, :, :n, :n]))
    return parts


def fed(model, parts, *, block=None):
    """A Surface that was handed these maps."""
    observer = Surface(model, RESAMPLING)
    for batch, maps in parts:
        for layer, probs in enumerate(maps):
            n_rows = probs.shape[2]
            for start in range(0, n_rows, block or n_rows):
                stop = min(start + (block or n_rows), n_rows)
                observer.update(Block(layer, start, probs[:, :, start:stop], batch, batch))
        observer.close(batch)
    return observer


@pytest.fixture(scope="module")
def maps(tiny):
    """[L, B, H, T, T] random maps in which padding gets nothing and its rows hold anything."""
    valid = models.batch_of(tiny, (9, 5, 7, 4, 6)).valid
    scores = torch.randn(3, 5, 4, 9, 9, generator=torch.Generator().manual_seed(0)) * 2
    return scores.masked_fill(~valid[None, :, None, None, :], -torch.inf).softmax(4)


def assert_equal_sums(found, expected):
    np.testing.assert_allclose(found.sums, expected.sums, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.uniform, expected.uniform, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.undefined, expected.undefined)
    assert found.units == expected.units


def test_the_same_maps_in_any_batches_blocks_and_halves_give_the_same_sums(tiny, maps):
    together = fed(tiny, batches_of(tiny, "together", maps))
    one_by_one = batches_of(tiny, "alone", maps)
    assert_equal_sums(fed(tiny, one_by_one), together)
    assert_equal_sums(fed(tiny, one_by_one[::-1]), together)
    for block in (1, 2, 4, 8):
        blocks = fed(tiny, batches_of(tiny, "together", maps), block=block)
        assert_equal_sums(blocks, together)
    for cut in range(6):
        halves = fed(tiny, one_by_one[:cut]), fed(tiny, one_by_one[cut:])
        assert_equal_sums(halves[0] + halves[1], together)
        assert_equal_sums(halves[1] + halves[0], together)
    empty = Surface(tiny, RESAMPLING)
    assert_equal_sums(together + empty, together)


def with_texts(parts):
    """The same sentences as pairs: of each, its tokens from the fourth on are the second text."""
    for batch, _ in parts:
        second = torch.arange(batch.input_ids.shape[1]).expand_as(batch.input_ids) > 2
        batch.__dict__["segment_of"] = second.long().masked_fill(batch.word_of < 0, -1)
    return parts


def test_ways_of_texts_are_there_once_a_pair_was_seen(tiny, maps):
    single = batches_of(tiny, "alone", maps)
    pairs = with_texts(batches_of(tiny, "alone", maps))
    mixed = single[:2] + pairs[2:4] + single[4:]
    assert fed(tiny, single).sums.shape[3] == 2
    whole = fed(tiny, mixed)
    assert whole.sums.shape == (211, 3, 4, 4, len(MEASURES))
    assert list(whole.variants()) == ["without_first", "first_text", "second_text"]
    for cut in range(6):
        first, second = fed(tiny, mixed[:cut]), fed(tiny, mixed[cut:])
        assert_equal_sums(first + second, whole)
        assert_equal_sums(second + first, whole)
    assert_equal_sums(fed(tiny, mixed[::-1]), whole)
    # The one of 7 tokens has two of the first text and three of the second; that of 4 has none of
    # the second and is no pair.
    found = whole.variants()
    assert found["first_text"]["entropy"].n == 2
    assert found["second_text"]["entropy"].n == 3
    assert whole.result()["other_text"].n == 5
    assert found["second_text"]["first"].values[1, 2] == pytest.approx(
        float(maps[1, 2, 2, 3:6, 0].double().mean())
    )
    told = found["second_text"]["entropy_from_first"].why_null
    assert told == "the second text of no pair has such a row"


def test_many_heads_take_less_than_100_megabytes(tiny):
    info = replace(tiny.info, n_layers=32, n_heads=32)
    observer = Surface(replace(tiny, info=info), RESAMPLING)
    arrays = [item for item in vars(observer).values() if isinstance(item, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 100e6


def test_adding_leaves_both_parts_as_they_were(tiny, maps):
    first, second = (fed(tiny, part) for part in (batches_of(tiny, "alone", maps)[:2], []))
    kept = [first.sums.copy(), second.sums.copy()]
    both = first + second
    both.sums += 1
    both.counts += 1
    np.testing.assert_array_equal(first.sums, kept[0])
    np.testing.assert_array_equal(second.sums, kept[1])
    assert second.counts.sum() == 0


def test_result_can_be_asked_for_at_any_time(tiny, maps):
    parts = batches_of(tiny, "alone", maps)
    asked, plain_one = Surface(tiny, RESAMPLING), fed(tiny, parts)
    assert all(item.n == 0 and item.why_null for item in asked.result().values())
    for batch, layers in parts:
        for layer, probs in enumerate(layers):
            asked.update(Block(layer, 0, probs, batch, batch))
            asked.result()
        before = {name: item.n for name, item in asked.result().items()}
        asked.close(batch)
        assert before["entropy"] < asked.result()["entropy"].n
    np.testing.assert_array_equal(asked.sums, plain_one.sums)
    np.testing.assert_array_equal(asked.counts, plain_one.counts)


def test_a_batch_that_was_not_closed_is_in_no_sums(tiny, maps):
    (first, layers), second, *_ = batches_of(tiny, "alone", maps)
    observer = Surface(tiny, RESAMPLING)
    observer.update(Block(0, 0, layers[0], first, first))
    for layer, probs in enumerate(second[1]):
        observer.update(Block(layer, 0, probs, second[0], second[0]))
    observer.close(second[0])
    observer.close(first)  # of which nothing is held any more
    assert_equal_sums(observer, fed(tiny, [second]))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (Resampling(1, "ef" * 32), "different runs: seed 0 and 1$"),
        (Resampling(0, "e" * 64), "different runs: corpus efefefefefef and eeeeeeeeeeee$"),
    ],
)
def test_another_seed_or_corpus_does_not_merge(tiny, other, told):
    with pytest.raises(MergeError, match=told):
        Surface(tiny, RESAMPLING) + Surface(tiny, other)


def test_another_model_does_not_merge(tiny, encoder):
    with pytest.raises(MergeError, match="heads 3 x 4 and 6 x 12"):
        Surface(tiny, RESAMPLING) + Surface(encoder, RESAMPLING)
    with pytest.raises(MergeError, match="sums of different runs: weights [0-9a-f]{12} in float32"):
        Surface(encoder, RESAMPLING) + Surface(untrained(encoder, 0), RESAMPLING)
