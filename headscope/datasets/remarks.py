"""What is legal in a corpus but may surprise: noticed while it is read, told in one line each."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import islice

from headscope.datasets.sentences import Sentence


def remarked(
    sentences: Iterator[Sentence], warnings: list[str], limit: int | None = None
) -> Iterator[Sentence]:
    """The first `limit` sentences unchanged; remarks are added to `warnings` when reading ends."""
    seen: set[str] = set()
    repeated: list[str] = []
    decomposed: list[str] = []
    n_read = n_single = 0
    first_single = ""
    try:
        for sentence in islice(sentences, limit):
            place = f"'{sentence.sent_id}' at line {sentence.line}"
            if sentence.sent_id != str(sentence.ordinal + 1):  # else a number of ours, never twice
                if sentence.sent_id in seen:
                    repeated.append(place)
                seen.add(sentence.sent_id)
            if not all(unicodedata.is_normalized("NFC", word) for word in sentence.words):
                decomposed.append(place)
            n_read += 1
            if sentence.n_first is None:
                n_single += 1
                first_single = first_single or place
            yield sentence
    finally:
        if repeated:
            warnings.append(
                f"sentence ids given before: {len(repeated):,}, the first {repeated[0]}; "
                "every sentence is read"
            )
        if decomposed:
            warnings.append(
                f"sentences not in Unicode normal form NFC: {len(decomposed):,}, the first "
                f"{decomposed[0]}; a tokenizer may cut them otherwise than composed text"
            )
        if 0 < n_single < n_read:
            warnings.append(
                f"rows without a second text among pairs: {n_single:,}, the first {first_single}; "
                "each is read as one text"
            )
