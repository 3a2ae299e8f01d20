"""Single sentences kept for looking at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NOT_TOKENS = "its queries or keys are not the tokens, but pooled ones"
"""Why a layer has no attention between tokens."""


@dataclass(frozen=True)
class Example:
    """One sentence with the word-level attention of every head.

    Attributes:
        sent_id: the file's name of the sentence.
        nodes: the words in order, with special tokens where they stand, N of them.
        word_of: for each node the 0-based number of its word, None for a special token.
        heads, relations: of the words, as in `Sentence`.
        attention: [L, H, N, N] float32, rows are queries (from), columns are keys (to); NaN
            in layers that cannot be seen.
    """

    sent_id: str
    nodes: tuple[str, ...]
    word_of: tuple[int | None, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def unseen(self) -> tuple[int, ...]:
        """Numbers of the layers that cannot be seen: `NOT_TOKENS` says why."""
        return tuple(np.flatnonzero(np.isnan(self.attention).all((1, 2, 3))).tolist())
