"""Maps of a batch cut into those of single sentences, between pieces or between words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor

from headscope.errors import unknown
from headscope.extraction.batches import Batch
from headscope.extraction.words import Merger, Rows

Level = Literal["subword", "word"]
"""Between what attention is kept: pieces of the tokenizer, or words."""


@dataclass
class SentenceMaps:
    """Cuts whole maps of a batch, padding left out.

    Attributes:
        n_heads: H.
        level: `subword` for maps between all tokens, `word` for maps between words.
        rows: how the rows of a split word's pieces become the word's row.
    """

    n_heads: int
    level: Level = "subword"
    rows: Rows = "mean"
    _merger: tuple[Batch, Batch, Merger] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuses names that do not exist."""
        if self.level not in get_args(Level):
            raise unknown("level", self.level, get_args(Level))
        if self.rows not in get_args(Rows):
            raise unknown("rows", self.rows, get_args(Rows))

    def sides(self, batch: Batch) -> list[int]:
        """Side of the map of each sentence: its tokens, or its words."""
        whole = self.level == "subword"
        return [len(pieces.ids) if whole else pieces.n_words for pieces in batch.pieces]

    def cut(self, probs: Tensor, batch: Batch, keys: Batch | None = None) -> list[Tensor]:
        """[B, H, T, K] -> for each sentence [H, n, m] float32, a view where it can be.

        Args:
            probs: whole maps.
            batch: whose tokens are the queries.
            keys: whose tokens are the keys; None: the same.
        """
        keys = batch if keys is None else keys
        if self.level == "word":
            probs = self._merger_of(batch, keys).merge(probs)
        sides = zip(self.sides(batch), self.sides(keys), strict=True)
        return [probs[row, :, :n, :m].float() for row, (n, m) in enumerate(sides)]

    def _merger_of(self, batch: Batch, keys: Batch) -> Merger:
        """The merger of a batch, made once for all its layers."""
        known = self._merger
        if known is not None and known[0] is batch and known[1] is keys:
            return known[2]
        columns = None if keys is batch else (keys.word_of, keys.n_words)
        merger = Merger(batch.word_of, batch.n_words, self.rows, columns=columns)
        self._merger = batch, keys, merger
        return merger
