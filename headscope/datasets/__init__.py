"""What people bring: treebanks, texts, pairs of texts and a sample, read as sentences of words."""

from headscope.datasets.conllu import ConlluSentence, read_conllu, write_conllu
from headscope.datasets.pairs import columns_of
from headscope.datasets.sentences import OUTSIDE, Annotation, Corpus, Sentence, Unit, coarse
from headscope.datasets.sources import open_corpus

__all__ = [
    "OUTSIDE",
    "Annotation",
    "ConlluSentence",
    "Corpus",
    "Sentence",
    "Unit",
    "coarse",
    "columns_of",
    "open_corpus",
    "read_conllu",
    "write_conllu",
]
