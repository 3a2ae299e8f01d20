"""Writing a record: whole shards whatever happens, the same bytes at last, never a mix-up."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch

from headscope.datasets import files, open_corpus
from headscope.datasets.records import read_manifest
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.extraction import run as run_module
from headscope.extraction.launch import Launch
from headscope.extraction.record import recorder, writing
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.writing import record
from headscope.results.schema import schema

ROOT = Path(__file__).resolve().parents[3]

KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
import headscope
torch.set_num_threads(1)
model, data, root, n_points = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
settings = headscope.RecordSettings(shard_bytes=1, batch_tokens=100)
encoder = headscope.load_encoder(model, device="cpu")

def started(out):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            headscope.record(encoder, data, out, settings=settings)
            code = 0
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return child

def contents(out):
    return {path.name: path.read_bytes() for path in out.iterdir()}

assert os.waitstatus_to_exitcode(os.waitpid(started(root / "whole"), 0)[1]) == 0
expected = contents(root / "whole")
n_shards = len(expected) - 2
draw, found = random.Random(0), []
for point in range(n_points):
    out = root / str(point)
    child = started(out)
    n_there, over = draw.randrange(n_shards), time.monotonic() + 60
    while len(list(out.glob("shard-*"))) < n_there and time.monotonic() < over:
        time.sleep(0.001)
    time.sleep(draw.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    there = contents(out) if out.exists() else {}
    shards = [name for name in there if name.startswith("shard-")]
    agree = all(there[name] == expected[name] for name in shards)
    again = os.waitstatus_to_exitcode(os.waitpid(started(out), 0)[1])
    found.append([code, len(shards), agree, again, contents(out) == expected])
print(json.dumps([n_shards, found]))
"""


def killed(saved, ewt, folder, n_points):
    """Kills runs at random moments; for each what it left, and what the next run made of it."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(saved), str(ewt), str(folder), str(n_points)],
        capture_output=True, text=True, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    n_shards, found = json.loads(done.stdout)
    assert n_shards > 10
    assert len(found) == n_points
    for code, n_left, agree, again, equal in found:
        assert code in (-9, 0)  # 0: it was through already
        assert 0 <= n_left <= n_shards
        assert agree
        assert again == 0, done.stderr
        assert equal
    # Some must have been killed on the way, or this shows nothing.
    assert [n_left for code, n_left, *_ in found if code == -9 and 0 < n_left < n_shards]


def test_killed_at_random_moments_it_ends_with_the_same_bytes(saved, ewt, tmp_path):
    killed(saved, ewt, tmp_path, 5)


@pytest.mark.slow
def test_killed_at_many_random_moments_it_ends_with_the_same_bytes(saved, ewt, tmp_path):
    killed(saved, ewt, tmp_path, 20)


@pytest.mark.parametrize("step", ["before", "after"])
def test_stopped_at_every_rename_it_ends_with_the_same_bytes(
    model, corpus, small, whole, read_all, monkeypatch, tmp_path, step
):
    expected, renames = read_all(whole.folder), []
    rename = os.replace

    def stopping(number):
        left = iter([False] * number + [True])

        def replaced(source, target):
            stop = next(left, False)
            if not (stop and step == "before"):
                rename(source, target)
            if stop:
                raise KeyboardInterrupt

        return replaced

    for number in range(4 + 2 * len(whole.manifest.shards)):
        out = tmp_path / str(number)
        monkeypatch.setattr(files.os, "replace", stopping(number))
        try:
            record(model, corpus, out, settings=small)
        except KeyboardInterrupt:
            renames.append(number)
        monkeypatch.setattr(files.os, "replace", rename)
        record(model, corpus, out, settings=small)
        assert read_all(out) == expected
    # Manifest, sentences, each shard with the manifest after it, and the manifest once more.
    assert renames == list(range(3 + 2 * len(whole.manifest.shards)))


def test_what_a_killed_run_was_writing_is_removed(model, corpus, small, whole, tmp_path):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    (out / files.UNFINISHED.replace("*", "abc")).write_bytes(b"half")
    record(model, corpus, out, settings=small)
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in whole.folder.iterdir())


def test_going_on_runs_only_the_batches_that_are_missing(
    model, corpus, small, whole, tmp_path, monkeypatch
):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    last = whole.manifest.shards[-1]
    (out / last.name).unlink()
    seen = []
    closed = recorder.Recorder.close

    def close(self, batch):
        seen.extend(sentence.ordinal for sentence in batch.sentences)
        closed(self, batch)

    monkeypatch.setattr(recorder.Recorder, "close", close)
    told = []
    record(model, corpus, out, settings=small, tell=told.append)
    assert seen == whole.shards[-1].ordinals.tolist()
    n_shards = len(whole.manifest.shards)
    n_done = sum(shard.n_sentences for shard in whole.manifest.shards[:-1])
    assert told[1] == f"going on after {n_shards - 1} whole shards ({n_done} sentences)"


def test_a_finished_record_is_left_alone(model, corpus, small, whole, monkeypatch, read_all):
    before = read_all(whole.folder)

    def never(*_, **__):
        raise AssertionError("the model was run")

    monkeypatch.setattr(writing, "run", never)
    told = []
    record(model, corpus, whole.folder, settings=small, tell=told.append)
    assert told == [f"{whole.folder}: a finished record of the same; nothing to do"]
    assert read_all(whole.folder) == before


@pytest.mark.parametrize("damage", ["cut short", "changed", "gone"])
def test_a_damaged_shard_is_made_anew(model, corpus, small, whole, read_all, tmp_path, damage):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    path = out / whole.manifest.shards[1].name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "changed" else content[:-5])
    record(model, corpus, out, settings=small)
    assert read_all(out) == read_all(whole.folder)


def test_the_size_told_before_is_the_size_after(model, corpus, small, tmp_path):
    told = []
    made = record(model, corpus, tmp_path / "r", settings=small, tell=told.append)
    (line,) = told
    size = float(line.split(" takes ")[1].split(" MiB")[0].replace(",", ""))
    header = 2000 * len(made.manifest.shards)
    there = sum(path.stat().st_size for path in made.folder.iterdir())
    assert abs(there - size * 2**20) < header + 0.05 * 2**20
    assert "are free" in line


def test_a_disk_without_room_is_refused_before_anything_is_run(
    model, corpus, small, tmp_path, monkeypatch
):
    monkeypatch.setattr(writing.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    with pytest.raises(HeadscopeError, match=r"takes .* MiB, 0\.0 MiB are free; choose another"):
        record(model, corpus, tmp_path / "r", settings=small)
    assert list((tmp_path / "r").iterdir()) == []


CHANGES = {
    "level": {"level": "word"},
    "rows": {"rows": "first"},
    "precision": {"precision": "float16"},
    "hidden_states": {"hidden_states": (0,)},
    "batch_tokens": {"batch_tokens": 64},
    "max_map_tokens": {"max_map_tokens": 50},
    "shard_bytes": {"shard_bytes": 50_000},
}


@pytest.mark.parametrize("name", CHANGES)
def test_c104_other_settings_are_refused_by_name(model, corpus, small, whole, read_all, name):
    before = read_all(whole.folder)
    with pytest.raises(InputError, match=f"holds a record made otherwise: {name} ") as caught:
        record(model, corpus, whole.folder, settings=replace(small, **CHANGES[name]))
    assert "\n" not in str(caught.value)
    assert read_all(whole.folder) == before


def test_c104_another_model_is_refused_by_its_weights(other, model, corpus, small, whole):
    known = model.info.weights_sha256[:12], other.info.weights_sha256[:12]
    assert known[0] != known[1]
    with pytest.raises(InputError, match=f"weights {known[0]} there, {known[1]} now"):
        record(other, corpus, whole.folder, settings=small)


def test_c104_other_data_are_refused(model, small, whole, ewt, hostile):
    with pytest.raises(InputError, match="otherwise: sentences 60 there, 59 now; name another"):
        record(model, open_corpus(ewt, limit=59), whole.folder, settings=small)
    with pytest.raises(InputError, match="data [0-9a-f]{12} there, [0-9a-f]{12} now"):
        record(model, open_corpus(hostile / "zero-width.conllu"), whole.folder, settings=small)


def test_c104_other_sentences_under_the_same_name_are_refused(model, corpus, small, whole):
    turned = replace(corpus, read=lambda: reversed(list(corpus.read())))
    with pytest.raises(InputError, match="made otherwise: text of sentences [0-9a-f]{12} there"):
        record(model, turned, whole.folder, settings=small)


def test_c104_another_version_of_a_package_is_refused(model, corpus, small, whole, monkeypatch):
    monkeypatch.setattr(run_module, "__version__", "9.9")
    with pytest.raises(InputError, match=r"otherwise: headscope version \S+ there, 9\.9 now; name"):
        record(model, corpus, whole.folder, settings=small)


def test_c104_another_tokenizer_is_refused(model, corpus, small, whole):
    cased = type(model.tokenizer).from_str(
        model.tokenizer.to_str().replace('"lowercase":true', '"lowercase":false')
    )
    changed = replace(model, tokenizer=cased)
    with pytest.raises(InputError, match="made otherwise: tokenizer [0-9a-f]{12} there"):
        record(changed, corpus, whole.folder, settings=small)


def test_a_folder_with_other_files_is_refused_and_left_alone(model, corpus, tmp_path):
    (tmp_path / "thesis.tex").write_text("text", encoding="utf-8")
    with pytest.raises(InputError, match=r"found thesis\.tex, which is no part of a record"):
        record(model, corpus, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="found a file; expected a folder"):
        record(model, corpus, tmp_path / "thesis.tex")


def test_shards_without_a_manifest_are_refused(model, corpus, small, whole, tmp_path):
    out = Path(shutil.copytree(whole.folder, tmp_path / "copy"))
    (out / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"found sentences\.jsonl, which is no part of a record"):
        record(model, corpus, out, settings=small)


def test_what_makes_no_sense_is_refused_before_a_folder_is_made(model, corpus, whole, tmp_path):
    with pytest.raises(HeadscopeError, match=r"hidden state 4 was asked for; .* to 3"):
        record(model, corpus, tmp_path / "r", settings=RecordSettings(hidden_states=(0, 4)))
    with pytest.raises(InputError, match="found a record; expected data to make one of"):
        record(model, whole.folder, tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_reads_two_texts_is_refused(model, corpus, tmp_path):
    config = type(model.config)(**{**model.config.to_dict(), "is_encoder_decoder": True})
    two = replace(model, config=config, info=replace(model.info, attention="cross"))
    with pytest.raises(ModelError, match="found cross-attention, for which a target is read"):
        record(two, corpus, tmp_path / "r")


def test_the_manifest_conforms_to_its_schema(whole):
    manifest = json.loads((whole.folder / "manifest.json").read_text(encoding="utf-8"))
    loaded = schema("record")
    jsonschema.Draft202012Validator.check_schema(loaded)
    jsonschema.validate(manifest, loaded)
    identity = {name: v for name, v in manifest["identity"].items() if name != "level"}
    with pytest.raises(jsonschema.ValidationError, match="'level' is a required"):
        jsonschema.validate(manifest | {"identity": identity}, loaded)


def test_an_interrupted_record_is_unfinished(model, corpus, small, tmp_path):
    def stop(n_sentences, n_tokens):
        if list((tmp_path / "r").glob("shard-*")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(model, corpus, tmp_path / "r", settings=small, progress=stop)
    manifest = read_manifest(tmp_path / "r")
    names = sorted(path.name for path in (tmp_path / "r").glob("shard-*"))
    assert (manifest.status, [part.name for part in manifest.shards]) == ("unfinished", names)
    with pytest.raises(InputError, match=f"unfinished record of {len(names)} shard"):
        open_corpus(tmp_path / "r")


def test_data_with_nothing_to_keep_are_refused(model, tmp_path, hostile):
    corpus = open_corpus(hostile / "long-1000.conllu")
    with pytest.raises(InputError, match="nothing to analyse: 1 sentence left out, none kept; th"):
        record(model, corpus, tmp_path / "r")
    assert list((tmp_path / "r").iterdir()) == []
    assert torch.is_grad_enabled()


def test_several_processes_are_refused(model, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "launch", lambda: Launch(0, 2))
    with pytest.raises(HeadscopeError, match="found a launch of 2 processes; expected one"):
        record(model, corpus, tmp_path / "r")
