"""Observed attention: an attention function that shows its probabilities to observers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from headscope.errors import ModelError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask, mask_of, row_masks

NAME = "headscope"


class PassDone(BaseException):
    """Ends a pass after the last layer's attention; never seen outside an observed pass."""


class Place(Protocol):
    """One attention layer of one pass that somebody looks at."""

    @property
    def last(self) -> bool:
        """Whether nobody needs what comes after it."""

    def block_rows(self, query: Tensor, n_keys: int) -> int:
        """Number of query rows whose probabilities are computed at once."""

    def see(
        self, start: int, probs: Tensor, scores: Tensor, shape: tuple[int, int], first_key: int
    ) -> None:
        """Takes in rows start, start + 1, ...

        probs [B, H, rows, K], the softmax of scores, keys from `first_key` on; shape: rows and keys
        of the whole map.
        """


class Watcher(Protocol):
    """Is told of every attention call of a pass."""

    def arrive(self, module: nn.Module, mask: Mask | None) -> Place | None:
        """The layer that this call is; None for plain attention that nobody looks at."""


_running: ContextVar[Watcher | None] = ContextVar("headscope_watcher", default=None)


@contextlib.contextmanager
def heard_by(watcher: Watcher | None) -> Iterator[None]:
    """Attention calls inside the block are told to the watcher; None: to nobody."""
    token = _running.set(watcher)
    try:
        yield
    finally:
        _running.reset(token)


def observed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **terms: Any,
) -> tuple[Tensor, None]:
    """Exact attention in blocks of query rows, each shown to the observers of the running pass.

    query, key, value: [B, H, T, D], key and value with their own, fewer heads for grouped queries.
    Returns ([B, T, H, D], None). Modules that no observation knows get plain attention. `terms` are
    the further keywords of a family; those that change the result are handled in `_scores`, and
    the calibration pass finds a family with one that is not.
    """
    mask = mask_of(attention_mask) if isinstance(attention_mask, Tensor) else attention_mask
    watcher = _running.get()
    site = watcher.arrive(module, mask) if watcher is not None else None
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    n_rows, n_keys = query.shape[2], key.shape[2]
    block = n_rows if site is None else site.block_rows(query, n_keys)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = []
    for start in range(0, n_rows, block):
        stop = min(start + block, n_rows)
        span = None if mask is None else mask.span(start, stop)
        keys = slice(0, n_keys) if span is None else slice(span.first, span.last)
        rows = query[:, :, start:stop]
        scores = _scores(rows, key[:, :, keys], scale, mask, (start, stop, keys), terms)
        wide = torch.float64 if scores.dtype == torch.float64 else torch.float32
        probs = scores.softmax(-1, dtype=wide)
        if terms.get("s_aux") is not None:
            # Rows sum to 1 minus the share of the sink.
            scores, probs = scores[..., :-1], probs[..., :-1]
        if site is not None:
            site.see(start, probs, scores, (n_rows, n_keys), keys.start)
            if site.last:
                continue
        kept = nn.functional.dropout(probs.to(value.dtype), dropout, module.training)
        out.append(kept @ value[:, :, keys])
    if site is not None and site.last:
        raise PassDone
    whole = out[0] if len(out) == 1 else torch.cat(out, 2)
    return whole.transpose(1, 2).contiguous(), None


def _scores(
    rows: Tensor,
    key: Tensor,
    scale: float,
    mask: Mask | None,
    place: tuple[int, int, slice],
    terms: dict[str, Any],
) -> Tensor:
    """[B, H, rows, K]: q k^T x scale, soft cap, position bias, mask, in this order.

    A sink is a score without a key; where there is one, it is the last column.
    """
    start, stop, keys = place
    scores = (rows @ key.transpose(2, 3)).mul_(scale)
    softcap, bias, sink = (terms.get(name) for name in ("softcap", "position_bias", "s_aux"))
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores += (bias if bias.shape[2] == 1 else bias[:, :, start:stop])[..., keys]
    if mask is not None:
        # In place: a second map of this size costs more time than the sum itself.
        mask.add_to(scores, start, stop, keys.start)
    if sink is None:
        return scores
    column = sink.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    return torch.cat([scores, column], 3)


AttentionInterface.register(NAME, observed_attention)
# Without its mask builder under the same name, padding would be attended to without an error.
AttentionMaskInterface.register(NAME, row_masks)


def inputs(encoder: Encoder, batch: Batch) -> dict[str, Any]:
    """Keyword arguments of the model for one batch."""
    given: dict[str, Any] = {
        "input_ids": batch.input_ids,
        "attention_mask": batch.valid.long(),
        "return_dict": True,
    }
    if encoder.uses_type_ids:
        given["token_type_ids"] = batch.type_ids
    if batch.target is not None:
        given["decoder_input_ids"] = batch.target.input_ids
        given["decoder_attention_mask"] = batch.target.valid.long()
    # Keys and values, or states, kept for a next call that never comes.
    given |= {name: False for name in ("use_cache", "use_mems") if name in encoder.takes}
    return given


@contextlib.contextmanager
def attention_set_to(model: nn.Module, name: str) -> Iterator[None]:
    """The model and all its parts use the named attention function inside the block, in eval mode.

    Parts whose attention function cannot be chosen keep their own; where they have several, as
    Falcon has, they use eager unless `name` is sdpa. On every exit each part gets back the function
    and the training mode that it had.

    Raises:
        ModelError: no part of it is a model of the library.
    """
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    configs = {id(part.config): part.config for part in parts}
    before = {key: config._attn_implementation_internal for key, config in configs.items()}
    training = {part: part.training for part in model.modules()}
    if not parts:
        raise ModelError(
            f"{type(model).__name__} is no model of the transformers library; "
            "its attention cannot be observed"
        )
    try:
        for part in parts:
            if part._can_set_attn_implementation():
                part.set_attn_implementation(name)
            else:
                own = "sdpa" if name == "sdpa" and part._supports_sdpa else "eager"
                part.config._attn_implementation_internal = own
        model.eval()
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation_internal = before[key]
        for module, mode in training.items():
            module.training = mode


@contextlib.contextmanager
def watched_by(watcher: Watcher, model: nn.Module) -> Iterator[None]:
    """The model calls the observed function inside the block; the watcher hears of every call."""
    with attention_set_to(model, NAME), heard_by(watcher):
        yield
