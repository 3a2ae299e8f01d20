"""One shard of a record: whole batches of sentences, a tensor a layer, in one safetensors file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save
from torch import Tensor

from headscope.errors import ParseError
from headscope.extraction.batches import Batch
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.record.identity import RecordSettings

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


SHARDS = "shard-*.safetensors"
"""Names of all shards, as a pattern."""


def shard_name(number: int) -> str:
    """File name of the shard.

    >>> shard_name(3)
    'shard-00003.safetensors'
    """
    return SHARDS.replace("*", f"{number:05d}")


PLAIN = -1
"""Stands in `sights` for a layer in which every query sees all keys, or all earlier ones."""


def plain(side: int, causal: bool) -> Array:
    """[side, side] who sees whom where nothing is special.

    >>> plain(2, causal=True).tolist()
    [[True, False], [True, True]]
    """
    whole = np.ones((side, side), dtype=bool)
    return np.tril(whole) if causal else whole


def packed(maps: Sequence[Array]) -> Array:
    """Bits of yes-or-no maps, eight in a byte; each map begins with a byte of its own.

    >>> packed([np.ones((3, 3), dtype=bool), np.eye(2, dtype=bool)]).tolist()
    [255, 128, 144]
    """
    return np.concatenate([np.packbits(one) for one in maps])


class _Growing:
    """Numbers one after the other, in memory that is used again for the next shard."""

    def __init__(self, dtype: str) -> None:
        self._room: Array = np.empty(0, dtype=dtype)
        self.size = 0

    def add(self, numbers: Array) -> None:
        stop = self.size + numbers.size
        if stop > len(self._room):
            room = np.empty(max(stop, 2 * len(self._room)), dtype=self._room.dtype)
            room[: self.size] = self.filled
            self._room = room
        self._room[self.size : stop].reshape(numbers.shape)[...] = numbers
        self.size = stop

    @property
    def filled(self) -> Array:
        return self._room[: self.size]


class Shelf:
    """Collects batches until they are enough for a shard.

    Args:
        cutter: cuts maps into those of single sentences.
        layers: numbers of those kept.
        causal: whether no query sees a later key.
        settings: what is kept.

    Attributes:
        ordinals: numbers in the corpus of the sentences collected.
    """

    def __init__(
        self, cutter: SentenceMaps, layers: Sequence[int], causal: bool, settings: RecordSettings
    ) -> None:
        """Starts empty."""
        self.cutter, self.causal, self.precision = cutter, causal, settings.precision
        self._maps = {layer: _Growing(settings.precision) for layer in layers}
        self._hidden = settings.hidden_states
        self.clear()

    def clear(self) -> None:
        """Empties it, for the next shard."""
        for maps in self._maps.values():
            maps.size = 0
        self.ordinals: list[int] = []
        self._sides: list[list[int]] = []
        self._n_tokens: list[int] = []
        self._unlike: dict[int, list[Array | None]] = {layer: [] for layer in self._maps}
        self._states: dict[int, list[Array]] = {number: [] for number in self._hidden}
        self._tokens: dict[str, list[Array]] = {name: [] for name in _TOKENS}

    @property
    def n_bytes(self) -> int:
        """Bytes of the attention collected so far."""
        return sum(maps.filled.nbytes for maps in self._maps.values())

    def add_layer(self, layer: int, maps: Sequence[Tensor], visible: Array | None) -> None:
        """Takes in one layer's maps of a batch.

        visible: who sees whom, `packed`, where queries see other keys than all, or in a causal
        model all earlier ones.
        """
        for one in maps:
            self._maps[layer].add(one.cpu().numpy())
        self._unlike[layer].append(visible)

    def add_states(self, batch: Batch, states: Sequence[Tensor]) -> None:
        """Takes in the hidden states of a batch, [B, T, d] each."""
        for number, kept in self._states.items():
            kept.append(states[number][batch.valid].float().cpu().numpy().astype(self.precision))

    def close_batch(self, batch: Batch) -> None:
        """Takes in what else there is to a batch, once all its layers have been seen."""
        self._sides.append(self.cutter.sides(batch))
        self.ordinals += [sentence.ordinal for sentence in batch.sentences]
        self._n_tokens += [len(pieces.ids) for pieces in batch.pieces]
        for pieces in batch.pieces:
            for name, kept in self._tokens.items():
                kept.append(getattr(pieces, name))

    def content(self, record: str, number: int) -> bytes:
        """The bytes of the shard's file.

        record: the fingerprint of the record; number: of the shard.
        """
        tensors = {f"attention.{i}": maps.filled for i, maps in self._maps.items()}
        tensors |= {f"hidden.{i}": np.concatenate(kept) for i, kept in self._states.items()}
        tensors |= {name: np.concatenate(kept) for name, kept in self._tokens.items()}
        tensors |= {
            "ordinals": np.array(self.ordinals, dtype=np.int64),
            "n_tokens": np.array(self._n_tokens, dtype=np.int64),
            "sides": np.array([side for sides in self._sides for side in sides], dtype=np.int64),
        }
        tensors |= self._sights()
        # One entry only: the library writes several in an order that changes from run to run.
        noted = {"headscope": json.dumps({"record": record, "shard": number})}
        # Not the library's save_file: killed, it leaves a file under a name of its own.
        return save(tensors, noted)

    def _sights(self) -> dict[str, Array]:
        """Who sees whom, once for all layers that see alike; nothing where no layer is special."""
        distinct: dict[bytes, int] = {}
        of_layers = [PLAIN] * (1 + max(self._unlike))
        for layer, unlike in self._unlike.items():
            if any(visible is not None for visible in unlike):
                bits = b"".join(self._bits(unlike))
                of_layers[layer] = distinct.setdefault(bits, len(distinct))
        if not distinct:
            return {}
        tensors: dict[str, Array] = {
            f"visible.{sight}": np.frombuffer(bits, dtype=np.uint8)
            for bits, sight in distinct.items()
        }
        return tensors | {"sights": np.array(of_layers, dtype=np.int64)}

    def _bits(self, unlike: Sequence[Array | None]) -> Iterator[bytes]:
        """Who sees whom in every sentence; each entry of `unlike` is for one batch."""
        for sides, visible in zip(self._sides, unlike, strict=True):
            if visible is None:
                visible = packed([plain(side, self.causal) for side in sides])
            yield visible.tobytes()


_TOKENS = ("ids", "word_of", "special")


class Shard:
    """A shard on disk, memory-mapped: what is not asked for is not read.

    Args:
        path: its file.
        record, number: as its writer noted them.

    Attributes:
        ordinals, n_tokens, sides: [n] number in the corpus, tokens, and side of the map of each
            sentence.

    Raises:
        ParseError: a file that is damaged, or belongs to another record.
    """

    def __init__(self, path: Path, record: str, number: int, n_heads: int) -> None:
        """Reads which sentences it holds."""
        self.path, self.n_heads = path, n_heads
        try:
            file: Any = safetensors.safe_open(path, framework="np")
            noted = json.loads(file.metadata()["headscope"])
            self.names = frozenset(file.keys())
            self.ordinals: Ints = file.get_tensor("ordinals")
            self.n_tokens: Ints = file.get_tensor("n_tokens")
            self.sides: Ints = file.get_tensor("sides")
            self._sights = file.get_tensor("sights").tolist() if "sights" in self.names else None
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise ParseError(
                path, None, f"no shard of a record ({error})", "the file that was written",
                "the same headscope record command makes this part anew",
            ) from None  # fmt: skip
        if noted != {"record": record, "shard": number}:
            raise ParseError(
                path, None, f"shard {noted.get('shard')} of record {str(noted.get('record'))[:12]}",
                f"shard {number} of record {record[:12]}", "do files of two records lie here?",
            )  # fmt: skip
        self._file = file
        self._ends = np.cumsum(self.sides**2)
        self._bytes = (self.sides**2 + 7) // 8
        self._byte_ends = np.cumsum(self._bytes)
        self._token_ends = np.cumsum(self.n_tokens)

    def layer(self, number: int) -> Iterator[Array]:
        """[H, n, n] float32 of every sentence, in the order of `ordinals`."""
        whole = self._file.get_tensor(f"attention.{number}")
        parts = np.split(whole, (self.n_heads * self._ends[:-1]).tolist())
        for part, side in zip(parts, self.sides.tolist(), strict=True):
            yield part.reshape(self.n_heads, side, side).astype(np.float32, copy=False)

    def attention(self, layer: int, index: int) -> Array:
        """[H, n, n] float32 of one sentence; only its bytes are read."""
        side = int(self.sides[index])
        stop = int(self._ends[index])
        cells = slice(self.n_heads * (stop - side**2), self.n_heads * stop)
        flat = self._file.get_slice(f"attention.{layer}")[cells]
        return np.asarray(flat, dtype=np.float32).reshape(self.n_heads, side, side)

    def sight(self, layer: int) -> int:
        """Number that layers share which see alike; `PLAIN` where nothing is special."""
        return PLAIN if self._sights is None else int(self._sights[layer])

    def visible(self, layer: int, index: int) -> Array | None:
        """[n, n] True where the query saw the key; None where it is as the model is causal."""
        sight = self.sight(layer)
        if sight == PLAIN:
            return None
        side = int(self.sides[index])
        stop = int(self._byte_ends[index])
        bits = self._file.get_slice(f"visible.{sight}")[stop - int(self._bytes[index]) : stop]
        return np.unpackbits(bits, count=side**2).astype(bool).reshape(side, side)

    def hidden(self, number: int) -> Iterator[Array]:
        """[T, d] float32 of every sentence, in the order of `ordinals`."""
        whole = self._file.get_tensor(f"hidden.{number}").astype(np.float32, copy=False)
        yield from np.split(whole, self._token_ends[:-1].tolist())

    def tokens(self) -> Iterator[Mapping[str, Array]]:
        """`ids`, `word_of` and `special` [T] of every sentence, as in `Pieces`."""
        cuts = self._token_ends[:-1].tolist()
        parts = [np.split(self._file.get_tensor(name), cuts) for name in _TOKENS]
        for arrays in zip(*parts, strict=True):
            yield dict(zip(_TOKENS, arrays, strict=True))

    def ids(self, index: int) -> Ints:
        """[T] token ids of one sentence."""
        stop = int(self._token_ends[index])
        cut: Ints = self._file.get_slice("ids")[stop - int(self.n_tokens[index]) : stop]
        return cut
