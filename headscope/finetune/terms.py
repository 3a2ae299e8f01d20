"""What methods add to the loss of a step, from the outputs of a model on one batch."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headscope.finetune.losses import Kind, answers, divergence
from headscope.finetune.methods.dropout import RandomState, no_dropout
from headscope.finetune.methods.smart import Adversary, Teacher, worst_neighbour
from headscope.finetune.noise import added_to_embeddings, drawn, width_of
from headscope.finetune.settings import R3F, RDrop, Smart


@dataclass(frozen=True)
class Step:
    """One batch in training.

    Attributes:
        model: without the wrappers of many devices.
        inputs: of the model, labels included.
        kind: what its head answers.
        state: of the generators before the clean pass.
        output: of the clean pass.
    """

    model: nn.Module
    inputs: Mapping[str, Any]
    kind: Kind
    state: RandomState
    output: Mapping[str, Any]

    def again(self) -> Mapping[str, Any]:
        """Another pass over the same batch."""
        found: Mapping[str, Any] = self.model(**self.inputs)
        return found

    def answers(self, output: Mapping[str, Any]) -> list[Tensor]:
        """Answers that count."""
        return answers(self.kind, output, self.inputs)


def r3f(step: Step, settings: R3F) -> Tensor:
    """Divergence of the answers to noised words from those to the words (arXiv:2008.03156, eq. 5).

    The noise is of float32, and 0 at padding.
    """
    noise = drawn(settings.noise, step.inputs["attention_mask"], width_of(step.model), settings.eps)
    if settings.share_dropout:
        step.state.restore()
    quiet = no_dropout(step.model) if settings.eval_noise_pass else contextlib.nullcontext()
    with quiet, added_to_embeddings(step.model, noise, detach=settings.detach):
        noised = step.again()
    return divergence(step.kind, step.answers(step.output), step.answers(noised))


def r_drop(step: Step, settings: RDrop) -> tuple[Tensor, Tensor]:
    """Mean task loss of two passes, and half their divergence (arXiv:2106.14448, eq. 4)."""
    second = step.again()
    apart = divergence(step.kind, step.answers(step.output), step.answers(second))
    return (step.output["loss"] + second["loss"]) / 2, apart / 2


def smart(step: Step, settings: Smart) -> Tensor:
    """Divergence of the answers to the worst neighbour (arXiv:1911.03437, eq. 2)."""
    adversary = Adversary(
        radius=settings.radius,
        start=settings.start,
        step=settings.step,
        n_steps=settings.n_steps,
        mtdnn_compat=settings.mtdnn_compat,
    )
    clean = step.answers(step.output)
    delta = worst_neighbour(step.model, step.again, step.inputs, clean, step.kind, adversary)
    with added_to_embeddings(step.model, delta):
        far = step.again()
    return divergence(step.kind, clean, step.answers(far))


def bregman(step: Step, teacher: Teacher) -> Tensor:
    """Divergence from the answers of the momentum teacher (arXiv:1911.03437, eq. 5)."""
    theirs = teacher.answers(step.kind, step.inputs, step.inputs)
    return divergence(step.kind, step.answers(step.output), theirs)


def repina(vectors: Tensor, start: Tensor) -> Tensor:
    """Mean over sentences of the squared distance of two vectors [B, d] (arXiv:2205.11603)."""
    apart: Tensor = (vectors.float() - start.float()).square().sum(1).mean()
    return apart


def no_term(model: nn.Module) -> Tensor:
    """A regulariser of 0."""
    return torch.zeros((), device=next(model.parameters()).device)
