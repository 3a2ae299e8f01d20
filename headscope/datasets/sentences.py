"""What every reader yields: a sentence of syntactic words, annotated or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Unit = Literal["document", "sentence", "window"]
"""What intervals resample: documents where marked, else sentences or windows of sentences."""

OUTSIDE = -1
"""Stands for a syntactic head in another window, where a long sentence had to be cut."""

Annotation = Literal["gold", "parsed"]
"""Who drew the trees: people (a treebank) or a parser (spaCy)."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: its syntactic words, their heads and relations, and its resampling unit.

    One row of a table of pairs is one such sentence, however many sentences its texts have: it has
    several roots then.

    Attributes:
        words: forms of the syntactic words, in order, W of them.
        heads: for each word the 1-based number of its syntactic head, 0 for the root, `OUTSIDE` for
            one that is not among these words.
        relations: for each word its relation to its head, subtype included, such as `nsubj:pass`.
        upos: for each word its universal part of speech, `_` where not annotated.
        sent_id: the file's own name of the sentence, else its 1-based number in the file.
        ordinal: 0-based number of the sentence in the file.
        unit: 0-based number in the file of the resampling unit: the document where the data mark
            documents, else the sentence itself.
        line: 1-based number of the line on which the sentence begins.
        n_first: of a pair of texts, how many of the words are those of the first text; None where
            there is one text only.
        label: what the data say about the sentence or pair, None where they say nothing.
        target: the text that a decoder is to write, None where the data have none.
        n_context: how many of its first words are only attended to: of a window of sentences, those
            that an earlier window has scored.
        n_sentences: how many sentences of the file it stands for, those of its context left out.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    upos: tuple[str, ...]
    sent_id: str
    ordinal: int
    unit: int
    line: int
    n_first: int | None = None
    label: str | None = None
    target: Sentence | None = None
    n_context: int = 0
    n_sentences: int = 1


@dataclass(frozen=True)
class Corpus:
    """A data source that can be read any number of times, one sentence at a time.

    Attributes:
        name: as the user gave it (file name without folders), or `demo`.
        sha256: of the bytes of the file as they lie on disk.
        format: `conllu`, `text` or `pairs`.
        unit: what intervals resample, `document`, `sentence` or `window`.
        annotation: `gold` or `parsed`.
        note: one line that every report repeats (a cut, a parser's name), or an empty string.
        read: opens the source anew and yields its sentences; raises InputError or ParseError.
        skipped: sentences that the last `read` left out under `--skip-bad`, one message each;
            emptied when a read begins.
        warnings: what the last `read` met that is legal but may surprise, one line each: sentence
            ids given twice, text that is not in Unicode normal form NFC; emptied likewise.
        n_sentences: how many a read yields at most, for progress bars; None where nobody knows.
        record: the folder of a record of attention, of which these are the sentences; None where
            a model has to be run.
    """

    name: str
    sha256: str
    format: str
    unit: Unit
    annotation: Annotation
    note: str
    read: Callable[[], Iterator[Sentence]]
    skipped: list[str]
    warnings: list[str] = field(default_factory=list)
    n_sentences: int | None = None
    record: Path | None = None

    @property
    def item(self) -> str:
        """What is read one by one: a sentence, or a row of a table of texts."""
        return "row" if self.format == "pairs" else "sentence"


_OLD_LABELS = {"nsubjpass": "nsubj", "csubjpass": "csubj", "auxpass": "aux"}


def coarse(relation: str) -> str:
    """The relation without its subtype; the passive labels of UD 1 lose theirs too.

    >>> coarse("nsubj:pass"), coarse("nsubjpass"), coarse("obj")
    ('nsubj', 'nsubj', 'obj')
    """
    label = relation.partition(":")[0]
    return _OLD_LABELS.get(label, label)
