"""Masks made row by row are those that the library makes as a whole."""

import pytest
import torch
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    eager_mask,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from headscope.extraction import masks
from headscope.extraction.masks import band, mask_of, row_masks

PADDED = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
RULES = {
    "causal": causal_mask_function,
    "full": bidirectional_mask_function,
    "window": sliding_window_causal_mask_function(3),
    "local": sliding_window_bidirectional_mask_function(2),
    "chunks": chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.long)),
}


def library(rule, padding):
    whole = eager_mask(2, 7, 7, mask_function=rule, attention_mask=padding)
    return (whole == 0).expand(2, 1, 7, 7)


@pytest.mark.parametrize("padding", [None, PADDED], ids=["unpadded", "padded"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rows_are_those_of_the_library(rule, padding):
    mask = row_masks(2, 7, 7, mask_function=rule, attention_mask=padding)
    whole = library(rule, padding)
    for start, stop in ((0, 7), (0, 1), (2, 5), (6, 7)):
        found = mask.visible(start, stop).expand(2, 1, stop - start, 7)
        assert torch.equal(found, whole[:, :, start:stop])
        # Asked again, they are the same object, and no sum of what was asked before.
        assert mask.visible(start, stop) is mask.visible(start, stop)


def test_rules_that_are_no_functions_of_places_are_made_as_a_whole():
    mask = row_masks(2, 7, 7, mask_function=causal_mask_function, use_vmap=True)
    assert torch.equal(
        mask.visible(2, 4).expand(2, 1, 2, 7), library(causal_mask_function, None)[:, :, 2:4]
    )


def test_there_is_none_where_all_is_visible_and_a_window_hides_something():
    rule = bidirectional_mask_function
    allowed = {"mask_function": rule, "allow_is_bidirectional_skip": True}
    assert row_masks(2, 7, 7, **allowed) is None
    assert row_masks(2, 7, 7, attention_mask=torch.ones(2, 7, dtype=torch.bool), **allowed) is None
    assert row_masks(2, 7, 7, attention_mask=PADDED, **allowed) is not None
    assert row_masks(2, 7, 7, local_size=9, **allowed) is None
    assert row_masks(2, 7, 7, local_size=7, **allowed) is not None


def test_a_shorter_padding_mask_hides_what_it_does_not_reach():
    mask = row_masks(
        2, 7, 7, mask_function=bidirectional_mask_function, attention_mask=PADDED[:, :5]
    )
    assert mask.visible(0, 1).squeeze().tolist() == [
        [True] * 5 + [False] * 2,
        [True] * 4 + [False] * 3,
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tensors_are_masks_too(dtype):
    visible = torch.tensor([[True, False, True], [True, True, False]]).view(1, 1, 2, 3)
    added = torch.zeros(1, 1, 2, 3, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
    for given in (visible, added):
        assert torch.equal(mask_of(given).visible(1, 2), visible[:, :, 1:])
        one_row = mask_of(given[:, :, :1])
        assert torch.equal(one_row.visible(3, 5), visible[:, :, :1].expand(1, 1, 2, 3))


def test_hidden_keys_get_the_lowest_score_in_place():
    mask = mask_of(torch.tensor([[True, False, True]]).view(1, 1, 1, 3))
    scores = torch.arange(6.0).view(1, 2, 1, 3)
    low = torch.finfo(torch.float32).min
    assert mask.add_to(scores, 0, 1, 0) is scores
    assert scores.flatten().tolist() == [0.0, low, 2.0, 3.0, low, 5.0]
    part = torch.ones(1, 1, 1, 2)
    assert mask.add_to(part, 4, 5, 1).flatten().tolist() == [low, 1.0]


def test_the_stretch_of_keys_that_a_block_has_to_do_with(monkeypatch):
    mask = row_masks(2, 7, 7, mask_function=RULES["window"])
    span = mask.span(3, 5)  # rows 3 and 4 see keys 1 to 3 and 2 to 4
    assert (span.first, span.last, span.mixed) == (1, 5, slice(1, 5))
    assert span.unseen[0, 0].int().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    causal = row_masks(2, 7, 7, mask_function=causal_mask_function)
    assert (causal.span(3, 5).first, causal.span(3, 5).last) == (0, 5)
    assert causal.span(3, 5).mixed == slice(4, 5)
    assert causal.span(6, 7).mixed == slice(0, 0)  # the last row sees all
    assert causal.span(3, 5) is causal.span(3, 5)
    expected = causal.add_to(torch.zeros(1, 2, 2, 5), 3, 5, 0)
    monkeypatch.setattr(masks, "_KEPT", 0)
    again = row_masks(2, 7, 7, mask_function=causal_mask_function)
    assert again.span(3, 5).unseen is None
    assert torch.equal(again.add_to(torch.zeros(1, 2, 2, 5), 3, 5, 0), expected)
    assert (expected < 0).int()[0, 1].tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]


def test_rows_that_see_nothing_keep_all_keys():
    nowhere = mask_of(torch.zeros(1, 1, 2, 3, dtype=torch.bool))
    assert (nowhere.span(0, 2).first, nowhere.span(0, 2).last) == (0, 3)
    assert nowhere.span(0, 2).mixed == slice(0, 3)


def test_bands_by_hand():
    valid = torch.tensor([[True, True, True, True, False]])
    seen = band(True, 1, valid).visible(0, 4).int()[0, 0].tolist()
    assert seen == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0]]
    seen = band(False, 1, valid).visible(2, 4).int()[0, 0].tolist()
    assert seen == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 0]]
    assert band(False, None, valid).visible(1, 2).int()[0, 0].tolist() == [[1, 1, 1, 1, 0]]
