import dataclasses

import pytest

from headscope.datasets import Corpus, Sentence, coarse


@pytest.mark.parametrize(
    ("relation", "label"),
    [
        ("nsubj", "nsubj"),
        ("nsubj:pass", "nsubj"),
        ("nsubjpass", "nsubj"),
        ("csubjpass", "csubj"),
        ("auxpass", "aux"),
        ("my:own:rel", "my"),
        ("AUX:PASS", "AUX"),
        ("_", "_"),
    ],
)
def test_coarse_cuts_the_subtype_and_maps_old_labels(relation, label):
    assert coarse(relation) == label


def test_sentences_are_frozen_and_equal_by_value():
    sentence = Sentence(("Go",), (0,), ("root",), ("VERB",), "1", 0, 0, 1)
    assert sentence == dataclasses.replace(sentence)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sentence.words = ()


def test_a_corpus_has_its_own_list_of_warnings():
    one, two = (
        Corpus("x", "0", "conllu", "sentence", "gold", "", lambda: iter(()), []) for _ in range(2)
    )
    one.warnings.append("odd")
    assert two.warnings == []
