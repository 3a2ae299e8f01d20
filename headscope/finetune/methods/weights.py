"""Methods that keep weights near where they began: L2-SP, mixout, child-tuning, R4F's norm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize


def l2_sp(model: nn.Module, start: Mapping[str, Tensor], alpha: float, beta: float) -> Tensor:
    """Alpha / 2 ||w - w0||^2 over the weights that have a start, beta / 2 ||w||^2 over new ones.

    Args:
        model: being trained.
        start: name -> weight at the start; new heads are not in it.
        alpha: strength for weights that have a start.
        beta: strength for new ones.

    Source: Li et al. 2018, "Explicit Inductive Bias for Transfer Learning" (arXiv:1802.01483).
    """
    old = new = torch.zeros((), device=next(model.parameters()).device)
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        if name in start:
            old = old + (weight.float() - start[name].float()).square().sum()
        else:
            new = new + weight.float().square().sum()
    return alpha / 2 * old + beta / 2 * new


class Mixout(nn.Module):
    """A weight of which a random part is that of the start: ((1 - M) w0 + M w - p w0) / (1 - p).

    Args:
        start: w0.
        p: share of the numbers that are those of the start.

    Source: Lee et al. 2020, "Mixout" (arXiv:1909.11299), equation 6; every number is drawn by
    itself, where the published code draws one mask a column.
    """

    start: Tensor

    def __init__(self, start: Tensor, p: float) -> None:
        """As a parametrisation of torch."""
        super().__init__()
        self.register_buffer("start", start.detach().clone())
        self.p = p

    def forward(self, weight: Tensor) -> Tensor:
        """The mixed weight; in eval mode the weight itself."""
        if not self.training or self.p == 0:
            return weight
        kept = torch.rand_like(weight) >= self.p
        return mixed(weight, self.start, kept, self.p)


def mixed(weight: Tensor, start: Tensor, kept: Tensor, p: float) -> Tensor:
    """The formula of `Mixout` for one mask; its mean over masks is the weight."""
    return (torch.where(kept, weight, start) - p * start) / (1 - p)


def mix_out(model: nn.Module, p: float) -> None:
    """Every linear layer's weight is mixed with what it is now whenever the model trains."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            parametrize.register_parametrization(module, "weight", Mixout(module.weight, p))


class Cap(nn.Module):
    """A weight over its largest singular value where that is above 1: W / max(1, sigma)."""

    def forward(self, weight: Tensor) -> Tensor:
        """The capped weight [out, in]; sigma is exact, by singular value decomposition."""
        sigma: Tensor = torch.linalg.matrix_norm(weight.float(), 2)
        capped: Tensor = weight / sigma.clamp(min=1).to(weight.dtype)
        return capped


def bound_spectrum(layers: Iterable[nn.Linear], rule: Literal["equal", "cap"] = "equal") -> None:
    """The largest singular value of each layer's weight is 1, or at most 1.

    Args:
        layers: of a head.
        rule: `equal` scales small weights up as well, as R4F does (power iteration, which
            approaches 1 from above); `cap` leaves them.

    Source: Aghajanyan et al. 2021 (R4F), with torch's spectral norm.
    """
    for layer in layers:
        if rule == "equal":
            parametrizations.spectral_norm(layer)
        else:
            parametrize.register_parametrization(layer, "weight", Cap())


def release(model: nn.Module) -> None:
    """Weights are plain parameters again, with the values that the model computes with.

    The model must be in eval mode.
    """
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(cast(nn.ModuleDict, module.parametrizations)):
                parametrize.remove_parametrizations(module, name)


class Children:
    """Gradients of a part of the numbers are let through, those of the others are 0.

    Args:
        share: p, the part let through.
        fisher: parameter -> mean squared gradient: the share with the largest is chosen once (D).
            None draws a new part for each update and divides by p (F).

    Source: Xu et al. 2021, "Raise a Child in Large Language Model" (arXiv:2109.05687).
    """

    def __init__(self, share: float, fisher: Mapping[nn.Parameter, Tensor] | None = None) -> None:
        """Chooses the numbers, where they are chosen once."""
        self.share = share
        self.chosen: dict[nn.Parameter, Tensor] | None = None
        if fisher is not None:
            whole = torch.cat([value.flatten() for value in fisher.values()])
            n_kept = max(1, round(share * whole.numel()))
            least = whole.topk(n_kept).values[-1]
            self.chosen = {weight: value >= least for weight, value in fisher.items()}

    def mask(self, parameters: Iterable[nn.Parameter]) -> None:
        """Masks the gradients at hand, before the optimiser's moments see them."""
        for weight in parameters:
            if weight.grad is None:
                continue
            if self.chosen is None:
                kept = torch.rand_like(weight.grad) < self.share
                weight.grad.mul_(kept).div_(self.share)
            elif weight in self.chosen:
                weight.grad.mul_(self.chosen[weight])
