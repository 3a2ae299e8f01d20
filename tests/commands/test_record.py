"""`headscope record` as a user calls it."""

import json

import pytest

from headscope.commands.record import ANALYSIS_OPTIONS
from headscope.datasets.records import read_manifest


def test_a_record_is_made_and_analysed(headscope, ewt, tmp_path):
    made = headscope("record", "demo", ewt, "--limit", 10, "--out", "r")
    assert made.code == 0
    assert made.out == ""
    size, *_, last = made.err.splitlines()
    assert size.startswith("r: the record takes ")
    assert last == "r: attention of 10 sentences"
    for data, name in (("r", "of_record.json"), (ewt, "direct.json")):
        given = ["--limit", 10] if data == ewt else []
        assert headscope("dependency", "demo", data, *given, "-o", name).code == 0
    found, direct = (
        json.loads((tmp_path / name).read_text()) for name in ("of_record.json", "direct.json")
    )
    assert found["settings"].pop("record")["level"] == "subword"
    assert direct["settings"].pop("record") is None
    assert found == direct
    assert headscope("report", "demo", "r", "-o", "r.html").code == 0
    again = headscope("record", "demo", ewt, "--limit", 10, "--out", "r")
    assert "a finished record of the same; nothing to do" in again.err


def test_what_is_kept_can_be_chosen(headscope, ewt, tmp_path):
    ran = headscope(
        "record", "demo", ewt, "--limit", 3, "--out", "r", "--level", "word", "--rows", "first",
        "--precision", "float16", "--hidden-states", "0,6", "--batch-tokens", 64, "-q",
    )  # fmt: skip
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    identity = read_manifest(tmp_path / "r").identity
    chosen = {"level": "word", "rows": "first", "precision": "float16", "hidden_states": [0, 6]}
    assert (chosen | {"batch_tokens": 64}).items() <= identity.items()
    refused = headscope("surface", "demo", "r")
    assert refused.code == 2
    assert "expected a record made with --level subword" in refused.err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--hidden-states", "0;6"], "--hidden-states: found '0;6'; expected numbers such as 0,6"),
        (["--hidden-states", "7"], "hidden state 7 was asked for; demo has 0"),
        (["--level", "words"], "unknown level 'words'"),
        (["--control", "random-weights"], "No such option: --control"),
        (["--out", "."], "found thesis.tex, which is no part of a record"),
    ],
)
def test_what_makes_no_sense_is_one_line(headscope, ewt, tmp_path, given, message):
    (tmp_path / "thesis.tex").write_text("text")
    ran = headscope("record", "demo", ewt, "--limit", 3, "--out", "r", *given)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_other_settings_are_never_mixed(headscope, ewt, tmp_path):
    headscope("record", "demo", ewt, "--limit", 3, "--out", "r")
    ran = headscope("record", "demo", ewt, "--limit", 3, "--out", "r", "--precision", "float16")
    assert ran.code == 2
    assert "precision float32 there, float16 now" in ran.err


def test_help_has_no_option_that_is_never_taken(headscope, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    told = headscope("record", "--help").out
    for option in ANALYSIS_OPTIONS:
        assert f"--{option.replace('_', '-')}" not in told
    for option in ("--limit", "--skip-bad", "--attention", "--batch-tokens", "--level"):
        assert option in told


def test_rows_are_counted_as_rows(headscope, tmp_path):
    (tmp_path / "x.tsv").write_text("text\ttext_pair\nIt sat.\tIt ate.\n")
    ran = headscope("record", "demo", "x.tsv", "--out", "r")
    assert ran.err.endswith("r: attention of 1 row\n")
    ran = headscope("surface", "demo", "r")
    assert "on x.tsv: 1 row, 6 words" in ran.out
    assert "no intervals: 1 row, and they take 10 or more" in ran.out
