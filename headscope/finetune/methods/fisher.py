"""Fisher information of weights, by which child-tuning chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def fisher(
    model: nn.Module, part: nn.Module, batches: Iterable[Mapping[str, Any]]
) -> dict[nn.Parameter, Tensor]:
    """Mean over batches of the squared gradient of each number of a part of the model.

    Gradients are those of the mean loss of a batch, in eval mode, as in the code of child-tuning
    (arXiv:2109.05687); the model is left without gradients and in the mode that it had.
    """
    weights = [weight for weight in part.parameters() if weight.requires_grad]
    totals = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
    training, n_batches = model.training, 0
    model.eval()
    for batch in batches:
        loss = model(**batch)["loss"]
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        for total, gradient in zip(totals, gradients, strict=True):
            if gradient is not None:
                total += gradient.float().square()
        n_batches += 1
    model.train(training)
    return {w: total / max(1, n_batches) for w, total in zip(weights, totals, strict=True)}
