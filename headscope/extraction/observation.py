"""A model under observation: one forward pass a batch, its attention handed to observers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from headscope.errors import HeadscopeError, ModelError, unknown
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.hook import PassDone, attention_set_to, heard_by, inputs
from headscope.extraction.masks import Mask
from headscope.extraction.observers import Block, Observer, TakesStates
from headscope.extraction.own_maps import own_blocks

BLOCK_BYTES = 16 * 2**20
"""Probabilities of one layer held at once, unless an observer asks for whole maps."""

MAX_MAP_TOKENS = 1024
"""Longest sequence for which whole maps are given to observers."""

_NEEDS = ("rows", "maps")


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
        batch = replace(batch, target=batch.target and replace(batch.target))
        self._batch, self._calls = batch, 0
        try:
            with torch.no_grad():
                if self.encoder.route == "maps":
                    for block in own_blocks(self.encoder, batch):
                        probs = checked(self.encoder, block)
                        self.show(replace(block, probs=probs), block.stop)
                    if self.takers:
                        with attention_set_to(self.encoder.model, "eager"):
                            self._hand_states(batch, self._forward(batch))
                else:
                    self._listen(batch)
            for observer in self.observers:
                observer.close(batch.queries)
        finally:
            self._batch = None

    @property
    def takers(self) -> list[TakesStates]:
        """Observers that want hidden states; where there are any, a pass runs to its end."""
        return [o for o in self.observers if isinstance(o, TakesStates) and o.wants_states]

    def _forward(self, batch: Batch) -> Any:
        more = {"output_hidden_states": True} if self.takers else {}
        return self.encoder.model(**inputs(self.encoder, batch), **more)

    def _hand_states(self, batch: Batch, output: Any) -> None:
        for taker in self.takers:
            taker.take_states(batch.queries, output.hidden_states)

    def _listen(self, batch: Batch) -> None:
        with heard_by(self), contextlib.suppress(PassDone):
            output = self._forward(batch)
            with heard_by(None):
                self._hand_states(batch, output)
        expected = 1 + max(
            number for number, call in enumerate(self.encoder.sites) if call.layer is not None
        )
        if self._calls < expected:
            raise ModelError(
                f"{self.encoder.info.name}: {self._calls} attention layers were called, "
                f"expected {expected}"
            )

    def arrive(self, module: nn.Module, mask: Mask | None) -> Site | None:
        """The layer that this call is, or None when the call is not part of an observed pass."""
        if self._batch is None:
            return None
        number, sites = self._calls, self.encoder.sites
        if number >= len(sites) or sites[number].module is not module:
            if all(call.module is not module for call in sites):
                return None
            raise ModelError(
                f"{self.encoder.info.name}: attention layer {number} was called out of turn"
            )
        self._calls += 1
        layer = sites[number].layer
        if layer is None:
            return None
        last = layer == self.encoder.n_layers - 1 and not self.takers
        return Site(self, self._batch, layer, mask, last)

    def show(self, block: Block, n_rows: int, whole: Tensor | None = None) -> None:
        """Hands a block to the observers, and `whole`, once it is there, to those that need it."""
        # What an observer runs itself, the same model even, is plain attention.
        with heard_by(None):
            for observer in self.observers:
                if observer.needs == "rows":
                    observer.update(block)
            if block.start == 0 and block.stop == n_rows and whole is None:
                whole = block.probs
            if whole is not None:
                for observer in self.observers:
                    if observer.needs == "maps":
                        observer.update(
                            replace(block, start=0, first_key=0, probs=whole, scores=None)
                        )

    def _refuse_long(self, batch: Batch) -> None:
        n_rows, n_keys = batch.queries.input_ids.shape[1], batch.input_ids.shape[1]
        every_map = self.encoder.route == "maps"
        if max(n_rows, n_keys) <= self.max_map_tokens or (
            not every_map and all(o.needs == "rows" for o in self.observers)
        ):
            return
        longest = batch.sentences[int(batch.n_tokens.argmax())]
        size = len(batch) * self.encoder.n_heads * n_rows * n_keys * 4 / 2**20
        why = "whole maps would take"
        if every_map:
            size *= self.encoder.n_layers
            why = f"models of family '{self.encoder.info.family}' give whole maps only; they take"
        raise HeadscopeError(
            f"sentence {longest.sent_id}, a sequence of {n_keys:,} tokens: {why} {size:,.0f} MiB"
            f"{'' if every_map else ' a layer'}, and are given up to {self.max_map_tokens:,} "
            "tokens; leave out long sentences, or raise max_map_tokens"
        )


@dataclass
class Site:
    """One attention layer of one observed forward pass."""

    observation: Observation
    batch: Batch
    layer: int
    mask: Mask | None
    last: bool
    _whole: Tensor | None = None

    def block_rows(self, query: Tensor, n_keys: int) -> int:
        """Number of query rows whose probabilities are computed at once."""
        n_batch, n_heads, n_rows, _ = query.shape
        return max(1, min(n_rows, BLOCK_BYTES // (4 * n_batch * n_heads * n_keys)))

    def see(
        self, start: int, probs: Tensor, scores: Tensor, shape: tuple[int, int], first_key: int
    ) -> None:
        """Hands rows start, start + 1, ... to the observers.

        probs: [B, H, rows, K], the softmax of scores, keys from `first_key` on; shape: rows and
        keys of the whole map.
        """
        queries, keys = self.batch.queries, self.batch.keys
        block = Block(self.layer, start, probs, queries, keys, self.mask, first_key, scores)
        block = replace(block, probs=checked(self.observation.encoder, block))
        needs_maps = any(observer.needs == "maps" for observer in self.observation.observers)
        whole = self._whole_map(block, shape) if needs_maps else None
        self.observation.show(block, shape[0], whole)

    def _whole_map(self, block: Block, shape: tuple[int, int]) -> Tensor | None:
        """[B, H, Tq, Tk] when the last row is in."""
        n_rows, n_keys = shape
        if block.start == 0 and block.stop == n_rows and block.probs.shape[3] == n_keys:
            return block.probs
        if self._whole is None:
            self._whole = block.probs.new_zeros((*block.probs.shape[:2], n_rows, n_keys))
        last = block.first_key + block.probs.shape[3]
        self._whole[:, :, block.start : block.stop, block.first_key : last] = block.probs
        return self._whole if block.stop == n_rows else None


def checked(encoder: Encoder, block: Block) -> Tensor:
    """The block's rows, each of them a distribution; where padding has none, its row is emptied.

    Raises:
        ModelError: a row of a real token that is none.
    """
    probs = block.probs
    totals = probs.sum(3)
    # What lacks to 1 is on a sink, an extra score without a token, where the model has one.
    off = (totals - 1).clamp(min=0) if encoder.has_sinks else (totals - 1).abs()
    if bool(off.max() <= 1e-3):
        return probs
    # NaN compares as False, so that it is found here as well.
    wrong = ~(off <= 1e-3)
    real = wrong & block.batch.valid[:, block.start : block.stop].unsqueeze(1)
    if real.any():
        sentence, head, row = (int(i) for i in real.nonzero()[0])
        half = encoder.info.dtype in ("float16", "bfloat16")
        raise ModelError(
            f"{encoder.info.name}: sentence {block.batch.sentences[sentence].sent_id}, layer "
            f"{block.layer}, head {head}, row {block.start + row}: attention sums to "
            f"{float(totals[sentence, head, row])}, expected 1; "
            + ("try --dtype float32" if half else "are all weights of this checkpoint finite?")
        )
    # Left as it is, NaN times a weight of 0 would be NaN in the sums of real rows.
    return probs.masked_fill(wrong.unsqueeze(3), 0.0)
