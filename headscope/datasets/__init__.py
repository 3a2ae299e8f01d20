"""What people bring: treebanks, plain text, and the bundled sample, read as sentences of words."""

from headscope.datasets.conllu import ConlluSentence, read_conllu, write_conllu
from headscope.datasets.sentences import Annotation, Corpus, Sentence, Unit, coarse
from headscope.datasets.sources import open_corpus

__all__ = [
    "Annotation",
    "ConlluSentence",
    "Corpus",
    "Sentence",
    "Unit",
    "coarse",
    "open_corpus",
    "read_conllu",
    "write_conllu",
]
