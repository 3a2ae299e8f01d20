"""Methods by layer: learning rates that fall towards the input, top layers drawn anew."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn
from transformers import PreTrainedModel

_NUMBERED = re.compile(r"(?:^|\.)(?:layers?|h|block|blocks)\.(\d+)\.")
_EMBEDDINGS = re.compile(r"(?:^|\.)(?:\w*embed\w*|wte|wpe|word_embedding|shared)(?:\.|$)")


def depth_from_top(name: str, n_layers: int, in_body: bool) -> int:
    """How many steps below the head a parameter lies: head 0, top layer 1, embeddings L + 1.

    Args:
        name: of the parameter within the body, or within the model for the head.
        n_layers: of the body.
        in_body: whether it is a parameter of the body. What stands after the last layer (pooler,
            last norm) counts with the head.
    """
    if not in_body:
        return 0
    if numbered := _NUMBERED.search(name):
        return n_layers - int(numbered[1])
    return n_layers + 1 if _EMBEDDINGS.search(name) else 0


def layer_rate(rate: float, decay: float, depth: int) -> float:
    """Rate x decay ^ depth: layer-wise learning-rate decay (Howard and Ruder 2018, section 3.2)."""
    return rate * decay**depth


def top_layers(layers: Iterable[nn.Module], n_top: int) -> list[nn.Module]:
    """The last so many of a body's layers."""
    whole = list(layers)
    return whole[len(whole) - n_top :]


def draw_anew(model: PreTrainedModel, parts: Iterable[nn.Module]) -> None:
    """Weights of the parts are drawn as the model's family draws them.

    Source: Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning" (arXiv:2006.05987).
    """
    for part in parts:
        for module in part.modules():
            for weight in module.parameters(recurse=False):
                weight._is_hf_initialized = False  # type: ignore[attr-defined]
            module._is_hf_initialized = False  # type: ignore[assignment]
            model._init_weights(module)
