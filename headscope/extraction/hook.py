"""Observed attention: an attention function that shows its probabilities to observers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from headscope.errors import HeadscopeError, ModelError, unknown
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.observers import Observer

NAME = "headscope"
BLOCK_BYTES = 64 * 2**20
"""Probabilities of one layer held at once, unless an observer asks for whole maps."""

MAX_MAP_TOKENS = 1024
"""Longest sequence for which whole maps are given to observers."""

_NEEDS = ("rows", "maps")


class PassDone(BaseException):
    """Ends a pass after the last layer's attention; never seen outside `Observation.forward`."""


@dataclass
class Observation:
    """A model whose attention layers report to observers.

    Attributes:
        encoder: the model under observation.
        observers: receive every block of rows, or every whole map, of every layer.
        max_map_tokens: longest sequence whose whole maps are handed out.
    """

    encoder: Encoder
    observers: Sequence[Observer]
    max_map_tokens: int = MAX_MAP_TOKENS
    _batch: Batch | None = field(default=None, repr=False)
    _calls: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        """Refuses observers that would be handed nothing."""
        for observer in self.observers:
            if observer.needs not in _NEEDS:
                raise unknown(f"need of {type(observer).__name__}", observer.needs, _NEEDS)

    def forward(self, batch: Batch) -> None:
        """One pass over a batch; observers have added it up when this returns.

        Nobody needs what comes after the last layer's attention, so the pass stops there. When the
        pass fails, the batch is in no observer's sums.

        Raises:
            ModelError: attention that is no probability distribution, or a layer that was called
                out of turn.
            HeadscopeError: an observer wants whole maps of a sequence that is too long.
        """
        self._refuse_long(batch)
        # A batch object for every pass, so that no observer goes on with what it kept of a pass
        # that failed when the same batch is tried again.
        batch = replace(batch)
        self._batch, self._calls = batch, 0
        try:
            with torch.no_grad(), _heard_by(self), contextlib.suppress(PassDone):
                self.encoder.model(**inputs(self.encoder, batch))
            if self._calls != len(self.encoder.sites):
                raise ModelError(
                    f"{self.encoder.info.name}: {self._calls} attention layers were called, "
                    f"expected {len(self.encoder.sites)}"
                )
            for observer in self.observers:
                observer.close(batch)
        finally:
            self._batch = None

    def arrive(self, module: nn.Module) -> Site | None:
        """The layer that this call is, or None when the call is not part of an observed pass."""
        if self._batch is None:
            return None
        layer, sites = self._calls, self.encoder.sites
        if layer >= len(sites) or sites[layer] is not module:
            if module not in sites:
                return None
            raise ModelError(
                f"{self.encoder.info.name}: attention layer {layer} was called out of turn"
            )
        self._calls += 1
        return Site(self, self._batch, layer, last=layer == len(sites) - 1)

    def _refuse_long(self, batch: Batch) -> None:
        n_tokens = batch.input_ids.shape[1]
        if n_tokens <= self.max_map_tokens or all(o.needs == "rows" for o in self.observers):
            return
        longest = batch.sentences[int(batch.n_tokens.argmax())]
        size = len(batch) * self.encoder.n_heads * n_tokens**2 * 4 / 2**20
        raise HeadscopeError(
            f"sentence {longest.sent_id}, a sequence of {n_tokens:,} tokens: whole maps would take "
            f"{size:,.0f} MiB a layer, and are given up to {self.max_map_tokens:,} tokens; leave "
            "out long sentences, or raise max_map_tokens"
        )


@dataclass
class Site:
    """One attention layer of one observed forward pass."""

    observation: Observation
    batch: Batch
    layer: int
    last: bool
    _whole: Tensor | None = None

    def block_rows(self, query: Tensor, n_keys: int) -> int:
        """Number of query rows whose probabilities are computed at once."""
        n_batch, n_heads, n_rows, _ = query.shape
        return max(1, min(n_rows, BLOCK_BYTES // (4 * n_batch * n_heads * n_keys)))

    def see(self, start: int, probs: Tensor, n_rows: int) -> None:
        """Hands rows start, start + 1, ... to the observers; whole maps when the last row is in."""
        probs = self._checked(start, probs)
        observers = self.observation.observers
        # What an observer runs itself, the same model even, is plain attention.
        with _heard_by(None):
            for observer in observers:
                if observer.needs == "rows":
                    observer.update(self.layer, start, probs, self.batch)
            wants_maps = [observer for observer in observers if observer.needs == "maps"]
            if wants_maps and (whole := self._whole_map(start, probs, n_rows)) is not None:
                for observer in wants_maps:
                    observer.update(self.layer, 0, whole, self.batch)

    def _whole_map(self, start: int, probs: Tensor, n_rows: int) -> Tensor | None:
        """[B, H, T, T] when the last row is in."""
        stop = start + probs.shape[2]
        if start == 0 and stop == n_rows:
            return probs
        if self._whole is None:
            self._whole = probs.new_empty((*probs.shape[:2], n_rows, probs.shape[3]))
        self._whole[:, :, start:stop] = probs
        return self._whole if stop == n_rows else None

    def _checked(self, start: int, probs: Tensor) -> Tensor:
        """The rows, each of them a distribution; where padding has none, its row is emptied."""
        off = (probs.sum(3) - 1).abs()
        if bool(off.max() <= 1e-3):
            return probs
        # NaN compares as False, so that it is found here as well.
        wrong = ~(off <= 1e-3)
        real = wrong & self.batch.valid[:, start : start + probs.shape[2]].unsqueeze(1)
        if real.any():
            sentence, head, row = (int(i) for i in real.nonzero()[0])
            raise ModelError(
                f"{self.observation.encoder.info.name}: sentence "
                f"{self.batch.sentences[sentence].sent_id}, layer {self.layer}, head {head}, row "
                f"{start + row}: attention sums to {float(probs[sentence, head, row].sum())}, "
                f"expected 1; {self._what_to_do()}"
            )
        # Left as it is, NaN times a weight of 0 would be NaN in the sums of real rows.
        return probs.masked_fill(wrong.unsqueeze(3), 0.0)

    def _what_to_do(self) -> str:
        if self.observation.encoder.info.dtype in ("float16", "bfloat16"):
            return "try --dtype float32"
        return "are all weights of this checkpoint finite?"


class Watcher(Protocol):
    """Is told of every attention call of a pass."""

    def arrive(self, module: nn.Module) -> Site | None:
        """The layer that this call is; None for plain attention that nobody looks at."""


_running: ContextVar[Watcher | None] = ContextVar("headscope_watcher", default=None)


@contextlib.contextmanager
def _heard_by(watcher: Watcher | None) -> Iterator[None]:
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
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **terms: Any,
) -> tuple[Tensor, None]:
    """Exact attention in blocks of query rows, each shown to the observers of the running pass.

    query, key, value: [B, H, T, D], key and value with their own, fewer heads for grouped queries.
    Returns ([B, T, H, D], None). Modules that no observation knows get plain attention. `terms` are
    the further keywords of a family; those that change the result are handled in `_scores`, and
    the calibration pass refuses a family with one that is not.
    """
    watcher = _running.get()
    site = watcher.arrive(module) if watcher is not None else None
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    n_rows = query.shape[2]
    block = n_rows if site is None else site.block_rows(query, key.shape[2])
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = []
    for start in range(0, n_rows, block):
        rows = query[:, :, start : start + block]
        scores = _scores(rows, key, scale, attention_mask, start, terms)
        wide = torch.float64 if scores.dtype == torch.float64 else torch.float32
        probs = scores.softmax(-1, dtype=wide)
        if site is not None:
            site.see(start, probs, n_rows)
            if site.last:
                continue
        kept = nn.functional.dropout(probs.to(value.dtype), dropout, module.training)
        out.append(kept @ value)
    if site is not None and site.last:
        raise PassDone
    whole = out[0] if len(out) == 1 else torch.cat(out, 2)
    return whole.transpose(1, 2).contiguous(), None


def _scores(
    rows: Tensor,
    key: Tensor,
    scale: float,
    mask: Tensor | None,
    start: int,
    terms: dict[str, Any],
) -> Tensor:
    """[B, H, rows, K]: q k^T x scale, soft cap, position bias, mask, in this order."""
    scores = (rows @ key.transpose(2, 3)).mul_(scale)
    stop = start + rows.shape[2]
    softcap, bias = terms.get("softcap"), terms.get("position_bias")
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores += bias if bias.shape[2] == 1 else bias[:, :, start:stop]
    if mask is not None:
        part = (mask if mask.shape[2] == 1 else mask[:, :, start:stop])[..., : key.shape[2]]
        if part.dtype == torch.bool:
            return scores.masked_fill_(~part, torch.finfo(scores.dtype).min)
        # In place: a second map of this size costs more time than the sum itself.
        scores += part
    return scores


AttentionInterface.register(NAME, observed_attention)
# Without its mask builder under the same name, padding would be attended to without an error.
AttentionMaskInterface.register(NAME, eager_mask)


def inputs(encoder: Encoder, batch: Batch) -> dict[str, Any]:
    """Keyword arguments of the model for one batch."""
    given: dict[str, Any] = {
        "input_ids": batch.input_ids,
        "attention_mask": batch.valid.long(),
        "return_dict": True,
    }
    if encoder.uses_type_ids:
        given["token_type_ids"] = batch.type_ids
    if encoder.info.family == "gpt2" or getattr(encoder.model.config, "is_decoder", False):
        given["use_cache"] = False
    return given


@contextlib.contextmanager
def attention_set_to(model: nn.Module, name: str) -> Iterator[None]:
    """The model and all its parts use the named attention function inside the block, in eval mode.

    On every exit each part gets back the function and the training mode that it had.

    Raises:
        ModelError: the model does not let its attention function be chosen.
    """
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    configs = {id(part.config): part.config for part in parts}
    before = {key: config._attn_implementation_internal for key, config in configs.items()}
    training = {part: part.training for part in model.modules()}
    if not parts or not all(part._can_set_attn_implementation() for part in parts):
        raise ModelError(
            f"{type(model).__name__} does not call a registered attention function; "
            "its attention cannot be observed yet"
        )
    try:
        for part in parts:
            part.set_attn_implementation(name)
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
    with attention_set_to(model, NAME), _heard_by(watcher):
        yield
