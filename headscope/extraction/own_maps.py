"""Maps that a model gives itself (`output_attentions`), for families without the interface.

Each family writes its maps in its own way; `ADAPTERS` brings them to probabilities from every
query to every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.masks import Mask, triangle
from headscope.extraction.observers import Block

OUTPUTS = {
    "encoder": ("attentions", "encoder_attentions"),
    "decoder": ("attentions", "decoder_attentions"),
    "cross": ("cross_attentions",),
}
"""Where the outputs of a model hold the maps of a kind of attention."""


def own_output(encoder: Encoder, batch: Batch) -> Any:
    """The output of the model's own eager attention, maps included."""
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        return encoder.model(**inputs(encoder, batch), output_attentions=True)


def own_maps(encoder: Encoder, output: Mapping[str, Any]) -> list[Tensor]:
    """Probabilities [B, H, Tq, Tk] of every layer of the kind observed, from a model's output."""
    given = next((output[key] for key in OUTPUTS[encoder.info.attention] if output.get(key)), ())
    adapt = ADAPTERS.get(encoder.info.family, _as_they_are)
    return adapt(encoder, [one for one in given if one is not None])


def n_own_maps(output: Mapping[str, Any]) -> int:
    """How many maps a model gave, of all kinds."""
    found = (item for key, item in output.items() if "attentions" in key and item)
    return sum(one is not None for maps in found for one in maps)


def own_blocks(encoder: Encoder, batch: Batch) -> Iterator[Block]:
    """Whole maps, layer by layer, as blocks."""
    mask = triangle(encoder.causal, batch.valid)
    for layer, probs in enumerate(own_maps(encoder, own_output(encoder, batch))):
        yield Block(layer, 0, probs.float(), batch.queries, batch.keys, _mask(encoder, layer, mask))


def _mask(encoder: Encoder, layer: int, whole: Mask) -> Mask:
    return whole


def _as_they_are(encoder: Encoder, maps: list[Tensor]) -> list[Tensor]:
    return maps


def _raw_scores(encoder: Encoder, maps: list[Tensor]) -> list[Tensor]:
    """SqueezeBERT gives the masked scores before the softmax."""
    return [scores.softmax(-1) for scores in maps]


ADAPTERS: dict[str, Callable[[Encoder, list[Tensor]], list[Tensor]]] = {
    "squeezebert": _raw_scores,
}
