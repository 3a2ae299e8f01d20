"""SMART: smoothness against an adversary near the input, and small steps of the whole function.

Jiang et al. 2020, "SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models
through Principled Regularized Optimization" (arXiv:1911.03437). The published code (mt-dnn) never
projects: what it adds is about 1 in every token, not 1e-5. `mtdnn_compat` does as that code does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.finetune.losses import Kind, answers, divergence
from headscope.finetune.noise import added_to_embeddings, ascended, drawn, projected, width_of

Forward = Callable[[], Mapping[str, Any]]
"""One call of the model on the batch at hand."""


@dataclass(frozen=True)
class Adversary:
    """How the worst neighbour of an input is looked for.

    Attributes:
        radius: largest number in the perturbation.
        start: standard deviation of the noise that it begins with.
        step: how far one step goes, in the largest number.
        n_steps: steps along the gradient; with 0 it is the noise alone.
        mtdnn_compat: step and normalise as the published code does, without a radius.
    """

    radius: float = 1e-5
    start: float = 1e-5
    step: float = 1e-3
    n_steps: int = 1
    mtdnn_compat: bool = False


def worst_neighbour(
    model: nn.Module,
    forward: Forward,
    batch: Mapping[str, Tensor],
    clean: list[Tensor],
    kind: Kind,
    adversary: Adversary,
) -> Tensor:
    """Perturbation [B, T, d] that takes the answers furthest from those of the clean input.

    No gradient of a parameter is made or changed.

    Args:
        model: to be perturbed.
        forward: one call of it.
        batch: with `attention_mask` [B, T], and `labels` where tokens are labelled.
        clean: answers to the input as it is.
        kind: what the head answers.
        adversary: how far, how often.
    """
    mask = batch["attention_mask"]
    target = [one.detach() for one in clean]
    delta = drawn("normal", mask, width_of(model), adversary.start)
    if not adversary.mtdnn_compat:
        delta = projected(delta, adversary.radius, "linf")
    for _ in range(adversary.n_steps):
        delta.requires_grad_(True)
        with added_to_embeddings(model, delta):
            found = answers(kind, forward(), batch)
        apart = divergence(kind, target, found, one_sided=adversary.mtdnn_compat)
        (gradient,) = torch.autograd.grad(apart, delta)
        delta = _stepped(delta.detach(), gradient, adversary) * mask.unsqueeze(2)
    return delta


def _stepped(delta: Tensor, gradient: Tensor, adversary: Adversary) -> Tensor:
    if not adversary.mtdnn_compat:
        further = ascended(delta, gradient, adversary.step, "linf")
        return projected(further, adversary.radius, "linf")
    moved = delta + adversary.step * gradient
    return moved / (moved.abs().amax(2, keepdim=True) + 1e-6)


class Teacher:
    """The momentum average of a model's parameters, whose answers a step may not leave far.

    Args:
        model: at the start of training.
        early, late: momentum in the first tenth of the updates, and after.
    """

    def __init__(self, model: nn.Module, early: float = 0.99, late: float = 0.999) -> None:
        """Begins as a copy of the model."""
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.early, self.late = early, late

    def follow(self, model: nn.Module, progress: float) -> None:
        """Moves towards the model after an update; progress: share of the updates that are done."""
        momentum = self.early if progress <= 0.1 else self.late
        with torch.no_grad():
            for own, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
                own.lerp_(theirs, 1 - momentum)

    def answers(
        self, kind: Kind, given: Mapping[str, Any], batch: Mapping[str, Tensor]
    ) -> list[Tensor]:
        """Its answers to the model's input, without gradient or dropout."""
        with torch.no_grad():
            return answers(kind, self.model(**given), batch)
