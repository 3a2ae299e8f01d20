from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from headscope.results import Example


def test_example_keeps_words_trees_and_attention_together():
    example = Example(
        sent_id="s1",
        nodes=("[CLS]", "cats", "sleep", "[SEP]"),
        word_of=(None, 0, 1, None),
        heads=(2, 0),
        relations=("nsubj", "root"),
        attention=np.full((3, 2, 4, 4), 0.25, dtype=np.float32),
    )
    words = [
        node for node, word in zip(example.nodes, example.word_of, strict=True) if word is not None
    ]
    assert words == ["cats", "sleep"]
    assert len(example.heads) == len(example.relations) == len(words)
    assert example.attention.shape == (3, 2, len(example.nodes), len(example.nodes))
    with pytest.raises(FrozenInstanceError):
        example.sent_id = "s2"


def test_layers_without_any_number_cannot_be_seen():
    attention = np.full((3, 2, 2, 2), 0.5, dtype=np.float32)
    attention[1] = np.nan
    attention[2, 0] = np.nan
    example = Example("s", ("a", "b"), (0, 1), (2, 0), ("x", "root"), attention)
    assert example.unseen == (1,)
