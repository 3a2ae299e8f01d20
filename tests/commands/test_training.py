"""What `headscope finetune` refuses, each in one line, before any model is loaded."""

import pytest

from headscope.commands import training

ROWS = "sentence\tlabel\ngood\t1\nbad\t0\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("sst-2", "--data", "d"), "unknown task 'sst-2'; did you mean 'sst2'"),
        (("sst2", "--method", "r3", "--data", "d"), "unknown method 'r3'"),
        (("sst2",), "found neither --data nor --train; expected a folder or a file"),
        (("sst2", "--data", "nowhere"), "nowhere: found no such folder; expected train.tsv"),
        (
            ("sst2", "--data", "d", "--epochs", "0"),
            "--epochs: found 0.0; expected a number",
        ),
        (("sst2", "--data", "d", "--precision", "fp8"), "unknown precision 'fp8'"),
        (("sst2", "--data", "d", "--device", "gpu"), "unknown device 'gpu'"),
        (("rte", "--data", "d"), "train.tsv:1: found no column 'sentence1'"),
        (("sst2", "--data", "d", "--dev", "e.tsv"), "e.tsv:3: found label '2'"),
        (("classification", "--data", "d", "--columns", "text"), "--columns: found 'text'"),
    ],
)
def test_one_line_and_nothing_written(headscope, tmp_path, more, said):
    (tmp_path / "d").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "d" / name).write_text(ROWS, encoding="utf-8")
    (tmp_path / "e.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t2\n", encoding="utf-8")
    ran = headscope("finetune", "demo", *more, "--out", "out")
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_packages_that_are_not_installed_are_named(headscope, monkeypatch):
    monkeypatch.setattr(training, "find_spec", lambda name: None if name == "sklearn" else name)
    ran = headscope("finetune", "demo", "sst2", "--data", "d", "--out", "out")
    assert (ran.code, ran.out) == (2, "")
    assert 'finetune needs sklearn: pip install "headscope[train]"' in ran.err
