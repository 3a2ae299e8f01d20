"""Checkpoints shaped like BERT or RoBERTa with the extra keys that their trainers leave in them."""

import json
import shutil

import pytest
import torch
from transformers import BertForPreTraining, RobertaForSequenceClassification

from headscope.errors import ModelError
from headscope.extraction.loading import load_encoder
from tests.extraction.families import family_config, family_tokenizer
from tests.extraction.toys import bert_config, edit_json, put, random_model, save, state_of


def assert_body(folder, body):
    found = load_encoder(folder, device="cpu").model.state_dict()
    assert [key for key in body if key in found and not found[key].equal(body[key])] == []
    assert {key for key in found if key not in body and not key.startswith("pooler.")} == set()


def test_spanbert_has_a_pickle_of_plain_tensors_and_heads_of_its_own(tmp_path):
    """Its release: pytorch_model.bin, a config without a class, the head of the span objective."""
    whole = random_model(bert_config(), BertForPreTraining)
    folder = save(tmp_path, whole)
    extra = {f"cls.span_predictions.{i}.weight": torch.ones(3, 8) for i in (0, 1)}
    put(folder, {**whole.state_dict(), **extra}, pickled=True)
    edit_json(
        folder / "config.json", architectures=None, directionality="bidi", pooler_num_fc_layers=3
    )
    assert_body(folder, whole.bert.state_dict())


def test_spanbert_without_a_model_type_says_what_to_write(tmp_path):
    folder = save(tmp_path, random_model(bert_config()))
    edit_json(folder / "config.json", model_type=None, architectures=None)
    with pytest.raises(ModelError, match="cannot be loaded: .*model_type"):
        load_encoder(folder, device="cpu")


def test_mt_dnn_has_one_head_a_task(tmp_path):
    whole = random_model(bert_config(), BertForPreTraining)
    state = {f"bert.{key}": value for key, value in whole.bert.state_dict().items()}
    for task in range(3):
        state[f"scoring_list.{task}.weight"] = torch.ones(2, 8)
        state[f"scoring_list.{task}.bias"] = torch.ones(2)
    state["dropout_list.0.alpha"] = torch.ones(1)
    assert_body(put(save(tmp_path, whole), state), whole.bert.state_dict())


@pytest.mark.parametrize("method", ["r3f", "smart"])
def test_regularised_checkpoints_carry_heads_noise_and_a_teacher(tmp_path, method):
    config = family_config("roberta")
    whole = random_model(config, RobertaForSequenceClassification)
    folder = save(tmp_path, whole, family_tokenizer("roberta"))
    extra = {
        "r3f": {"noise_sampler.scale": torch.ones(1), "lm_head.dense.weight": torch.ones(8, 8),
                "classification_heads.mnli.out_proj.weight": torch.ones(3, 8)},
        "smart": {f"teacher.{key}": value + 1 for key, value in whole.state_dict().items()},
    }[method]  # fmt: skip
    state = state_of(folder)
    assert any(key.startswith("roberta.") for key in state)
    assert_body(put(folder, {**state, **extra}), whole.roberta.state_dict())


def test_sentence_bert_folders_new_and_old(tmp_path):
    body = random_model(bert_config())
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    ]
    new = save(tmp_path / "new", body)
    (new / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (new / "1_Pooling").mkdir()
    assert_body(new, body.state_dict())
    old = tmp_path / "old"
    shutil.copytree(new, old / "0_Transformer")
    modules[0]["path"] = "0_Transformer"
    (old / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert_body(old, body.state_dict())


@pytest.mark.parametrize("text", ["", "[]", "{}", '[{"path": "gone"}]', '[{"path": null}]'])
def test_a_broken_list_of_modules_is_a_folder_without_a_config(tmp_path, text):
    (tmp_path / "modules.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match="found a folder without config.json"):
        load_encoder(tmp_path, device="cpu")
