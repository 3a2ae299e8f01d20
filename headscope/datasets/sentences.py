"""What every reader yields: a sentence of syntactic words, annotated or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Annotation = Literal["gold", "parsed"]
"""Who drew the trees: people (a treebank) or a parser (spaCy)."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: syntactic words, their heads and relations, and the resampling unit it belongs to.

    Attributes:
        words: forms of the syntactic words, in order, W of them.
        heads: for each word the 1-based number of its syntactic head, 0 for the root.
        relations: for each word its relation to its head, subtype included, such as `nsubj:pass`.
        upos: for each word its universal part of speech, `_` where not annotated.
        sent_id: the file's own name of the sentence, else its 1-based number in the file.
        ordinal: 0-based number of the sentence in the file.
        unit: 0-based number in the file of the resampling unit: the document where the data mark
            documents, else the sentence itself.
        line: 1-based number of the line on which the sentence begins.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    upos: tuple[str, ...]
    sent_id: str
    ordinal: int
    unit: int
    line: int


@dataclass(frozen=True)
class Corpus:
    """A data source that can be read any number of times, one sentence at a time.

    Attributes:
        name: as the user gave it (file name without folders), or `demo`.
        sha256: of the bytes of the file as they lie on disk.
        format: `conllu` or `text`.
        unit: what intervals resample, `document` or `sentence`.
        annotation: `gold` or `parsed`.
        note: one line that every report repeats (a cut, a parser's name), or an empty string.
        read: opens the source anew and yields its sentences; raises InputError or ParseError.
        skipped: sentences that the last `read` left out under `--skip-bad`, one message each;
            emptied when a read begins.
    """

    name: str
    sha256: str
    format: str
    unit: Literal["document", "sentence"]
    annotation: Annotation
    note: str
    read: Callable[[], Iterator[Sentence]]
    skipped: list[str]
