"""Weights near their start: numbers of METHODS.md section E, and plain loops."""

import copy

import pytest
import torch
from torch import nn

from headscope.finetune.methods.weights import (
    Cap,
    Children,
    bound_spectrum,
    l2_sp,
    mix_out,
    mixed,
    release,
)  # fmt: skip


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x).tanh())


def net():
    torch.manual_seed(0)
    return Net()


def test_e10_mixout():
    weight, start = torch.tensor([1.0, 2, 3]), torch.tensor([0.0, 0, 1])
    found = mixed(weight, start, torch.tensor([True, False, True]), 0.5)
    assert found.tolist() == [2.0, 0.0, 5.0]
    masks = torch.rand(100_000, 3) >= 0.5
    assert torch.allclose(mixed(weight, start, masks, 0.5).mean(0), weight, atol=0.05)


def test_mixout_mixes_in_training_only_and_leaves_plain_weights_behind():
    model, x = net(), torch.ones(1, 3)
    plain = model(x)
    mix_out(model, 0.5)
    with torch.no_grad():
        model.body.parametrizations.weight.original.add_(1)
    assert not torch.equal(model.train()(x), model(x))
    moved = model.eval()(x)
    assert not torch.equal(moved, plain)
    release(model)
    assert torch.equal(model(x), moved)
    assert set(model.state_dict()) == set(net().state_dict())
    assert all(isinstance(weight, nn.Parameter) for weight in model.parameters())


def test_mixout_without_a_share_is_the_weight():
    model = net()
    mix_out(model, 0.0)
    assert torch.equal(model.train()(torch.ones(1, 3)), net()(torch.ones(1, 3)))


def test_e10_l2_sp():
    layer = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2, 3]]))
    start = {"weight": torch.tensor([[0.0, 0, 1]])}
    assert l2_sp(layer, start, 0.1, 9).item() == pytest.approx(0.45)
    assert l2_sp(layer, {"weight": layer.weight.detach()}, 0.1, 9).item() == 0
    assert l2_sp(layer, {}, 9, 0.1).item() == pytest.approx(0.05 * 14)


def test_l2_sp_leaves_frozen_weights_out():
    model = net()
    model.body.requires_grad_(False)
    start = {f"body.{name}": value + 1 for name, value in model.body.state_dict().items()}
    found = l2_sp(model, start, 1, 2)
    assert found.item() == pytest.approx(
        sum(w.square().sum().item() for w in model.head.parameters())
    )


def sigma(layer):
    return torch.linalg.matrix_norm(layer.weight, 2).item()


def test_e8_the_spectrum_is_bounded():
    torch.manual_seed(0)
    head = nn.Linear(32, 3)
    with torch.no_grad():
        head.weight.mul_(0.01)
    bound_spectrum([head])
    for _ in range(10):
        head.train()(torch.randn(4, 32))
    assert abs(sigma(head.eval()) - 1) < 1e-3
    first, second = torch.randn(2, 50, 32)
    apart = (head(first) - head(second)).norm(dim=1)
    assert (apart <= 1.001 * (first - second).norm(dim=1)).all()


@pytest.mark.parametrize(("size", "expected"), [(0.5, 0.5), (3.0, 1.0)])
def test_e8_a_cap_leaves_small_weights(size, expected):
    head = nn.Linear(5, 3)
    with torch.no_grad():
        head.weight.mul_(size / sigma(head))
    bound_spectrum([head], "cap")
    assert sigma(head) == pytest.approx(expected, abs=1e-5)


def test_c094_released_heads_answer_as_before():
    torch.manual_seed(0)
    model = net()
    bound_spectrum([model.head])
    before = model.eval()(torch.ones(2, 3))
    release(model)
    assert torch.allclose(model(torch.ones(2, 3)), before, atol=1e-6)
    assert set(model.state_dict()) == set(net().state_dict())


def gradients(model):
    model(torch.ones(2, 3)).square().sum().backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def test_children_f_keep_the_mean_gradient():
    model = net()
    whole = gradients(model)["body.weight"]
    total = torch.zeros_like(whole)
    torch.manual_seed(0)
    children = Children(0.25)
    for _ in range(4000):
        model.body.weight.grad = whole.clone()
        children.mask([model.body.weight])
        found = model.body.weight.grad
        assert ((found == 0) | torch.isclose(found, whole / 0.25)).all()
        total += found
    assert torch.allclose(total / 4000, whole, rtol=0.15, atol=1e-3)


def test_children_d_are_the_numbers_with_the_largest_fisher_information():
    model, numbers = net(), torch.arange(12.0).view(4, 3)
    fisher = {model.body.weight: numbers, model.body.bias: torch.full((4,), 8.5)}
    whole = gradients(model)
    Children(0.25, fisher).mask(model.parameters())
    # Of 16 numbers the 4 largest: 11, 10, 9 of the weight, and 8.5, which four biases share.
    kept = (numbers >= 8.5).float()
    assert torch.equal(model.body.weight.grad, whole["body.weight"] * kept)
    assert torch.equal(model.body.bias.grad, whole["body.bias"])
    # Weights without information are trained as ever.
    assert torch.equal(model.head.weight.grad, whole["head.weight"])


def test_a_cap_has_gradients():
    layer = nn.Linear(3, 2)
    nn.utils.parametrize.register_parametrization(layer, "weight", Cap())
    copy.deepcopy(layer)(torch.ones(1, 3)).sum().backward()
