"""Examples as a model takes them."""

import torch

from headscope.datasets.examples import Example
from headscope.datasets.tasks import task_of
from headscope.finetune.encoding import Encoded, collator
from headscope.finetune.heads import open_checkpoint

PAIRS = [Example("the cat sat", "it did", 1, 2), Example("a dog", "no " * 60, 0, 3)]


def test_pairs_are_cut_padded_and_labelled():
    _, tokenizer = open_checkpoint("demo")
    found = Encoded(task_of("rte"), PAIRS, tokenizer, 20)
    assert (len(found), found.n_cut) == (2, 1)
    first, second = found[0], found[1]
    assert tokenizer.decode(first["input_ids"]) == "[CLS] the cat sat [SEP] it did [SEP]"
    assert first["token_type_ids"] == [0] * 5 + [1] * 3
    assert len(second["input_ids"]) == 20
    assert tokenizer.decode(second["input_ids"]).startswith("[CLS] a dog [SEP] no no")
    batch = collator(tokenizer)([first, second])
    assert batch["input_ids"].shape == (2, 20)
    assert batch["attention_mask"].sum(1).tolist() == [8, 20]
    assert batch["labels"].tolist() == [1, 0]
    assert found.n_tokens == 28
    assert collator(tokenizer, 8)([first, second])["input_ids"].shape == (2, 24)


def test_c095_scores_are_floats():
    _, tokenizer = open_checkpoint("demo")
    examples = [Example("a", "b", 1, 2), Example("a", "b", None, 3)]
    found = Encoded(task_of("stsb"), examples, tokenizer, 20)
    assert "labels" not in found[1]
    assert collator(tokenizer)([found[0]])["labels"].dtype == torch.float32
