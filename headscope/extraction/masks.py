"""Which keys a query may see: masks that are made for the rows at hand and never as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import (
    and_masks,
    eager_mask,
    padding_mask_function,
    prepare_padding_mask,
)


@dataclass(frozen=True)
class Span:
    """Which keys a block of queries has to do with.

    Attributes:
        first, last: outside of these nobody sees a key.
        mixed: stretch of keys that some of the queries see and others do not.
        unseen: [B or 1, 1, rows, mixed] True where the query does not see the key; None where it is
            too large to be kept.
    """

    first: int
    last: int
    mixed: slice
    unseen: Tensor | None


_KEPT = 2**20
"""Cells of a mask that are kept for the next layer; larger ones are made anew."""


@dataclass(eq=False)
class Mask:
    """Visibility of keys, row by row. Layers of one kind share the object within a pass.

    Attributes:
        rows: (start, stop) -> [B or 1, 1, rows or 1, K] True where the query may see the key.
    """

    rows: Callable[[int, int], Tensor]
    _last: tuple[int, int, Tensor] | None = field(default=None, repr=False)
    _spans: dict[tuple[int, int], Span] = field(default_factory=dict, repr=False)

    def visible(self, start: int, stop: int) -> Tensor:
        """[B or 1, 1, stop - start, K] True where the query may see the key."""
        # All layers ask for the same rows, one after the other, where one block holds them all.
        if self._last is None or self._last[:2] != (start, stop):
            rows = self.rows(start, stop)
            self._last = (start, stop, rows.expand(-1, -1, stop - start, -1))
        return self._last[2]

    def span(self, start: int, stop: int) -> Span:
        """The stretch of keys that the queries from start to stop see."""
        if (start, stop) not in self._spans:
            self._spans[start, stop] = _span_of(self.visible(start, stop))
        return self._spans[start, stop]

    def add_to(self, scores: Tensor, start: int, stop: int, first_key: int) -> Tensor:
        """Scores [B, H, rows, keys], changed in place: the lowest number at keys not seen."""
        span = self.span(start, stop)
        unseen = span.unseen
        if unseen is None:
            unseen = ~self.visible(start, stop)[..., span.mixed]
        mixed = scores[..., span.mixed.start - first_key : span.mixed.stop - first_key]
        mixed.masked_fill_(unseen, torch.finfo(scores.dtype).min)
        return scores


def _span_of(visible: Tensor) -> Span:
    cells = visible.flatten(0, 2)
    seen = cells.any(0).nonzero()
    # Where nobody sees anything, as in padding alone, all keys are hidden and none can be left out.
    first, last = (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, visible.shape[3])
    hidden = (~cells[:, first:last].all(0)).nonzero()
    mixed = slice(first + int(hidden[0]), first + int(hidden[-1]) + 1) if len(hidden) else slice(0)
    mixed = slice(mixed.start or 0, mixed.stop)
    small = visible[..., mixed].numel() <= _KEPT
    return Span(first, last, mixed, ~visible[..., mixed] if small else None)


def row_masks(
    batch_size: int,
    q_length: int,
    kv_length: int,
    *,
    mask_function: Callable[..., Tensor],
    attention_mask: Tensor | None = None,
    device: torch.device | str = "cpu",
    **given: Any,
) -> Mask | None:
    """A mask builder of the library's interface (`AttentionMaskInterface`) that builds no T x T.

    None where every key is visible to every query. `given`: the further keywords of the interface.
    """
    padding = prepare_padding_mask(attention_mask, kv_length, given.get("kv_offset", 0))
    window = given.get("local_size")
    if (
        given.get("allow_is_bidirectional_skip")
        and (padding is None or bool(padding.all()))
        and (window is None or kv_length < window)
    ):
        return None
    if given.get("use_vmap"):
        # Rules that are no plain functions of places, such as some that users pass in.
        whole = eager_mask(
            batch_size, q_length, kv_length, mask_function=mask_function,
            attention_mask=attention_mask, device=device, **given,
        )  # fmt: skip
        return mask_of(whole)
    rule = mask_function
    if padding is not None:
        rule = and_masks(rule, padding_mask_function(padding))
    sentences = torch.arange(batch_size, device=device).view(-1, 1, 1, 1)
    head = torch.zeros(1, 1, 1, 1, dtype=torch.long, device=device)
    keys = torch.arange(kv_length, device=device).view(1, 1, 1, -1) + given.get("kv_offset", 0)

    def rows(start: int, stop: int) -> Tensor:
        queries = torch.arange(start, stop, device=device).view(1, 1, -1, 1)
        return rule(sentences, head, queries + given.get("q_offset", 0), keys)

    return Mask(rows)


def mask_of(given: Tensor) -> Mask:
    """The mask that a tensor [B, 1, T or 1, K] is: bool, or 0 and a very low number to be added."""
    visible = given if given.dtype == torch.bool else given > torch.finfo(given.dtype).min / 2
    return Mask(lambda start, stop: visible if visible.shape[2] == 1 else visible[:, :, start:stop])


def band(causal: bool, reach: int | None, valid_keys: Tensor) -> Mask:
    """The mask of a model that does not ask for ours: no padding, none later, none out of reach.

    Args:
        causal: whether later keys are hidden.
        reach: how many tokens away a key may be; None for any distance.
        valid_keys: [B, K] False at padding.
    """
    places = torch.arange(valid_keys.shape[1], device=valid_keys.device)

    def rows(start: int, stop: int) -> Tensor:
        seen = valid_keys[:, None, None, :].expand(-1, -1, stop - start, -1)
        ahead = places - torch.arange(start, stop, device=places.device).unsqueeze(1)
        if causal:
            seen = seen & (ahead <= 0)
        return seen if reach is None else seen & (ahead.abs() <= reach)

    return Mask(rows)
