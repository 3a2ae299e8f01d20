"""SMART's adversary stays within its radius; its teacher follows with momentum."""

import pytest
import torch
from torch import nn

from headscope.finetune.losses import answers
from headscope.finetune.methods.smart import Adversary, Teacher, worst_neighbour
from tests.finetune.test_terms import MASK, step_of


def found(**settings):
    step = step_of()
    clean = answers(step.kind, step.output, step.inputs)
    adversary = Adversary(**settings)
    return worst_neighbour(step.model, step.again, step.inputs, clean, step.kind, adversary)


@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_e7_the_radius_is_kept_and_padding_left_alone(n_steps):
    delta = found(radius=0.01, start=1.0, step=0.5, n_steps=n_steps)
    assert delta.abs().max() <= 0.01
    assert not delta[~MASK.bool()].any()
    assert delta[MASK.bool()].any()


def test_e7_as_the_published_code_does():
    delta = found(mtdnn_compat=True, step=1e-5)
    sizes = delta.abs().amax(2)
    real = sizes[MASK.bool()]
    assert ((real > 0.9) & (real <= 1)).all()
    assert not sizes[~MASK.bool()].any()


def test_e12_the_teacher_follows():
    start, target = nn.Linear(1, 1), nn.Linear(1, 1)
    with torch.no_grad():
        for weight in start.parameters():
            weight.zero_()
        for weight in target.parameters():
            weight.fill_(1.0)
    teacher = Teacher(start)
    teacher.follow(target, 0.05)
    assert teacher.model.weight.item() == pytest.approx(0.01)
    teacher.follow(target, 0.5)
    assert teacher.model.weight.item() == pytest.approx(0.01 + 0.001 * 0.99)
    assert not any(weight.requires_grad for weight in teacher.model.parameters())
    assert start.weight.item() == 0
