"""Files of a checkpoint: what is not exactly what its config says is refused in one line."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as transformers_logging

from headscope.errors import ModelError
from headscope.extraction import checkpoint as module
from headscope.extraction.checkpoint import (
    REFUSED,
    locate,
    quiet,
    read_config,
)
from tests.extraction.toys import (
    COMMIT,
    assert_same,
    edit_json,
    put_in_hub_cache,
    refused,
    weights,
)


class TestLocate:
    def test_demo_is_the_package(self):
        found = locate("demo")
        assert (found.name, found.asked, found.revision) == ("demo", "demo", None)
        assert Path(found.place, "model.safetensors").is_file()

    def test_demo_is_the_package_even_beside_a_folder_demo(self, folder, tmp_path, monkeypatch):
        folder.rename(tmp_path / "demo")
        monkeypatch.chdir(tmp_path)
        assert Path(locate("demo").place).name == "model"
        assert Path(locate("./demo").place).resolve() == tmp_path / "demo"

    def test_a_path_is_a_folder_also_when_it_is_named_demo(self, folder, tmp_path, monkeypatch):
        folder.rename(tmp_path / "demo")
        monkeypatch.chdir(tmp_path)
        found = locate(Path("./demo"))
        assert (Path(found.place).resolve(), found.name) == (tmp_path / "demo", "./demo")

    def test_demo_that_is_not_installed(self, monkeypatch):
        monkeypatch.setattr(module, "DEMO_PACKAGE", "no_such_package_of_a_model")
        with pytest.raises(ModelError, match=r"not installed .*pip install \"headscope\[demo\]\""):
            locate("demo")

    def test_a_folder_goes_before_a_hub_id(self, folder, tmp_path, monkeypatch):
        shutil.copytree(folder, tmp_path / "org" / "model")
        monkeypatch.chdir(tmp_path)
        assert Path(locate("org/model").place).is_dir()

    def test_a_folder_with_an_at_sign_is_a_folder(self, folder, tmp_path, monkeypatch):
        folder.rename(tmp_path / "toy@v1")
        monkeypatch.chdir(tmp_path)
        found = locate("toy@v1")
        assert (found.place, found.revision, found.name) == ("toy@v1", None, "toy@v1")
        assert locate(tmp_path / "toy@v1").revision is None

    def test_a_home_folder_is_expanded(self, folder, monkeypatch):
        monkeypatch.setenv("HOME", str(folder.parent))
        assert locate("~/toy").place == str(folder)

    @pytest.mark.parametrize(
        ("name", "place", "revision"),
        [("bert", "bert", None), ("o/m", "o/m", None), ("o/m@v1.0", "o/m", "v1.0"),
         ("o/m@refs/pr/3", "o/m", "refs/pr/3"),
         ("some-org/bert_base.v2", "some-org/bert_base.v2", None)],
    )  # fmt: skip
    def test_hub_ids(self, name, place, revision):
        found = locate(name, trust_remote_code=True)
        assert (found.place, found.revision, found.name) == (place, revision, place)
        assert (found.asked, found.trust_remote_code) == (name, True)

    @pytest.mark.parametrize(
        "name",
        ["./x", "/no/such", "~/no-such", "~nobody-here/x", "a/b/c", "", " ", "foo bar", "a\nb",
         "@v1",         "a\0b", "http://x/y", Path("no-such"), Path("o/m")],
    )  # fmt: skip
    def test_neither_folder_nor_hub_id(self, name):
        with pytest.raises(
            ModelError, match="no such folder; expected a model folder, a hub id or"
        ):
            locate(name)

    @pytest.mark.parametrize("name", ["a\nb", "", "a\r\nb"])
    def test_messages_about_odd_names_are_one_line(self, name):
        with pytest.raises(ModelError) as caught:
            locate(name)
        assert len(str(caught.value).splitlines()) == 1
        assert not str(caught.value).startswith(":")

    def test_an_empty_revision(self):
        with pytest.raises(ModelError, match="o/m@: found no revision after '@'"):
            locate("o/m@")

    def test_a_folder_has_no_revisions(self, folder, monkeypatch):
        monkeypatch.chdir(folder.parent)
        with pytest.raises(ModelError, match="toy is a folder, and .* no revisions; leave out @v1"):
            locate("toy@v1")

    def test_a_file(self, folder):
        with pytest.raises(ModelError, match=r"config.json: found a file; expected a model folder"):
            locate(folder / "config.json")

    def test_a_folder_without_a_config(self, folder):
        (folder / "config.json").unlink()
        with pytest.raises(ModelError, match="found a folder without config.json; expected"):
            locate(folder)


class TestConfig:
    def test_the_family_is_read(self, saved):
        assert read_config(locate(saved)).model_type == "bert"

    @pytest.mark.parametrize("family", REFUSED)
    def test_a_family_without_probabilities_is_refused_with_the_reason(self, folder, family):
        (folder / "config.json").write_text(f'{{"model_type": "{family}"}}', encoding="utf-8")
        refused(folder, f"family '{family}' cannot be observed: {REFUSED[family]}$")

    def test_a_family_unknown_to_the_library_is_named(self, folder):
        edit_json(folder / "config.json", model_type="later-than-us")
        refused(folder, "transformers .* does not know models of family 'later-than-us'; a newer")

    @pytest.mark.parametrize("text", ["", "{", "{}", "[]", "\0"])
    def test_a_broken_config(self, folder, text):
        (folder / "config.json").write_text(text, encoding="utf-8")
        refused(folder, ": cannot be loaded: ")

    def test_a_config_of_the_wrong_type(self, folder):
        edit_json(folder / "config.json", hidden_size="many")
        refused(folder, "cannot be loaded: .*'hidden_size' expected int, got str")

    def test_c107_code_of_an_unknown_family_is_not_run(self, folder):
        bring_code(folder, model_type="own")
        refused(folder, "brings code of its own, which is not run.*pass --trust-remote-code")
        assert not (folder / "marker").exists()

    def test_c107_code_of_a_known_family_is_neither_run_nor_passed_over(self, folder):
        bring_code(folder, model_type="bert")
        refused(folder, "brings code of its own, which is not run.*pass --trust-remote-code")
        assert not (folder / "marker").exists()

    def test_c107_code_runs_when_trusted(self, folder, monkeypatch, tmp_path):
        monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
        bring_code(folder, model_type="bert", good=True)
        assert type(weights(folder, trust_remote_code=True)).__name__ == "OwnModel"

    @pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
    def test_positions_that_the_library_no_longer_computes(self, folder, kind):
        edit_json(folder / "config.json", position_embedding_type=kind)
        refused(folder, f"position_embedding_type is '{kind}', and transformers 5 computes only")

    def test_absolute_positions_named_by_older_versions(self, folder, model):
        edit_json(folder / "config.json", position_embedding_type="absolute")
        assert_same(weights(folder), model)

    def test_a_model_that_is_not_in_the_cache_while_offline(self):
        with pytest.raises(
            ModelError, match="neither in the local cache.*HF_HUB_OFFLINE"
        ) as caught:
            read_config(locate("no-such-org/no-such-model@v2"))
        assert str(caught.value).startswith("no-such-org/no-such-model@v2: ")
        assert "\n" not in str(caught.value)

    def test_a_revision_that_is_not_in_the_cache(self, folder, tmp_path, monkeypatch):
        put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder)
        assert read_config(locate("org/toy")).model_type == "bert"
        with pytest.raises(
            ModelError, match="org/toy@v9: no such folder, and the model is neither"
        ):
            read_config(locate("org/toy@v9"))


def bring_code(folder, *, model_type, good=False):
    """A model with code of its own, which leaves a marker when it is run."""
    marker = "" if good else f"open({str(folder / 'marker')!r}, 'w').close()\n"
    code = "from transformers import BertModel\nclass OwnModel(BertModel):\n    pass\n"
    (folder / "own.py").write_text(marker + code, encoding="utf-8")
    auto_map = {"AutoModel": "own.OwnModel"}
    if model_type != "bert":
        auto_map["AutoConfig"] = "own.OwnConfig"
    edit_json(folder / "config.json", model_type=model_type, auto_map=auto_map)


def test_files_of_a_hub_id_come_from_its_revision(folder, tmp_path, monkeypatch):
    put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder)
    edit_json(folder / "config.json", layer_norm_eps=0.5)
    put_in_hub_cache(monkeypatch, tmp_path, "org/toy", folder, branch="v2", commit="f" * 40)
    configs = {name: read_config(locate(name)) for name in ("org/toy", "org/toy@v2")}
    assert [config.layer_norm_eps for config in configs.values()] == [1e-12, 0.5]
    assert [locate(name).commit for name in configs] == [COMMIT, "f" * 40]
    assert locate("org/toy").file("tokenizer.json").name == "tokenizer.json"
    assert locate("org/toy").file("vocab.txt") is None
    assert read_config(locate(f"org/toy@{'f' * 40}")).layer_norm_eps == 0.5


def test_the_library_is_as_loud_as_before():
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    hub_before = hub_logging.get_verbosity()
    with quiet():
        assert hub_logging.get_verbosity() == hub_logging.ERROR
    assert hub_logging.get_verbosity() == hub_before
    with pytest.raises(RuntimeError, match="False"), quiet():
        raise RuntimeError(transformers_logging.is_progress_bar_enabled())
    after = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    assert after == before
    transformers_logging.disable_progress_bar()
    with quiet():
        pass
    assert not transformers_logging.is_progress_bar_enabled()
    transformers_logging.enable_progress_bar()
