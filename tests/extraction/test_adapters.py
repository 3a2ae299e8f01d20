"""PEFT adapter folders are observed as the merged model."""

import json
import shutil

import peft
import pytest
import torch
from transformers import BertForSequenceClassification, GPT2LMHeadModel

from headscope.errors import ModelError
from headscope.extraction.loading import load_encoder
from tests.extraction.families import family_config, family_tokenizer
from tests.extraction.toys import bert_config, edit_json, output, random_model, save

# peft calls what transformers is to rename.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """(base model with a head, LoRA adapter trained on it, the merged body)."""
    root = tmp_path_factory.mktemp("lora")
    base = save(root / "base", random_model(bert_config(), BertForSequenceClassification))
    wrapped = adapted(BertForSequenceClassification.from_pretrained(base), "SEQ_CLS")
    wrapped.save_pretrained(root / "adapter")
    return base, root / "adapter", wrapped.merge_and_unload().bert


def adapted(model, task, **settings):
    config = peft.LoraConfig(task_type=task, r=2, lora_alpha=4, **settings)
    wrapped = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_B" in name:  # is zero before training
                weight.normal_(std=0.5, generator=torch.Generator().manual_seed(len(name)))
    return wrapped.eval()


def test_an_adapter_is_merged_into_its_base(folders):
    base, adapter, merged = folders
    found, plain = load_encoder(adapter, device="cpu"), load_encoder(base, device="cpu")
    ours, theirs, before = (m.state_dict() for m in (found.model, merged, plain.model))
    assert [key for key in theirs if not torch.allclose(ours[key], theirs[key], atol=1e-6)] == []
    changed = {key for key in before if not ours[key].equal(before[key])}
    assert {key.rpartition("self.")[2] for key in changed} == {"query.weight", "value.weight"}
    assert not torch.allclose(output(found, ["the"]), output(plain, ["the"]))
    assert found.info.name == str(adapter)
    assert found.info.weights_sha256 != plain.info.weights_sha256
    assert type(found.model) is type(plain.model)


def test_an_adapter_of_a_decoder(tmp_path):
    config = family_config("gpt2")
    base = save(tmp_path / "base", random_model(config, GPT2LMHeadModel), family_tokenizer("gpt2"))
    wrapped = adapted(GPT2LMHeadModel.from_pretrained(base), "CAUSAL_LM", fan_in_fan_out=True)
    wrapped.save_pretrained(tmp_path / "adapter")
    merged = wrapped.merge_and_unload().transformer.state_dict()
    found = load_encoder(tmp_path / "adapter", device="cpu").model.state_dict()
    assert [key for key in found if not torch.allclose(found[key], merged[key], atol=1e-6)] == []


def refused(folder, match):
    with pytest.raises(ModelError, match=match) as caught:
        load_encoder(folder, device="cpu")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder))


def copied(folders, tmp_path, **changes):
    folder = shutil.copytree(folders[1], tmp_path / "adapter")
    edit_json(folder / "adapter_config.json", **changes)
    return folder


def test_a_base_that_is_not_there(folders, tmp_path):
    with pytest.raises(ModelError, match=r"no such folder; expected a model folder"):
        load_encoder(copied(folders, tmp_path, base_model_name_or_path="./gone"), device="cpu")


def test_no_base_named(folders, tmp_path):
    folder = copied(folders, tmp_path, base_model_name_or_path=None)
    refused(folder, "adapter_config.json names no base model")


def test_another_base(folders, tmp_path):
    other = save(tmp_path / "other", random_model(bert_config(num_hidden_layers=3)))
    folder = copied(folders, tmp_path, base_model_name_or_path=str(other))
    refused(folder, "the adapter lacks 4 weights of the layers that it changes: .*layer.2.*other")


def test_prompts_change_no_weights(folders, tmp_path):
    folder = copied(folders, tmp_path)
    settings = {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 3}
    settings["base_model_name_or_path"] = str(folders[0])
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    refused(folder, "adapter adds inputs and changes no weights")


def test_a_cut_adapter(folders, tmp_path):
    folder = copied(folders, tmp_path)
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    refused(folder, "adapter: SafetensorError: ")


def test_c107_a_pickle_that_runs_code_is_not_opened(folders, tmp_path):
    class Marker:
        def __reduce__(self):
            return open, (str(tmp_path / "marker"), "w")

    folder = copied(folders, tmp_path)
    (folder / "adapter_model.safetensors").unlink()
    torch.save({"base_model.model.x": Marker()}, folder / "adapter_model.bin")
    refused(folder, "adapter: ")
    assert not (tmp_path / "marker").exists()


def test_without_peft_the_extra_is_named(folders, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused(folders[1], r'takes peft: pip install "headscope\[peft\]"')
