"""Weights: all come from the checkpoint, and none of the checkpoint is left out in silence."""

import hashlib
import os
import shutil

import pytest
import torch
from safetensors.torch import save_file
from transformers import GPT2Config

from headscope.errors import ModelError
from headscope.extraction.checkpoint import (
    locate,
    quiet,
    read_config,
    tensors_sha256,
    weights_sha256,
)
from tests.extraction.toys import (
    assert_same,
    bert_config,
    edit_json,
    put,
    put_in_hub_cache,
    random_model,
    refused,
    save,
    state_of,
    weights,
)


class TestWeights:
    def test_they_are_those_of_the_checkpoint(self, saved, model):
        assert_same(weights(saved), model)
        assert {w.dtype for w in weights(saved).parameters()} == {torch.float32}

    def test_half_precision_is_widened(self, folder, model):
        put(folder, {key: value.half() for key, value in state_of(folder).items()})
        found = weights(folder).state_dict()
        assert {value.dtype for value in found.values()} == {torch.float32}
        assert all(found[key].equal(w.half().float()) for key, w in model.state_dict().items())

    @pytest.mark.parametrize(
        "prefix",
        ["bert.", "module.", "module.bert.", "_orig_mod.", "model.", "model.bert.", "0.auto_model.",
         "module._orig_mod.", "_orig_mod.module.bert.", "base_model.model.", "module.module."],
    )  # fmt: skip
    def test_c105_names_with_a_wrapper_in_front(self, folder, prefix):
        expected = weights(folder)
        put(folder, {prefix + key: value for key, value in state_of(folder).items()})
        assert_same(weights(folder), expected)

    @pytest.mark.parametrize("prefix", ["foo.", "student.encoder."])
    def test_c105_names_without_meaning_are_refused_with_the_list(self, folder, prefix):
        put(folder, {prefix + key: value for key, value in state_of(folder).items()})
        refused(folder, "37 weights of the encoder are not in the checkpoint.*random: "
                        r"embeddings.LayerNorm.bias, .*, \.\.\.; expected names")  # fmt: skip

    def test_c105_one_missing_weight_is_named(self, folder):
        state = state_of(folder)
        del state["encoder.layer.1.attention.self.query.weight"]
        put(folder, state)
        refused(folder, "1 weights of .*random: encoder.layer.1.attention.self.query.weight; exp")

    def test_c105_a_wrong_shape_is_named_with_both(self, folder):
        put(folder, state_of(folder) | {"encoder.layer.0.output.dense.bias": torch.zeros(9)})
        refused(
            folder, r"encoder.layer.0.output.dense.bias \(\[9\] in the checkpoint, expected \[8\]"
        )

    def test_c105_a_missing_head_or_pooler_is_no_matter(self, folder, model):
        state = {key: value for key, value in state_of(folder).items() if "pooler" not in key}
        put(
            folder,
            state | {"classifier.weight": torch.ones(2, 8), "cls.predictions.bias": torch.ones(3)},
        )
        found = weights(folder).state_dict()
        assert all(found[key].equal(value) for key, value in state.items())

    def test_c106_old_buffers_are_ignored(self, folder, model):
        state = {f"bert.{key}": value for key, value in state_of(folder).items()}
        state["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
        state["bert.embeddings.token_type_ids"] = torch.zeros(1, 40)
        assert_same(weights(put(folder, state)), model)

    def test_c106_old_buffers_of_gpt2_are_ignored(self, tmp_path):
        config = GPT2Config(n_embd=8, n_layer=2, n_head=4, n_positions=16, vocab_size=60,
                            bos_token_id=0, eos_token_id=0)  # fmt: skip
        gpt2 = random_model(config)
        save(tmp_path, gpt2)
        state = state_of(tmp_path)
        state["h.0.attn.bias"], state["h.1.attn.masked_bias"] = (
            torch.ones(1, 1, 16, 16),
            torch.ones(1),
        )
        assert_same(weights(put(tmp_path, state)), gpt2)

    def test_names_of_the_first_bert_checkpoints(self, folder, model):
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        state = state_of(folder)
        for new, first in old.items():
            state = {f"{key.replace(new, first)}": value for key, value in state.items()}
        assert_same(weights(put(folder, {f"bert.{k}": v for k, v in state.items()})), model)

    def test_fewer_layers_in_the_config_than_in_the_weights(self, folder):
        edit_json(folder / "config.json", num_hidden_layers=1)
        refused(folder, "16 weights of the checkpoint have no place in BertModel .*config.json "
                        "describes it: encoder.layer.1.attention.*other settings")  # fmt: skip

    def test_more_layers_in_the_config_than_in_the_weights(self, folder):
        edit_json(folder / "config.json", num_hidden_layers=3)
        refused(folder, "16 weights of the encoder are not in the checkpoint.*encoder.layer.2")

    @pytest.mark.parametrize("prefix", ["", "bert.", "module.bert."])
    def test_parts_that_the_library_would_leave_out(self, folder, prefix):
        """Adapters or relative positions, say: without them it is another model."""
        state = {prefix + key: value for key, value in state_of(folder).items()}
        state[f"{prefix}encoder.layer.0.attention.self.distance_embedding.weight"] = torch.ones(
            3, 2
        )
        refused(put(folder, state), "1 weights of the checkpoint have no place in BertModel")

    def test_another_number_of_heads_than_fits(self, folder):
        edit_json(folder / "config.json", num_attention_heads=3)
        refused(folder, "hidden size .8. is not a multiple of the number of attention heads .3.")

    def test_plain_pickled_tensors_load(self, folder, model):
        assert_same(weights(put(folder, state_of(folder), pickled=True)), model)

    def test_safetensors_go_before_a_pickle(self, folder, model):
        torch.save({"wrong": torch.ones(1)}, folder / "pytorch_model.bin")
        assert_same(weights(folder), model)

    def test_c107_a_pickle_with_code_is_refused_and_not_run(self, folder):
        class Hostile:
            def __reduce__(self):
                return os.system, (f"touch {folder / 'marker'}",)

        put(folder, state_of(folder) | {"more": Hostile()}, pickled=True)
        refused(folder, "a pickle that holds more than tensors, and to open it would run code")
        assert not (folder / "marker").exists()

    @pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
    def test_c103_a_file_cut_short_or_of_another_kind(self, folder, name):
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").unlink()
        for content in (whole[: len(whole) // 2], b"", b"<html>not found</html>"):
            (folder / name).write_bytes(content)
            refused(folder, ": (weights: |its weights are a pickle)")

    def test_no_weights(self, folder, tmp_path, monkeypatch):
        (folder / "model.safetensors").unlink()
        refused(folder, "found no weights in the folder; expected one of model.safetensors, model")
        put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder)
        with pytest.raises(ModelError, match="org/toy: found no weights in the local cache or on"):
            weights("org/toy")

    def test_long_messages_are_cut(self, folder):
        error = locate(folder).error("x " * 5000)
        assert len(str(error)) < 600 + len(str(folder)) + 10


def shard(folder, model, monkeypatch):
    shutil.rmtree(folder)
    with quiet():
        model.save_pretrained(folder, max_shard_size="5KB")
    (folder / "model-notes.txt").write_text("no shard", encoding="utf-8")
    return sorted(folder.glob("model-*.safetensors"))


class TestFingerprints:
    def test_of_one_file(self, saved):
        content = (saved / "model.safetensors").read_bytes()
        found = locate(saved)
        assert weights_sha256(found, read_config(found)) == hashlib.sha256(content).hexdigest()

    def test_sharded_weights_load_and_their_shards_are_hashed(self, folder, model, monkeypatch):
        shards = shard(folder, model, monkeypatch)
        assert len(shards) > 1
        assert_same(weights(folder), model)
        found, digest = locate(folder), hashlib.sha256()
        for path in shards:
            digest.update(path.read_bytes())
        assert weights_sha256(found, read_config(found)) == digest.hexdigest()

    def test_a_missing_shard(self, folder, model, monkeypatch):
        shard(folder, model, monkeypatch)[-1].unlink()
        refused(folder, ": weights: ")

    def test_the_file_named_in_the_config_is_the_one_that_is_hashed(self, folder, model):
        put(folder, state_of(folder) | {"pooler.dense.bias": torch.zeros(8)})
        (folder / "model.safetensors").rename(folder / "other.safetensors")
        save_file({"x": torch.ones(1)}, folder / "model.safetensors", metadata={"format": "pt"})
        edit_json(folder / "config.json", transformers_weights="other.safetensors")
        assert weights(folder).pooler.dense.bias.eq(0).all()
        found, content = locate(folder), (folder / "other.safetensors").read_bytes()
        assert weights_sha256(found, read_config(found)) == hashlib.sha256(content).hexdigest()

    def test_of_tensors_tells_values_and_names_apart(self, model):
        again = random_model(bert_config())
        assert tensors_sha256(again) == tensors_sha256(model)
        with torch.no_grad():
            again.pooler.dense.bias[0] += 1
        assert tensors_sha256(again) != tensors_sha256(model)
