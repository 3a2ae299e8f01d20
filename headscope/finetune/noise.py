"""What is added to word embeddings: noise and adversarial steps, padding left alone.

A hook on the word-embedding module adds to its output while the model is called as always: position
and type embeddings, their norm and dropout come after, and no position is counted anew, as it would
be with `inputs_embeds`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Norm = Literal["l2", "linf"]
"""How the size of a perturbation is measured: over the whole sequence, or its largest number."""


@contextlib.contextmanager
def added_to_embeddings(model: nn.Module, delta: Tensor, *, detach: bool = False) -> Iterator[None]:
    """Word embeddings are themselves plus delta, for one call of the model inside the block.

    Args:
        model: whose input's words these are; the decoder of an encoder-decoder reads its own
            unchanged.
        delta: [B, T, d] float32, 0 at padding. Where embeddings are of half precision the sum is
            rounded to it, and a delta far smaller than they are is lost.
        detach: whether the embedding table gets no gradient from this call.
    """
    left = 1

    def add(_module: nn.Module, given: tuple[Any, ...], out: Tensor) -> Tensor:
        nonlocal left
        # An encoder comes first; a decoder after it may read the same table.
        if not left:
            return out
        left -= 1
        kept = out.detach() if detach else out
        return (kept.float() + delta).to(out.dtype)

    handle = word_embeddings(model).register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()


def word_embeddings(model: nn.Module) -> nn.Module:
    """The module that reads the ids of a model's input: that of the encoder where there are two."""
    whole = cast(PreTrainedModel, model)
    if getattr(whole.config, "is_encoder_decoder", False):
        whole = whole.get_encoder()
    found: nn.Module = whole.get_input_embeddings()
    return found


def width_of(model: nn.Module) -> int:
    """Numbers in a word embedding."""
    (weight, *_) = word_embeddings(model).parameters()
    return int(weight.shape[1])


def drawn(kind: Literal["uniform", "normal"], mask: Tensor, width: int, size: float) -> Tensor:
    """Noise [B, T, d] float32, independent in every number: U(-size, size) or N(0, size^2).

    Args:
        kind: of noise.
        mask: [B, T] 0 at padding, which gets none.
        width: d.
        size: half the width, or the standard deviation, of the distribution.
    """
    empty = torch.empty(*mask.shape, width, device=mask.device)
    noise = empty.uniform_(-1, 1) if kind == "uniform" else empty.normal_()
    return noise * size * mask.unsqueeze(2)


def start_of_freelb(mask: Tensor, width: int, magnitude: float) -> Tensor:
    """U(-1, 1) times magnitude over the root of each sequence's numbers: [B, T, d] float32.

    Its norm is about magnitude / sqrt(3), whatever the length. Source: Zhu et al. 2020, the
    authors' code.
    """
    if magnitude == 0:  # and no random number is used up
        return torch.zeros(*mask.shape, width, device=mask.device)
    numbers = mask.sum(1).clamp(min=1).float() * width
    return drawn("uniform", mask, width, 1.0) * (magnitude / numbers.sqrt()).view(-1, 1, 1)


def size_of(delta: Tensor, norm: Norm) -> Tensor:
    """Size of each sequence's perturbation: [B, T, d] -> [B]."""
    flat = delta.flatten(1)
    return flat.norm(dim=1) if norm == "l2" else flat.abs().amax(1)


def ascended(delta: Tensor, gradient: Tensor, step: float, norm: Norm) -> Tensor:
    """Delta, a step of this size further along the gradient; where there is none it stays."""
    sizes = size_of(gradient, norm).clamp(min=1e-8).view(-1, 1, 1)
    return delta + step * gradient / sizes


def projected(delta: Tensor, radius: float, norm: Norm) -> Tensor:
    """The nearest perturbation whose size is at most the radius."""
    if norm == "linf":
        return delta.clamp(-radius, radius)
    sizes = size_of(delta, norm).clamp(min=1e-12)
    return delta * (radius / sizes).clamp(max=1).view(-1, 1, 1)
