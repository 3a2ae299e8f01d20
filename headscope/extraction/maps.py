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
    _merger: tuple[Batch, Merger] | None = field(default=None, repr=False)

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

    def cut(self, probs: Tensor, batch: Batch) -> list[Tensor]:
        """[B, H, T, T] -> for each sentence [H, n, n] float32, a view where it can be."""
        if self.level == "word":
            if self._merger is None or self._merger[0] is not batch:
                self._merger = batch, Merger(batch.word_of, batch.n_words, self.rows)
            probs = self._merger[1].merge(probs)
        sides = enumerate(self.sides(batch))
        return [probs[row, :, :side, :side].float() for row, side in sides]
