"""SAM on a function whose gradients are known."""

import pytest
import torch
from torch import nn

from headscope.finetune.methods.sam import climb, descend


def loss(weight):
    return 0.5 * (weight.square() * torch.tensor([1.0, 4.0])).sum()


@pytest.mark.parametrize(
    ("rho", "move", "gradient"),
    [(0.05, [0.012127, 0.048507], [1.012127, 4.194029]), (0.0, [0, 0], [1, 4])],
)
def test_e11_the_gradient_uphill(rho, move, gradient):
    weight = nn.Parameter(torch.ones(2))
    loss(weight).backward()
    moves = climb([weight], rho)
    assert (weight - 1).tolist() == pytest.approx(move, abs=1e-5)
    weight.grad = None
    loss(weight).backward()
    assert weight.grad.tolist() == pytest.approx(gradient, abs=1e-5)
    descend(moves)
    assert weight.tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize("gradient", [None, torch.zeros(2), torch.tensor([torch.inf, 1])])
def test_without_a_direction_nothing_moves(gradient):
    weight = nn.Parameter(torch.ones(2))
    weight.grad = gradient
    assert climb([weight], 0.05) == []
    assert weight.tolist() == [1, 1]
