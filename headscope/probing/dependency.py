"""Per-head dependency accuracy: does the strongest attention of a word go to its syntactic head?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headscope.datasets import OUTSIDE, Sentence, coarse
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask
from headscope.extraction.observers import (
    MIN_UNITS,
    Block,
    Floats,
    Resampling,
    refuse_unlike,
    run_of,
)
from headscope.extraction.words import Merger, Rows
from headscope.probing.relations import OFFSETS, totals_of
from headscope.results import RelationScore

FLUSH_ROWS = 8192
"""Words whose hits are held before they are added to the sums."""


@final
class Dependency:
    """Adds up, per relation, how often each head points at the syntactic head, under all weights.

    Args:
        encoder: whose attention is watched.
        resampling: weights of the units.
        rows: how the rows of a split word's pieces become the word's row.
        coarse_labels: cut relations at ":".

    Attributes:
        sums: relation -> [C, K] float64 weighted hits; the K columns are dependent_to_head [L*H],
            head_to_dependent [L*H], the offsets in the order of `OFFSETS`, arcs that can be seen
            dependent_to_head [L] and head_to_dependent [L], and cases.
        units: relation -> the smallest ids of units that bear it, `MIN_UNITS` at most.
        skipped: arcs that were not scored, by reason.
    """

    needs: Literal["maps"] = "maps"
    only_words: Literal[True] = True
    """Attention between words is all it looks at, so that a record of that will do."""

    def __init__(
        self,
        encoder: Encoder,
        resampling: Resampling,
        *,
        rows: Rows = "mean",
        coarse_labels: bool = False,
    ) -> None:
        """Starts with empty sums."""
        self.encoder = encoder
        self.resampling = resampling
        self.rows: Rows = rows
        self.coarse_labels = coarse_labels
        self.sums: dict[str, Floats] = {}
        self.units: dict[str, frozenset[int]] = {}
        self.skipped = {"arcs_on_missing_words": 0, "arcs_across_windows": 0}
        self._open: _OpenBatch | None = None
        self._pending: list[_Hits] = []

    def update(self, block: Block) -> None:
        """Takes in one layer's whole map."""
        if self._open is None or self._open.batch is not block.batch:
            label = coarse if self.coarse_labels else str
            self._open = _OpenBatch.of(block.batch, self.encoder, self.rows, label)
        self._open.add(block)

    def close(self, batch: Batch) -> None:
        """Keeps the batch's hits, and adds them to the sums when enough are held."""
        opened, self._open = self._open, None
        if opened is None or opened.batch is not batch:
            return
        self.skipped["arcs_on_missing_words"] += opened.arcs.n_missing
        self.skipped["arcs_across_windows"] += opened.arcs.n_across
        self._pending.append(opened.hits())
        if sum(len(hits.units) for hits in self._pending) >= FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Adds the held hits to the sums of their relations, under every column of weights."""
        if not self._pending:
            return
        labels = np.concatenate([hits.labels for hits in self._pending])
        units = np.concatenate([hits.units for hits in self._pending])
        table = np.concatenate([hits.table for hits in self._pending])
        self._pending = []
        names, codes = np.unique(labels, return_inverse=True)
        ids, places = np.unique(units, return_inverse=True)
        # float32 holds whole numbers exactly up to 2**24, far above what one flush can count.
        weights = self.resampling.weights(ids).astype(np.float32)
        for code, name in enumerate(names.tolist()):
            chosen = codes == code
            added = weights[places[chosen]].T @ table[chosen].astype(np.float32)
            self.sums[name] = self.sums.get(name, 0.0) + added.astype(np.float64)
            seen = self.units.get(name, frozenset()) | set(units[chosen].tolist())
            self.units[name] = frozenset(sorted(seen)[:MIN_UNITS])

    def totals(self) -> tuple[dict[str, Floats], dict[str, frozenset[int]]]:
        """`sums` and `units` with everything seen so far added."""
        self._flush()
        return self.sums, self.units

    def result(self) -> tuple[dict[str, RelationScore], dict[str, RelationScore]]:
        """Scores per relation, most frequent first; scores over all arcs and without punct."""
        shape = (self.encoder.n_layers, self.encoder.n_heads)
        return totals_of(*self.totals(), shape, self.encoder.unseen)

    def __add__(self, other: Dependency) -> Dependency:
        """A new observer that has seen what both have seen.

        Raises:
            MergeError: other model, seed, corpus, row rule or labels.
        """
        refuse_unlike("dependency sums", self._settings(), other._settings())
        whole = Dependency(
            self.encoder, self.resampling, rows=self.rows, coarse_labels=self.coarse_labels
        )
        for part in (self, other):
            sums, units = part.totals()
            for name, added in sums.items():
                whole.sums[name] = whole.sums.get(name, 0.0) + added
                seen = whole.units.get(name, frozenset()) | units[name]
                whole.units[name] = frozenset(sorted(seen)[:MIN_UNITS])
            for reason, count in part.skipped.items():
                whole.skipped[reason] += count
        return whole

    def _settings(self) -> dict[str, object]:
        own = {"rows": self.rows, "coarse labels": self.coarse_labels}
        return run_of(self.encoder, self.resampling) | own


@dataclass(frozen=True)
class _Arcs:
    """The scorable words of a batch: those with a syntactic head, both ends with pieces.

    Attributes:
        sentence, word, head: [n] place in the batch, 0-based word, 0-based syntactic head.
        labels: [n] relations; units: [n] ids of resampling units.
        n_missing: arcs left out because one end has no piece.
        n_across: arcs left out because the other end is in another window.
    """

    sentence: npt.NDArray[np.int64]
    word: npt.NDArray[np.int64]
    head: npt.NDArray[np.int64]
    labels: npt.NDArray[np.str_]
    units: npt.NDArray[np.int64]
    n_missing: int
    n_across: int

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sentence],
        missing: npt.NDArray[np.bool_],
        label: Callable[[str], str],
    ) -> _Arcs:
        lengths = np.array([len(s.words) for s in sentences], dtype=np.int64)
        row = np.repeat(np.arange(len(sentences)), lengths)
        word = np.concatenate([np.arange(n) for n in lengths])
        head = np.array([h for s in sentences for h in s.heads], dtype=np.int64) - 1
        labels = np.array([label(r) for s in sentences for r in s.relations], dtype=np.str_)
        new = np.concatenate([np.arange(len(s.words)) >= s.n_context for s in sentences])
        is_arc = (head >= 0) & new
        scorable = is_arc & ~missing[row, word] & ~missing[row, head]
        units = np.array([s.unit for s in sentences], dtype=np.int64)
        row = row[scorable]
        return cls(
            sentence=row,
            word=word[scorable],
            head=head[scorable],
            labels=labels[scorable],
            units=units[row],
            n_missing=int(is_arc.sum() - scorable.sum()),
            n_across=int(((head == OUTSIDE - 1) & new).sum()),
        )

    def offset_hits(self) -> npt.NDArray[np.bool_]:
        """[n, offsets] whether the word that far away is the syntactic head."""
        hits: npt.NDArray[np.bool_] = (self.head - self.word).reshape(-1, 1) == np.array(OFFSETS)
        return hits


@dataclass(frozen=True)
class _Hits:
    """Scored words: relation [n], unit [n] and hits [n, K]."""

    labels: npt.NDArray[np.str_]
    units: npt.NDArray[np.int64]
    table: npt.NDArray[np.bool_]


@dataclass
class _OpenBatch:
    """Hits of a batch that is still running through the model."""

    batch: Batch
    merger: Merger
    arcs: _Arcs
    right: Tensor
    """[n, 2, L, H] whether the word's pick is its syntactic head."""
    visible: Tensor
    """[n, 2, L] whether the word that attends may see the other end of the arc."""
    _known: dict[Mask | None, Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls, batch: Batch, encoder: Encoder, rows: Rows, label: Callable[[str], str]
    ) -> _OpenBatch:
        merger = Merger(batch.word_of, batch.n_words, rows)
        arcs = _Arcs.of(batch.sentences, merger.missing.cpu().numpy(), label)
        shape = (len(arcs.word), 2, encoder.n_layers)
        right = torch.zeros(*shape, encoder.n_heads, dtype=torch.bool)
        return cls(batch, merger, arcs, right, torch.zeros(shape, dtype=torch.bool))

    def add(self, block: Block) -> None:
        picks = predicted_heads(self.merger.merge(block.probs))
        gold = torch.from_numpy(self.arcs.head).unsqueeze(1)
        for direction, pick in enumerate(picks):
            chosen = pick.cpu()[self.arcs.sentence, :, self.arcs.word]
            self.right[:, direction, block.layer] = chosen == gold
        if block.mask not in self._known:
            self._known[block.mask] = self._seen(block)
        self.visible[:, :, block.layer] = self._known[block.mask]

    def _seen(self, block: Block) -> Tensor:
        """[n, 2] whether any of the attending word's pieces may see one of the other word's."""
        words = (self.merger.merge(block.visible().float()) > 0)[:, 0].cpu()
        sentence, word, head = self.arcs.sentence, self.arcs.word, self.arcs.head
        return torch.stack([words[sentence, word, head], words[sentence, head, word]], 1)

    def hits(self) -> _Hits:
        n = len(self.arcs.word)
        columns = (
            self.right.flatten(1).numpy(),
            self.arcs.offset_hits(),
            self.visible.flatten(1).numpy(),
            np.ones((n, 1), dtype=bool),
        )
        return _Hits(self.arcs.labels, self.arcs.units, np.concatenate(columns, axis=1))


def predicted_heads(words: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted syntactic head of every word, both directions: [B, H, W] 0-based, -1 for none.

    words: [B, H, W, W] attention between words, whose diagonal is set to 0 in place. Ties go to the
    lowest index; a word whose row (or column) has no mass elsewhere predicts nothing.
    """
    words.diagonal(dim1=2, dim2=3).zero_()
    to_head, from_head = words.max(3), words.max(2)
    return tuple(pick.masked_fill(best <= 0, -1) for best, pick in (to_head, from_head))  # type: ignore[return-value]
