"""`headscope finetune`, called as a user would."""

import json

from tests.extraction.toys import bert_config, random_model, save

ROWS = "sentence\tlabel\n" + "".join(f"the cat {w}\t{i % 2}\n" for i, w in enumerate("abcdefgh"))


def test_a_run_from_files_to_scores(headscope, tmp_path):
    save(tmp_path / "start", random_model(bert_config()))
    (tmp_path / "data").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "data" / name).write_text(ROWS, encoding="utf-8")
    given = ("finetune", "./start", "sst2", "--data", "data", "--out", "out", "--device", "cpu")
    ran = headscope(*given, "--method", "r3f", "--set", "r3f.eps=0.1", "--epochs", 1)
    assert (ran.code, ran.err) == (0, "")
    assert "accuracy" in ran.out
    assert "out: best after 1 updates" in ran.out
    found = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert found["settings"]["methods"]["r3f"]["eps"] == 0.1
    assert headscope(*given).code == 2


def test_help_has_examples(headscope):
    ran = headscope("finetune", "--help")
    assert ran.code == 0
    assert "headscope finetune demo qnli" in ran.out
