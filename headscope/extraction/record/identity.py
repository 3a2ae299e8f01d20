"""What a record keeps, and everything that decides its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from headscope.datasets import Corpus
from headscope.errors import HeadscopeError, InputError, unknown
from headscope.extraction.batches import BATCH_TOKENS
from headscope.extraction.encoder import Encoder
from headscope.extraction.maps import Level
from headscope.extraction.observation import MAX_MAP_TOKENS
from headscope.extraction.words import Rows

SHARD_BYTES = 32 * 2**20
"""Attention in one shard, after which it is closed; also what a killed run has to do again."""

Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class RecordSettings:
    """What a record keeps; equal settings on equal inputs give equal bytes.

    Attributes:
        level: `subword` keeps maps between all tokens, `word` those between words.
        rows: `mean` or `first`: how rows of a split word's pieces become the word's row.
        precision: `float32` or `float16` on disk.
        hidden_states: numbers of the hidden states kept, 0 for the embeddings; always of tokens.
        batch_tokens: tokens in a batch, padding included.
        max_map_tokens: longest sentence kept.
        shard_bytes: attention in one shard, after which it is closed.
    """

    level: Level = "subword"
    rows: Rows = "mean"
    precision: Precision = "float32"
    hidden_states: tuple[int, ...] = ()
    batch_tokens: int = BATCH_TOKENS
    max_map_tokens: int = MAX_MAP_TOKENS
    shard_bytes: int = SHARD_BYTES

    def __post_init__(self) -> None:
        """Refuses names that do not exist and numbers that make no sense."""
        for name, kinds in (("level", Level), ("rows", Rows), ("precision", Precision)):
            if getattr(self, name) not in get_args(kinds):
                raise unknown(name, getattr(self, name), get_args(kinds))
        for name in ("batch_tokens", "max_map_tokens", "shard_bytes"):
            if getattr(self, name) < 1:
                raise HeadscopeError(f"{name} is {getattr(self, name)}; expected at least 1")
        if len(set(self.hidden_states)) < len(self.hidden_states):
            raise HeadscopeError(f"hidden states {self.hidden_states}: one is named twice")


def identity_of(encoder: Encoder, corpus: Corpus, settings: RecordSettings) -> dict[str, Any]:
    """Whatever changes a byte of a record but the sentences and the versions of packages."""
    from_settings = asdict(settings) | {"hidden_states": list(settings.hidden_states)}
    return {
        **model_identity(encoder),
        "max_length": encoder.max_length,
        "device": encoder.device.type,
        "data": corpus.sha256,
        "format": corpus.format,
        "note": corpus.note,
        **from_settings,
    }


def model_identity(encoder: Encoder) -> dict[str, Any]:
    """What two models must share for the maps of one to be those of the other."""
    info = encoder.info
    return {
        "weights": info.weights_sha256,
        "tokenizer": hashlib.sha256(encoder.tokenizer.to_str().encode()).hexdigest(),
        "dtype": info.dtype,
        "attention": info.attention,
        "heads": f"{info.n_layers} x {info.n_heads}",
        "unseen": list(encoder.unseen),
    }


def refuse_other_model(
    folder: Path, name: str, identity: Mapping[str, Any], encoder: Encoder
) -> None:
    """Stops a record from being analysed as the attention of another model.

    Raises:
        InputError: names both models, and what differs.
    """
    own = model_identity(encoder)
    apart = [key for key in own if own[key] != identity.get(key)]
    if apart:
        raise InputError(
            f"{folder}: found attention of {name} ({_facts(identity, apart)}); expected that of "
            f"{encoder.info.name} ({_facts(own, apart)}); give the model that was recorded, or "
            "record this one"
        )


def _facts(identity: Mapping[str, Any], names: list[str]) -> str:
    return ", ".join(f"{name} {str(identity.get(name))[:12]}" for name in names)
