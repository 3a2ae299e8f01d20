"""Maps that a model gives itself (`output_attentions`), for families without the interface.

Each family writes its maps in its own way; `ADAPTERS` brings them to probabilities from every
query to every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from headscope.errors import ModelError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.masks import Mask, band
from headscope.extraction.observers import Block

OUTPUTS = {
    "encoder": ("attentions", "encoder_attentions"),
    "decoder": ("attentions", "decoder_attentions"),
    "cross": ("cross_attentions",),
}
"""Where the outputs of a model hold the maps of a kind of attention."""

MANY_PAIRS = 32
"""Pairs of tokens without attention in any head that are no accident of rounding."""

_LOCAL_KINDS = (
    ("layer_types", "sliding_attention", "sliding_window"),
    ("attention_layers", "local", "window_size"),
)
"""Of a config: which kind each layer is, the kind that attends locally, how many keys it sees."""


def own_output(encoder: Encoder, batch: Batch) -> Any:
    """The output of the model's own eager attention, maps included."""
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        return encoder.model(**inputs(encoder, batch), output_attentions=True)


def own_maps(encoder: Encoder, output: Mapping[str, Any]) -> list[Tensor | None]:
    """Probabilities [B, H, Tq, Tk] of every layer of the kind observed, from a model's output.

    None for layers whose queries or keys are not the tokens (Funnel pools them).
    """
    given = next((output[key] for key in OUTPUTS[encoder.info.attention] if output.get(key)), ())
    adapt = ADAPTERS.get((encoder.info.family, encoder.info.attention), _as_they_are)
    maps = adapt([one for one in given if one is not None])
    whole = maps[0].shape[2:] if maps else None
    pooled = encoder.info.family == "funnel"
    return [None if pooled and one.shape[2:] != whole else one for one in maps]


def n_own_maps(output: Mapping[str, Any]) -> int:
    """How many maps a model gave, of all kinds."""
    found = (item for key, item in output.items() if "attentions" in key and item)
    return sum(one is not None for maps in found for one in maps)


def own_blocks(encoder: Encoder, batch: Batch) -> Iterator[Block]:
    """Whole maps, layer by layer, as blocks."""
    queries, keys = batch.queries, batch.keys
    masks: dict[int | None, Mask] = {}
    for layer, probs in enumerate(own_maps(encoder, own_output(encoder, batch))):
        reach = reach_of(encoder, layer)
        mask = masks.setdefault(reach, band(encoder.causal, reach, keys.valid))
        if probs is not None:
            _refuse_unknown_window(encoder, layer, probs, (queries.valid, keys.valid))
            yield Block(layer, 0, probs.float(), queries, keys, mask)


def reach_of(encoder: Encoder, layer: int) -> int | None:
    """How many tokens away a key may be, in layers that attend locally; None for any distance."""
    if encoder.info.attention == "cross":
        return None
    config = encoder.config.get_text_config()
    windows = getattr(config, "attention_window", None)
    if windows is not None and encoder.info.attention == "encoder":
        return int((windows if isinstance(windows, int) else windows[layer]) // 2)
    for names, local, size in _LOCAL_KINDS:
        kinds = getattr(config, names, None)
        if kinds is not None and layer < len(kinds) and kinds[layer] == local:
            return int(getattr(config, size)) - 1
    return None


def _refuse_unknown_window(
    encoder: Encoder, layer: int, probs: Tensor, valid: tuple[Tensor, Tensor]
) -> None:
    """Refuses a layer that attends to nothing in places where it is taken to see keys.

    Raises:
        ModelError: its farthest attention is a band with many pairs of tokens beyond it.
    """
    if encoder.info.attention == "cross":
        return
    queries, keys = valid
    away = (torch.arange(probs.shape[3]) - torch.arange(probs.shape[2]).unsqueeze(1)).to(
        keys.device
    )
    seen = queries.unsqueeze(2) & keys.unsqueeze(1)
    if encoder.causal:
        seen = seen & (away <= 0)
    reach = reach_of(encoder, layer)
    if reach is not None:
        seen = seen & (away.abs() <= reach)
    # NaN counts as attention here; what it is, is told elsewhere.
    attended = (probs != 0).any(1) & seen
    farthest = int((attended * away.abs()).max())
    beyond = int((seen & (away.abs() > farthest)).sum())
    if beyond >= MANY_PAIRS:
        raise ModelError(
            f"{encoder.info.name}: layer {layer} attends to no token more than {farthest} tokens "
            f"away, in none of {beyond:,} pairs of tokens; a window of family "
            f"'{encoder.info.family}' that is not known here; this model cannot be observed"
        )


def _as_they_are(maps: list[Tensor]) -> list[Tensor]:
    return maps


def _raw_scores(maps: list[Tensor]) -> list[Tensor]:
    """SqueezeBERT gives the masked scores before the softmax."""
    return [scores.softmax(-1) for scores in maps]


def _windows(maps: list[Tensor]) -> list[Tensor]:
    """Longformer gives column c of row i for key i - window / 2 + c, [B, H, T, window + 1]."""
    return [_expanded(windows) for windows in maps]


def _expanded(windows: Tensor) -> Tensor:
    n_batch, n_heads, n_rows, width = windows.shape
    # Keys before the first and after the last get columns of their own, which are cut off.
    wide = windows.new_zeros(n_batch, n_heads, n_rows, n_rows + width - 1)
    columns = torch.arange(n_rows).unsqueeze(1) + torch.arange(width)
    wide.scatter_(3, columns.to(windows.device).expand(n_batch, n_heads, -1, -1), windows)
    return wide[..., width // 2 : width // 2 + n_rows]


ADAPTERS: dict[tuple[str, str], Callable[[list[Tensor]], list[Tensor]]] = {
    ("led", "encoder"): _windows,
    ("longformer", "encoder"): _windows,
    ("squeezebert", "encoder"): _raw_scores,
}
"""(family, attention) -> how its maps become probabilities from every query to every key."""
