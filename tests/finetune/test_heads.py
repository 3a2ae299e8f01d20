"""A fresh head on a checkpoint's own body; what methods do before training."""

import pytest
import torch
from transformers import GPT2Config, RobertaConfig

from headscope.datasets.tasks import task_of
from headscope.errors import HeadscopeError, ModelError
from headscope.extraction.checkpoint import quiet, read_config, read_weights
from headscope.finetune.heads import (
    linear_layers_of_head,
    lora,
    model_for,
    open_checkpoint,
    prepare,
)  # fmt: skip
from headscope.finetune.settings import LoRA, methods_of
from tests.extraction.toys import bert_config, random_model, save

QNLI = task_of("qnli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("saved"), random_model(bert_config()))


def opened(folder):
    checkpoint, _ = open_checkpoint(folder)
    torch.manual_seed(0)
    return checkpoint, model_for(checkpoint, QNLI, QNLI.labels)


def test_every_weight_of_the_body_is_the_checkpoints(folder):
    checkpoint, model = opened(folder)
    with quiet():
        body = read_weights(checkpoint, read_config(checkpoint)).state_dict()
    found = model.base_model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in body.items() if name in found)
    assert model.config.id2label == {0: "entailment", 1: "not_entailment"}
    assert model.config.problem_type == "single_label_classification"


def test_heads_depend_on_the_seed_alone(folder):
    first, second = opened(folder)[1], opened(folder)[1]
    assert torch.equal(first.classifier.weight, second.classifier.weight)
    checkpoint, _ = open_checkpoint(folder)
    torch.manual_seed(1)
    other = model_for(checkpoint, QNLI, QNLI.labels)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_regression_has_one_output(folder):
    checkpoint, _ = open_checkpoint(folder)
    model = model_for(checkpoint, task_of("stsb"), ())
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")


def test_a_tokenizer_without_padding_is_refused(tmp_path):
    config = GPT2Config(vocab_size=300, n_embd=8, n_head=4, n_layer=3, n_positions=64)
    place = save(tmp_path, random_model(config))
    (place / "special_tokens_map.json").unlink(missing_ok=True)
    path = place / "tokenizer_config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"pad_token"', '"no_token"'))
    with pytest.raises(ModelError, match="no padding token"):
        open_checkpoint(place)


def test_r4f_bounds_the_last_layer_of_the_head_or_all(tmp_path):
    config = RobertaConfig(
        vocab_size=300, hidden_size=8, num_attention_heads=4, num_hidden_layers=3,
        intermediate_size=12, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    place = save(tmp_path, random_model(config))
    for scope, bound in (("out_proj", [False, True]), ("all", [True, True])):
        checkpoint, _ = open_checkpoint(place)
        model = model_for(checkpoint, QNLI, QNLI.labels)
        prepare(model, methods_of("r4f", [f"r4f.scope={scope}"]))
        layers = linear_layers_of_head(model)
        assert [hasattr(layer, "parametrizations") for layer in layers] == bound


def test_methods_keep_what_they_need_of_the_start(folder):
    _, model = opened(folder)
    anchors = prepare(model, methods_of("smart+l2-sp+repina"))
    assert set(anchors.weights) == {f"bert.{n}" for n, _ in model.bert.named_parameters()}
    assert anchors.teacher is not None
    assert not any(weight.requires_grad for weight in anchors.model.parameters())
    assert prepare(model, methods_of("smart", ["smart.bregman=0"])).teacher is None


def test_reinit_draws_the_top_anew(folder):
    _, plain = opened(folder)
    _, model = opened(folder)
    prepare(model, methods_of("reinit", ["reinit.n_layers=1"]))
    n_layers = model.config.num_hidden_layers
    for number in range(n_layers):
        one = plain.bert.encoder.layer[number].output.dense.weight
        other = model.bert.encoder.layer[number].output.dense.weight
        assert torch.equal(one, other) == (number < n_layers - 1)
    with pytest.raises(HeadscopeError, match=r"reinit.n_layers: found 99; expected 1 to"):
        prepare(model, methods_of("reinit", ["reinit.n_layers=99"]))


def test_e12_lora_without_training_changes_nothing(folder):
    _, model = opened(folder)
    ids = torch.tensor([[2, 5, 6, 3]])
    before = model.eval()(input_ids=ids).logits
    wrapped = lora(model, LoRA(4, 8))
    assert torch.equal(wrapped.eval()(input_ids=ids).logits, before)
    trained = {name for name, weight in wrapped.named_parameters() if weight.requires_grad}
    assert all("lora_" in name or "classifier" in name for name in trained)
