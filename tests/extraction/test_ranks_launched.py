"""Real processes: whatever launches them, the result is that of one, and errors are one line."""

import json

import pytest
import torch

from headscope.datasets import open_corpus
from headscope.probing.analysis import Settings, analyse
from tests.launched import ACCELERATE, TORCHRUN, by, python, side_by_side

N_SENTENCES = 24
CALLS = {"torchrun": (TORCHRUN, "dependency"), "accelerate": (ACCELERATE, "surface")}


def differences(one, other, place=""):
    """Places where two JSON values differ: numbers with a fraction by over 1e-9, others at all."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{place}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}/{number}")
    elif isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > 1e-9:
            yield place, one, other
    elif one != other:
        yield place, one, other


def test_differences_are_found():
    one = {"a": [1, 0.5, None], "b": {"c": "x"}}
    assert list(differences(one, {"a": [1, 0.5 + 1e-10, None], "b": {"c": "x"}})) == []
    other = {"a": [2, 0.5 + 1e-8, 0.0], "b": {"d": "x"}}
    assert [place for place, *_ in differences(one, other)] == ["/a/0", "/a/1", "/a/2", "/b"]


@pytest.fixture(scope="module")
def alone():
    """Both analyses with a control in this process, on one thread, as ranks have it."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    settings = Settings(control="shuffled-words", batch_tokens=256)
    yield analyse("demo", open_corpus("demo", limit=N_SENTENCES), settings=settings)
    torch.set_num_threads(n_threads)


@pytest.mark.parametrize("launcher", CALLS)
def test_two_ranks_give_the_file_of_one_process_and_rank_0_alone_writes(launcher, alone, tmp_path):
    how, command = CALLS[launcher]
    options = ("--limit", N_SENTENCES, "--control", "shuffled-words", "--batch-tokens", "256")
    told = by(
        how, "-m", "headscope", command, "demo", "demo", *options, "-o", "two.json", cwd=tmp_path
    )
    assert (told.out + told.err).count("wrote two.json") == 1
    assert (told.out + told.err).count("contrastively tuned") == 1
    one = json.loads(getattr(alone, command).to_json())
    two = json.loads((tmp_path / "two.json").read_text())
    assert two["data"]["n_sentences"] == N_SENTENCES
    assert list(differences(one, two)) == []


SCRIPT = """
import json, os, sys
from dataclasses import replace

import numpy as np
import torch.distributed

import headscope
from headscope.datasets import open_corpus
from headscope.errors import HeadscopeError
from headscope.extraction.observers import Resampling

rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
encoder, corpus = headscope.load_encoder("demo"), open_corpus("demo", limit=40)
found = {}

def surface():
    return headscope.Surface(encoder, Resampling(0, corpus.sha256))

def message(**changes):
    try:
        headscope.run(**{"encoder": encoder, "corpus": corpus, "observers": [surface()], **changes})
    except HeadscopeError as error:
        return str(error)

def stop(*counts):
    if rank == 1:
        raise ValueError("out of luck")

# Examples, whole on every rank.
analysis = headscope.analyse(encoder, corpus, settings=headscope.Settings(n_examples=3))
found["examples"] = [e.sent_id + str(e.attention.tobytes()) for e in analysis.examples]
found["surface"] = analysis.surface.to_dict()

# One batch: the other ranks see nothing of it.
kept, told = surface(), []
few = open_corpus("demo", limit=3)
seen = headscope.run(encoder, few, [kept], progress=lambda *counts: told.append(counts))
found["few"] = [seen.data.n_tokens, kept.counts[0].tolist(), kept.sums.tolist()]
found["batches of few"] = told
if size > 1:
    found["again"] = message(observers=[kept])
    found["other data"] = message(corpus=replace(corpus, sha256=str(rank) * 64))
    found["other settings"] = message(batch_tokens=512 * (1 + rank))
    other = headscope.Surface(encoder, Resampling(rank, corpus.sha256))
    found["other seed"] = message(observers=[other])
    rule = headscope.Dependency(encoder, Resampling(0, "0"), rows=("mean", "first")[rank])
    found["other rows"] = message(observers=[rule])
    try:
        found["failure"] = message(progress=stop)
    except ValueError as error:
        found["failure"] = repr(error)
    # The caller's own group stays as it is.
    torch.distributed.init_process_group("gloo")
    own = surface()
    headscope.run(encoder, few, [own])
    found["beside a group"] = [bool(torch.distributed.is_initialized()), own.counts[0].tolist()]
    torch.distributed.destroy_process_group()

with open(f"{sys.argv[1]}-{rank}.json", "w") as file:
    json.dump(found, file)
"""


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """What the script found in one process, and on both ranks of a launch."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    alone = python("script.py", "alone", cwd=folder)
    assert alone.code == 0, alone.err
    by(TORCHRUN, "script.py", "two", cwd=folder)
    names = ("alone-0", "two-0", "two-1")
    return [json.loads((folder / f"{name}.json").read_text()) for name in names]


def test_from_python_every_rank_has_the_whole(scripted):
    alone, *both = scripted
    for found in both:
        assert found["examples"] == alone["examples"]
        assert len(found["examples"]) == 3
        assert list(differences(alone["surface"], found["surface"])) == []


def test_a_rank_may_have_no_batch_at_all(scripted):
    alone, *both = scripted
    assert [len(found["batches of few"]) for found in scripted] == [1, 1, 0]
    for found in both:
        assert list(differences(alone["few"], found["few"])) == []


def test_an_observer_goes_through_one_pass_of_many_ranks(scripted):
    for found in scripted[1:]:
        assert "holds a pass of all 2 ranks already" in found["again"]


def test_ranks_with_other_data_or_settings_stop(scripted):
    for found in scripted[1:]:
        data = "ranks 0 and 1 do not share one task: data of sha256 000000000000 and 111111111111"
        assert data in found["other data"]
        settings = "ranks 0 and 1 do not share one task: batch_tokens 512 and 1024; give every rank"
        assert settings in found["other settings"]
        assert "one task: seed 0 and 1; give" in found["other seed"]
        assert "one task: rows of Dependency mean and first; give" in found["other rows"]


def test_a_failure_on_one_rank_is_told_on_the_other(scripted):
    assert scripted[1]["failure"] == "rank 1: ValueError out of luck"
    assert scripted[2]["failure"] == "ValueError('out of luck')"


def test_a_group_of_the_caller_is_left_alone(scripted):
    for found in scripted[1:]:
        assert found["beside a group"] == [True, scripted[0]["few"][1]]


COMMAND = """
import os, sys
from headscope.cli import main

data = sys.argv[1 + int(os.environ.get("RANK") or os.environ["PMI_RANK"])]
sys.argv = ["headscope", "surface", "demo", data, "-o", "out.json"]
main()
"""

SENTENCE = "1\t{}\t_\tX\t_\t_\t0\troot\t_\t_\n2\tcat\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"


@pytest.fixture
def command(tmp_path):
    """Starts the command line with another file on each rank."""
    (tmp_path / "command.py").write_text(COMMAND, encoding="utf-8")
    for name, word in {"a": "the", "b": "one"}.items():
        (tmp_path / f"{name}.conllu").write_text(SENTENCE.format(word), encoding="utf-8")
    return lambda *data, **how: side_by_side("command.py", *data, cwd=tmp_path, **how)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (("a.conllu", "b.conllu"), "ranks 0 and 1 do not share one task: data of sha256"),
        (("a.conllu", "none.conllu"), "none.conllu: found no such file"),
        pytest.param(
            ("none.conllu", "none.conllu"),
            "none.conllu: found no such file",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["other files", "no file on rank 1", "no file on both"],
)
def test_what_goes_wrong_is_one_line_of_one_rank(command, tmp_path, data, line):
    ended = command(*data)
    assert [rank.code for rank in ended] == [2, 2]
    assert [rank.out for rank in ended] == ["", ""]
    (told,) = "".join(rank.err for rank in ended).splitlines()
    assert told.startswith("headscope: ")
    assert line in told
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_ranks_that_mpi_started_need_no_launcher_of_torch(command, tmp_path):
    ended = command("a.conllu", "a.conllu", names=("PMI_RANK", "PMI_SIZE"))
    assert [rank.code for rank in ended] == [0, 0], ended
    assert "wrote out.json" in ended[0].err
    assert ended[1].err == ""
    assert json.loads((tmp_path / "out.json").read_text())["data"]["n_words"] == 2
