"""Single sentences kept for looking at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Example:
    """One sentence with the word-level attention of every head.

    Attributes:
        sent_id: the file's name of the sentence.
        nodes: the words in order, with special tokens where they stand, N of them.
        word_of: for each node the 0-based number of its word, None for a special token.
        heads, relations: of the words, as in `Sentence`.
        attention: [L, H, N, N] float32, rows are queries (from), columns are keys (to).
    """

    sent_id: str
    nodes: tuple[str, ...]
    word_of: tuple[int | None, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    attention: npt.NDArray[np.float32]
