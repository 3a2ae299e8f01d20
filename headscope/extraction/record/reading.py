"""A record of attention opened again: one layer at a time, or one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headscope.datasets import Corpus, open_corpus
from headscope.datasets.records import Manifest, check_bytes, check_size, is_record, read_manifest
from headscope.errors import HeadscopeError, InputError
from headscope.extraction.record.shards import Shard
from headscope.results import NOT_TOKENS

Maps = npt.NDArray[np.float32]


@dataclass(frozen=True, init=False)
class Record:
    """A finished record: which sentences it holds, and their attention as it is asked for.

    Sentences are named by their number in the corpus, `Sentence.ordinal`.

    Attributes:
        folder: where it lies.

    Raises:
        InputError: no record, an unfinished one, or one with a file missing or cut short.
    """

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        """Finds out early what is damaged."""
        object.__setattr__(self, "folder", Path(folder))
        if not is_record(self.folder):
            raise InputError(f"{self.folder}: found no record; expected a folder that has one")
        if self.manifest.status != "finished":
            raise InputError(
                f"{self.folder}: found an unfinished record; expected a whole one; the headscope "
                "record command that began it goes on with it"
            )
        for part in (self.manifest.sentences, *self.manifest.shards):
            check_size(self.folder, part)

    @cached_property
    def manifest(self) -> Manifest:
        """What it holds."""
        return read_manifest(self.folder)

    def verify(self, number: int | None = None) -> None:
        """Compares the bytes of one shard, or of all, with what was written.

        To read a layer does not do this, for it would read every other layer as well.

        Raises:
            InputError: they differ, although the size is right.
        """
        shards = self.manifest.shards
        for part in shards if number is None else (shards[number],):
            check_bytes(self.folder, part)

    @property
    def settings(self) -> dict[str, Any]:
        """Level, rows, precision and whatever else decided its bytes."""
        return dict(self.manifest.identity)

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return int(self.manifest.model["n_layers"])

    @property
    def unseen(self) -> tuple[int, ...]:
        """Numbers of the layers that are in no shard: their queries or keys are not the tokens."""
        return tuple(self.settings["unseen"])

    @property
    def n_heads(self) -> int:
        """Number of query heads a layer."""
        return int(self.manifest.model["n_heads"])

    @property
    def corpus(self) -> Corpus:
        """Its sentences, those that the model could not take included."""
        return open_corpus(self.folder)

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """Its shards, memory-mapped."""
        return tuple(
            Shard(self.folder / part.name, self.manifest.fingerprint, number, self.n_heads)
            for number, part in enumerate(self.manifest.shards)
        )

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Number of a sentence in the corpus -> number of its shard, and its place there."""
        return {
            int(ordinal): (number, index)
            for number, shard in enumerate(self.shards)
            for index, ordinal in enumerate(shard.ordinals)
        }

    def layer(self, number: int) -> Iterator[tuple[int, Maps]]:
        """(ordinal, [H, n, n]) of every sentence; no other layer is read.

        Args:
            number: of the layer, from 0.

        Raises:
            HeadscopeError: no such layer, or one that cannot be seen.
        """
        if not 0 <= number < self.n_layers:
            raise HeadscopeError(f"found layer {number}; expected 0 to {self.n_layers - 1}")
        if number in self.unseen:
            raise HeadscopeError(
                f"{self.folder}: found no attention of layer {number}: {NOT_TOKENS}; ask for "
                "another layer"
            )
        for shard in self.shards:
            yield from zip(shard.ordinals.tolist(), shard.layer(number), strict=True)

    def hidden_states(self, number: int) -> Iterator[tuple[int, Maps]]:
        """(ordinal, [T, d]) of every sentence: a vector a token, special ones included.

        Args:
            number: of the hidden state, 0 for the embeddings.

        Raises:
            HeadscopeError: it was not kept.
        """
        kept = self.settings["hidden_states"]
        if number not in kept:
            raise HeadscopeError(
                f"hidden state {number} was not recorded; kept: {', '.join(map(str, kept)) or 'no'}"
            )
        for shard in self.shards:
            yield from zip(shard.ordinals.tolist(), shard.hidden(number), strict=True)

    def attention(self, ordinal: int) -> Maps:
        """[L, H, n, n] of one sentence; layers that cannot be seen are NaN.

        Raises:
            HeadscopeError: the sentence was left out, or there is none of this number.
        """
        if ordinal not in self.places:
            raise HeadscopeError(f"{self.folder}: found no attention of sentence {ordinal}")
        number, index = self.places[ordinal]
        shard = self.shards[number]
        side = int(shard.sides[index])
        maps = np.full((self.n_layers, self.n_heads, side, side), np.nan, dtype=np.float32)
        for layer in range(self.n_layers):
            if layer not in self.unseen:
                maps[layer] = shard.attention(layer, index)
        return maps
