"""The same dropout mask again, or none."""

import torch
from torch import nn

from headscope.finetune.methods.dropout import RandomState, no_dropout


def test_masks_are_drawn_again():
    drop, ones = nn.Dropout(0.5), torch.ones(100)
    state = RandomState.now()
    first = drop(ones)
    assert not torch.equal(drop(ones), first)
    state.restore()
    assert torch.equal(drop(ones), first)


def test_every_part_gets_its_mode_back():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    model[1].eval()
    with no_dropout(model):
        assert torch.equal(model(torch.ones(50)), torch.ones(50))
    assert [module.training for module in model] == [True, False]
