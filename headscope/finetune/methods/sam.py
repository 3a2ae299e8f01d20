"""SAM: the gradient where the loss is worst near the weights.

Foret et al. 2021, "Sharpness-Aware Minimization" (arXiv:2010.01412), equation 2.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Moves = list[tuple[nn.Parameter, Tensor]]
"""What was added to which parameter."""


def climb(parameters: Iterable[nn.Parameter], rho: float) -> Moves:
    """Moves the parameters by rho along their gradient's direction; says by how much each.

    A gradient that is 0 or not finite moves nothing: a loss scaler leaves such a step out anyway.
    """
    having = [weight for weight in parameters if weight.grad is not None]
    if not having:
        return []
    norm = torch.stack([w.grad.float().norm() for w in having if w.grad is not None]).norm()
    if not torch.isfinite(norm) or norm == 0:
        return []
    moves = []
    with torch.no_grad():
        for weight in having:
            assert weight.grad is not None
            move = (weight.grad.float() * (rho / norm)).to(weight.dtype)
            weight.add_(move)
            moves.append((weight, move))
    return moves


def descend(moves: Moves) -> None:
    """Takes back what `climb` added."""
    with torch.no_grad():
        for weight, move in moves:
            weight.sub_(move)
