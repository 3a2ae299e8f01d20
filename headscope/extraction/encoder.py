"""A model and its tokenizer, ready to be observed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedConfig

from headscope.results import ModelInfo


@dataclass(frozen=True)
class Call:
    """One call of the observed attention function within a forward pass.

    Attributes:
        module: that calls.
        layer: 0-based number among the layers of the kind observed; None for other kinds.
    """

    module: nn.Module
    layer: int | None


@dataclass
class Encoder:
    """A transformer body in eval mode with its fast tokenizer.

    What the calibration pass (`headscope.extraction.calibration`) finds out is empty before it.

    Attributes:
        model: the body, without task head; of an encoder-decoder whose encoder is observed, the
            encoder alone.
        config: of the whole checkpoint.
        tokenizer: the Rust tokenizer, truncation and padding switched off.
        info: what results say about the model.
        max_length: number of tokens, special ones included, that the position table takes; None
            where there is no table.
        pad_id: id put where there is no token; masked everywhere.
        start_id: token before the first of a decoder's input; None where the last token is moved
            there, as mBART does.
        cls_id, separator_id, unk_id: ids of these tokens, None where the tokenizer has none.
        uses_type_ids: whether the model is given segment ids.
        notes: facts about the model that every result repeats.
        route: `function` where attention layers call the observed function, `maps` where maps are
            read from the model's own output; found by the calibration pass, like all that follows.
        sites: calls of the attention function in the order of one forward.
        causal: whether no query sees a later key.
        has_sinks: whether part of the attention goes to an extra score without a token.
        unseen: numbers of layers whose queries or keys are not the tokens.
        equal_lengths: whether padding changes real tokens, so that only sentences of equal length
            can share a batch.
    """

    model: nn.Module
    config: PreTrainedConfig
    tokenizer: Tokenizer
    info: ModelInfo
    max_length: int | None
    pad_id: int
    start_id: int | None
    cls_id: int | None
    separator_id: int | None
    unk_id: int | None
    uses_type_ids: bool
    notes: tuple[str, ...] = ()
    route: Literal["function", "maps"] | None = None
    sites: tuple[Call, ...] = field(default=(), repr=False)
    causal: bool = False
    has_sinks: bool = False
    unseen: tuple[int, ...] = ()
    equal_lengths: bool = False

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @cached_property
    def takes(self) -> frozenset[str]:
        """Names of the keyword arguments of the model."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    @property
    def has_target(self) -> bool:
        """Whether a pass takes a target text beside the source text."""
        return self.config.is_encoder_decoder and self.info.attention != "encoder"

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Ids of all pieces whose text, word-boundary marks left out, is exactly "." or ","."""
        inside = getattr(self.tokenizer.model, "continuing_subword_prefix", None) or ""
        before = "" if inside else "\u0120\u2581"
        end = getattr(self.tokenizer.model, "end_of_word_suffix", None) or ""
        return frozenset(
            token_id
            for piece, token_id in self.tokenizer.get_vocab().items()
            if piece.removeprefix(inside).lstrip(before).removesuffix(end) in (".", ",")
        )

    @cached_property
    def n_ids(self) -> int:
        """Number of rows of the embedding table."""
        table = cast(nn.Embedding, self.model.get_input_embeddings())  # type: ignore[operator]
        return len(table.weight)

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return self.info.n_layers

    @property
    def seen(self) -> tuple[int, ...]:
        """Numbers of the layers that can be seen: all but `unseen`."""
        return tuple(layer for layer in range(self.n_layers) if layer not in self.unseen)

    @property
    def n_heads(self) -> int:
        """Number of query heads a layer."""
        return self.info.n_heads
