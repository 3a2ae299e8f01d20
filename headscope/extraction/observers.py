"""What watches attention: the protocol of observers, and resampling by weighted sums."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from headscope.errors import MergeError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask

N_BOOTSTRAP = 200
N_SPLITS = 10
MIN_UNITS = 10
"""Fewer resampling units give no interval and no held-out figure."""

MIN_CASES = 5
"""Fewer cases in one half of a split give no held-out figure."""

Floats = npt.NDArray[np.float64]
_U64 = np.uint64


@dataclass(frozen=True, eq=False)
class Block:
    """Query rows start, start + 1, ... of one layer's attention, for one batch.

    Attributes:
        layer: 0-based number of the layer.
        start: number of the first row.
        probs: [B, H, rows, K] float32; the keys are those from `first_key` on, and all others get
            no attention from these rows. Rows at padding hold anything.
        batch: whose tokens are the queries.
        keys: whose tokens are the keys: the same batch, except for cross-attention.
        mask: which keys a query may see; None where it may see all, padding included. Layers that
            see alike share the object within a pass.
        first_key: number of the first key.
        scores: [B, H, rows, K] whose softmax the probabilities are, where they are at hand; only
            for the length of one `update`.
    """

    layer: int
    start: int
    probs: Tensor
    batch: Batch
    keys: Batch
    mask: Mask | None = None
    first_key: int = 0
    scores: Tensor | None = None

    @property
    def stop(self) -> int:
        """Number of the row after the last."""
        return self.start + self.probs.shape[2]

    def visible(self) -> Tensor:
        """[B, 1, rows, K] True where the query may see the key; keys of padding are never seen."""
        last = self.first_key + self.probs.shape[3]
        valid = self.keys.valid[:, None, None, self.first_key : last]
        if self.mask is None:
            return valid.expand(-1, -1, self.probs.shape[2], -1)
        return valid & self.mask.visible(self.start, self.stop)[..., self.first_key : last]


class Observer(Protocol):
    """Adds up something about attention while batches stream by, and owns its float64 sums.

    An observer also has `__add__`, which merges two of the same settings, and `result()`, which can
    be called at any time and changes nothing.

    `needs` says what it is given: `rows`, any number of blocks of query rows a layer, or `maps`,
    one block a layer that holds the whole map.
    """

    @property
    def needs(self) -> Literal["rows", "maps"]:
        """Whether blocks of rows will do, or whole maps are wanted."""

    def update(self, block: Block) -> None:
        """Takes in some rows of one layer, or all."""

    def close(self, batch: Batch) -> None:
        """Adds the batch to the sums; called once all its layers have been seen."""

    def __add__(self, other: Self) -> Self:
        """A new observer that has seen what both have seen."""


@runtime_checkable
class TakesStates(Protocol):
    """An observer that can also be handed the hidden states of a batch, after its attention."""

    @property
    def wants_states(self) -> bool:
        """Whether it is; a pass then runs to its end."""

    def take_states(self, batch: Batch, states: Sequence[Tensor]) -> None:
        """Takes in [B, T, d] of the embeddings, then of every layer's output."""


@dataclass(frozen=True)
class Resampling:
    """Weights of every resampling unit, fixed by seed, corpus and place in the file alone.

    Columns: 1 of ones; `N_BOOTSTRAP` of Poisson(1) draws, the online bootstrap (Oza and Russell
    2001); `N_SPLITS` of 0 or 1, two-way splits. Sums under all columns at once make
    intervals and held-out choices independent of the order in which sentences arrive.

    Attributes:
        seed: of all draws.
        corpus: fingerprint of the data.
    """

    seed: int
    corpus: str

    def weights(self, units: npt.ArrayLike) -> Floats:
        """[n, 1 + N_BOOTSTRAP + N_SPLITS] for units [n]; the same unit always gets the same row."""
        ids = np.asarray(units, dtype=np.uint64).reshape(-1, 1)
        columns = np.arange(N_BOOTSTRAP + N_SPLITS, dtype=np.uint64).reshape(1, -1)
        drawn = _mix(_mix(_mix(ids + self._key) + columns))
        uniform = (drawn[:, :N_BOOTSTRAP] >> _U64(11)).astype(np.float64) * 2.0**-53
        weights = np.ones((len(ids), 1 + N_BOOTSTRAP + N_SPLITS))
        weights[:, 1 : 1 + N_BOOTSTRAP] = np.searchsorted(_POISSON, uniform, side="right")
        weights[:, 1 + N_BOOTSTRAP :] = drawn[:, N_BOOTSTRAP:] >> _U64(63)
        return weights

    def rank(self, ordinal: int) -> int:
        """A place in a random order of the sentences; the smallest ranks are a random sample."""
        return int(_mix(_mix(np.array([ordinal], dtype=np.uint64) ^ self._key) + _U64(1))[0])

    @property
    def _key(self) -> npt.NDArray[np.uint64]:
        corpus = _U64(int(self.corpus[:16] or "0", 16))
        return corpus ^ _mix(np.array([self.seed], dtype=np.uint64))


def run_of(encoder: Encoder, resampling: Resampling) -> dict[str, object]:
    """What two observers must share for their sums to add up to those of one run."""
    info = encoder.info
    return {
        "weights": f"{info.weights_sha256[:12]} in {info.dtype}",
        "heads": f"{info.n_layers} x {info.n_heads}",
        "seed": resampling.seed,
        "corpus": resampling.corpus[:12],
    }


def refuse_unlike(what: str, one: Mapping[str, object], other: Mapping[str, object]) -> None:
    """Stops a merge of different runs.

    Raises:
        MergeError: names every setting that differs.
    """
    apart = [f"{name} {one[name]} and {other[name]}" for name in one if one[name] != other[name]]
    if apart:
        raise MergeError(f"cannot add {what} of different runs: {'; '.join(apart)}")


BOOTSTRAP = slice(1, 1 + N_BOOTSTRAP)
SPLITS = slice(1 + N_BOOTSTRAP, 1 + N_BOOTSTRAP + N_SPLITS)


def percentile_interval(replicates: Floats) -> tuple[Floats, Floats]:
    """2.5 and 97.5 % points over the first axis; replicates without a case (NaN) do not count.

    NaN where no replicate has a case.
    """
    if np.isfinite(replicates).all():
        low, high = np.percentile(replicates, [2.5, 97.5], axis=0)
        return low, high
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice", RuntimeWarning)
        low, high = np.nanpercentile(replicates, [2.5, 97.5], axis=0)
    return low, high


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The SplitMix64 output function (Steele, Lea and Flood 2014): 64 well-mixed bits a value."""
    with np.errstate(over="ignore"):
        mixed = values + _U64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> _U64(27))) * _U64(0x94D049BB133111EB)
        return mixed ^ (mixed >> _U64(31))


def _poisson_thresholds() -> Floats:
    """Cumulative probabilities of Poisson(1) for 0, 1, 2, ... up to where float64 reaches 1."""
    probabilities = [np.exp(-1.0)]
    for count in range(1, 18):
        probabilities.append(probabilities[-1] / count)
    return np.cumsum(probabilities)


_POISSON = _poisson_thresholds()
