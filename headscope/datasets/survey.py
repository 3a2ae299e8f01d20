"""One quick pass over a treebank when it is opened: readable, annotated, in documents?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headscope.datasets.conllu import is_blank, opens_document
from headscope.datasets.files import lines
from headscope.errors import ParseError


@dataclass(frozen=True, slots=True)
class Survey:
    """What a treebank holds, before any sentence of it is checked.

    Attributes:
        n_words: number of words (rows with an integer ID).
        n_sentences: number of sentences, told by their first words.
        documents: whether documents are marked (`# newdoc`).
    """

    n_words: int
    n_sentences: int
    documents: bool


def survey_conllu(path: Path) -> Survey:
    """Reads the file once; raises ParseError where it has no sentence or no tree anywhere.

    Every HEAD 0 means that nobody annotated the file (released dummies look so), not that each
    sentence is broken; a file of one-word sentences has only roots by right.
    """
    n_words, n_sentences = 0, 0
    documents, rows, headed, long_sentence = False, False, False, False
    for text in lines(path):
        if text.startswith("#"):
            documents = documents or opens_document(text)
            continue
        rows = rows or not is_blank(text)
        number, _, rest = text.partition("\t")
        if not number.isdigit():
            continue
        n_words += 1
        n_sentences += number == "1"
        if not headed:
            long_sentence = long_sentence or number == "2"
            columns = rest.split("\t", 6)
            headed = len(columns) < 7 or columns[5] != "0"
    if not rows:
        raise ParseError(path, 1, "no sentence (comments or empty lines only)", "CoNLL-U sentences")
    if long_sentence and not headed:
        raise ParseError(
            path, None, f"HEAD 0 on every one of {n_words:,} words: the file is not annotated",
            "syntactic heads in column 7", "get the annotated release, or parse the text",
        )  # fmt: skip
    return Survey(n_words, n_sentences, documents)
