"""A few sentences kept whole, for the report's explorer."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
import numpy.typing as npt
import torch

from headscope.datasets import Sentence
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.observers import Block, Resampling, refuse_unlike, run_of
from headscope.extraction.words import Merger, Pieces, Rows
from headscope.results import Example

MIN_WORDS, MAX_WORDS = 5, 24
"""Lengths of sentences that can be looked at: neither trivial nor too wide for a page."""


@final
class Examples:
    """Keeps the word-level attention of some sentences, chosen by seed and place in the file.

    Args:
        encoder: whose attention is watched.
        resampling: whose seed and corpus also fix the choice.
        n_wanted: how many sentences at most.
        rows: how the rows of a split word's pieces become the word's row.
    """

    needs: Literal["maps"] = "maps"

    def __init__(
        self, encoder: Encoder, resampling: Resampling, n_wanted: int, rows: Rows = "mean"
    ) -> None:
        """Starts with none."""
        self.encoder = encoder
        self.resampling = resampling
        self.n_wanted = n_wanted
        self.rows: Rows = rows
        self.kept: dict[int, tuple[int, Example]] = {}
        self._open: tuple[Batch, dict[int, npt.NDArray[np.float32]]] | None = None

    def update(self, block: Block) -> None:
        """Takes in one layer's whole map."""
        batch, probs = block.batch, block.probs
        if self._open is None or self._open[0] is not batch:
            self._open = batch, {row: self._blank(batch, row) for row in self._candidates(batch)}
        for row, whole in self._open[1].items():
            node_of, n_nodes = nodes_of(batch.pieces[row])
            length = len(node_of)
            merger = Merger(torch.from_numpy(node_of).unsqueeze(0), n_nodes, self.rows)
            merged = merger.merge(probs[row : row + 1, :, :length, :length].cpu())
            whole[block.layer] = merged[0].to(torch.float32).numpy()

    def _blank(self, batch: Batch, row: int) -> npt.NDArray[np.float32]:
        """[L, H, N, N] NaN: what stays of layers that are not seen."""
        n_nodes = nodes_of(batch.pieces[row])[1]
        shape = (self.encoder.n_layers, self.encoder.n_heads, n_nodes, n_nodes)
        return np.full(shape, np.nan, dtype=np.float32)

    def close(self, batch: Batch) -> None:
        """Keeps the batch's candidates, and of all only as many as are wanted."""
        _, candidates = self._open or (batch, {})
        for row, whole in candidates.items():
            sentence = batch.sentences[row]
            example = _example(sentence, batch.pieces[row], whole)
            self.kept[sentence.ordinal] = (self._rank(sentence), example)
        self._open = None
        self._cut()

    def __add__(self, other: Examples) -> Examples:
        """A new observer that has seen what both have seen.

        Raises:
            MergeError: other model, seed, corpus, number or row rule.
        """
        refuse_unlike("examples", self._settings(), other._settings())
        whole = Examples(self.encoder, self.resampling, self.n_wanted, self.rows)
        whole.kept = self.kept | other.kept
        whole._cut()
        return whole

    def result(self) -> tuple[Example, ...]:
        """The examples in the order of the file."""
        return tuple(example for _, (_, example) in sorted(self.kept.items()))

    def _settings(self) -> dict[str, object]:
        own = {"number": self.n_wanted, "rows": self.rows}
        return run_of(self.encoder, self.resampling) | own

    def _rank(self, sentence: Sentence) -> int:
        return self.resampling.rank(sentence.ordinal)

    def _candidates(self, batch: Batch) -> list[int]:
        worst = max((rank for rank, _ in self.kept.values()), default=-1)
        full = len(self.kept) >= self.n_wanted
        return [
            row
            for row, sentence in enumerate(batch.sentences)
            if MIN_WORDS <= len(sentence.words) <= MAX_WORDS
            and not (full and self._rank(sentence) > worst)
        ]

    def _cut(self) -> None:
        best = sorted(self.kept.items(), key=lambda item: item[1][0])[: self.n_wanted]
        self.kept = dict(best)


def nodes_of(pieces: Pieces) -> tuple[npt.NDArray[np.int64], int]:
    """(node of each token [T], number of nodes): words in order, special tokens where they stand.

    A word without a piece is a node that no token belongs to, after the word before it.
    """
    keys: list[tuple[float, int]] = [(float(t), -1) for t in np.flatnonzero(pieces.special)]
    place = -0.5
    for word in range(pieces.n_words):
        tokens = np.flatnonzero(pieces.word_of == word)
        place = float(tokens[0]) if len(tokens) else place + 1e-3
        keys.append((place, word))
    order = {key: node for node, key in enumerate(sorted(keys))}
    of_word = {word: node for (_, word), node in order.items() if word >= 0}
    node_of = [
        order[(float(token), -1)] if pieces.special[token] else of_word[int(word)]
        for token, word in enumerate(pieces.word_of)
    ]
    return np.array(node_of, dtype=np.int64), len(keys)


def _example(sentence: Sentence, pieces: Pieces, attention: npt.NDArray[np.float32]) -> Example:
    node_of, n_nodes = nodes_of(pieces)
    word_of: list[int | None] = [None] * n_nodes
    present = {int(node_of[t]) for t in np.flatnonzero(pieces.special)}
    words = iter(range(pieces.n_words))
    for node in range(n_nodes):
        word_of[node] = None if node in present else next(words)
    names = iter(pieces.special_names)
    nodes = tuple(next(names) if word is None else sentence.words[word] for word in word_of)
    return Example(
        sent_id=sentence.sent_id,
        nodes=nodes,
        word_of=tuple(word_of),
        heads=sentence.heads,
        relations=sentence.relations,
        attention=attention,
    )
