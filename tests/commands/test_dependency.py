"""`headscope dependency` as a user calls it: tables, files, bad input, nothing half-written."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from transformers import BertConfig, BertModel

from headscope.results.schema import schema


def test_prints_a_table_with_held_out_before_in_sample(headscope, ewt):
    ran = headscope("dependency", "demo", ewt)
    assert ran.code == 0
    heading = next(line for line in ran.out.splitlines() if "relation" in line)
    assert heading.index("held out") < heading.index("in sample") < heading.index("offset")
    assert "100 sentences, 2,319 words, gold annotation" in ran.out
    amod = next(line for line in ran.out.splitlines() if " amod " in line)
    assert "2.8" in amod
    assert " d>h " in amod
    assert "note: the demo model" in ran.err


def test_writes_every_ending_from_one_run(headscope, ewt, tmp_path):
    files = [tmp_path / f"d.{ending}" for ending in ("json", "csv", "parquet", "html")]
    given = [part for file in files for part in ("-o", file)]
    ran = headscope("dependency", "demo", ewt, *given, "--limit", 30, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    document = json.loads(files[0].read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("dependency"))
    assert list(document) == sorted(document)
    table = pd.read_csv(files[1])
    assert list(table["relation"][:2]) == list(pd.read_parquet(files[2])["relation"][:2])
    assert table["count"].iloc[-2] == document["values"]["overall"]["all_arcs"]["count"]
    assert files[3].read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f.name for f in files)


def test_control_is_a_column(headscope, ewt):
    ran = headscope("dependency", "demo", ewt, "--limit", 20, "--control", "shuffled-words")
    heading = next(line for line in ran.out.splitlines() if "relation" in line)
    assert heading.split()[-1] == "shuffled"


def test_coarse_and_first_rows(headscope, ewt, tmp_path):
    ran = headscope(
        "dependency", "demo", ewt, "--limit", 20, "--coarse", "--rows", "first", "-o", "x.json"
    )
    document = json.loads((tmp_path / "x.json").read_text())
    assert ran.code == 0
    assert not any(":" in label for label in document["values"]["relations"])
    assert (document["settings"]["rows"], document["settings"]["coarse"]) == ("first", True)


BAD = {
    "missing file": (["demo", "nosuch.conllu"], "nosuch.conllu: found no such file"),
    "folder": (["demo", "."], "found a folder; expected a data file"),
    "empty": (["demo", "empty.conllu"], "empty.conllu: found an empty file"),
    "binary": (["demo", "binary.conllu"], "binary.conllu: found binary data"),
    "text as treebank": (["demo", "text.conllu"], "text.conllu:1: found 1 tab-separated column"),
    "unannotated": (["demo", "heads0.conllu"], "the file is not annotated"),
    "model id offline": (
        ["nobody/nothing", "demo"],
        "nobody/nothing: no such folder, and the model",
    ),
    "model folder": (["./nosuch", "demo"], "./nosuch: no such folder"),
    "no tokenizer": (["./bare", "demo"], "./bare: found no tokenizer"),
    "control": (["demo", "demo", "--control", "none"], "unknown control 'none'"),
    "rows": (["demo", "demo", "--rows", "frist"], "unknown rows 'frist'; did you mean 'first'"),
    "format": (
        ["demo", "demo", "--format", "conlu"],
        "unknown format 'conlu'; did you mean 'conllu'",
    ),
    "limit": (["demo", "demo", "--limit", "0"], "limit: found 0"),
    "dtype": (["demo", "demo", "--dtype", "float23"], "unknown dtype 'float23'; did you mean"),
    "device": (["demo", "demo", "--device", "gpu"], "unknown device 'gpu'"),
    "ending": (["demo", "demo", "-o", "x.jsn"], "cannot write x.jsn: ending '.jsn'"),
    "folder not there": (["demo", "demo", "-o", "no/x.json"], "there is no folder no"),
    "output is a folder": (["demo", "demo", "-o", "bare.json"], "cannot write bare.json"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_one_line_and_exit_code_2(headscope, tmp_path, name):
    (tmp_path / "empty.conllu").touch()
    (tmp_path / "binary.conllu").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "text.conllu").write_text("This is a text.\nIt has two lines.\n")
    row = "{0}\tw\t_\tX\t_\t_\t0\troot\t_\t_\n"
    (tmp_path / "heads0.conllu").write_text(row.format(1) + row.format(2) + "\n")
    (tmp_path / "bare.json").mkdir()
    BertModel(
        BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=8)
    ).save_pretrained(tmp_path / "bare")  # fmt: skip
    before = sorted(p.name for p in tmp_path.iterdir())
    arguments, message = BAD[name]
    ran = headscope("dependency", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("headscope: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["dependancy", "demo", "demo"], "dependency"),
        (["dependency", "demo", "demo", "--limt", "3"], "--limit"),
    ],
)
def test_misspelt_commands_and_options_get_near_matches(headscope, arguments, guess):
    ran = headscope(*arguments)
    assert ran.code == 2
    assert guess in ran.err


def test_broken_sentence_stops_or_is_left_out_on_request(headscope, hostile):
    ran = headscope("dependency", "demo", hostile / "cycle.conllu")
    assert ran.code == 2
    assert "cycle.conllu:12: found a cycle of heads" in ran.err
    ran = headscope("dependency", "demo", hostile / "cycle.conllu", "--skip-bad")
    assert ran.code == 0
    assert "left out: 1 broken" in ran.out
    assert "broken sentence left out" in ran.err


def test_nothing_to_score_is_a_note_and_exit_code_0(headscope, hostile):
    ran = headscope("dependency", "demo", hostile / "one-word.conllu")
    assert ran.code == 0
    assert "there is no arc to score" in ran.err


def test_too_long_sentence_is_named_with_its_words(headscope, ewt, hostile, tmp_path):
    whole = ewt.read_text(encoding="utf-8") + (hostile / "long-1000.conllu").read_text()
    (tmp_path / "x.conllu").write_text(whole, encoding="utf-8")
    ran = headscope("dependency", "demo", "x.conllu")
    assert ran.code == 0
    assert "1000 words) was left out" in ran.err
    assert "left out: 1 too long" in ran.out
    assert ran.err.endswith("note: --windows cuts what is too long, in place of leaving it out\n")
    assert "--windows" not in headscope("dependency", "demo", "x.conllu", "--windows").err


def test_nothing_but_too_long_sentences_is_one_line(headscope, hostile):
    long = hostile / "long-1000.conllu"
    for command in ("dependency", "surface", "report"):
        ran = headscope(command, "demo", long)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "long-1000.conllu: nothing to analyse: 1 sentence left out, none kept" in ran.err
        assert "1000 words) was left out: 3983 tokens, and the model takes 512; --wind" in ran.err
    assert headscope("surface", "demo", long, "--windows").code == 0
    ran = headscope("record", "demo", long, "--out", "r")
    assert (ran.code, "1 sentence left out" in ran.err, "--windows" in ran.err) == (2, True, False)


def test_ctrl_c_leaves_nothing_half_written(tmp_path, ewt):
    # Many sentences, so that it is surely still running when interrupted.
    text = ewt.read_text(encoding="utf-8")
    (tmp_path / "long.conllu").write_text(
        "\n".join(text.replace("# sent_id = ", f"# sent_id = {i}-") for i in range(60)),
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "headscope",
        "dependency",
        "demo",
        "long.conllu",
        "-o",
        "x.json",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "80"}
    )
    status = Path(f"/proc/{process.pid}/status")
    for _ in range(240):  # until torch and the model are in memory: it is at work then
        time.sleep(0.25)
        assert process.poll() is None, process.stderr.read()
        resident = [line for line in status.read_text().splitlines() if line.startswith("VmRSS")]
        if resident and int(resident[0].split()[1]) > 450_000:
            break
    time.sleep(1)
    process.send_signal(2)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; nothing was written" in told
    assert "Traceback" not in told
    assert [p.name for p in tmp_path.iterdir()] == ["long.conllu"]
