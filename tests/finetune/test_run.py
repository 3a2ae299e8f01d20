"""A whole run on a tiny model: what is kept, what is written, what is refused."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import headscope
from headscope.datasets.examples import Example, Split
from headscope.datasets.tasks import task_of
from headscope.errors import HeadscopeError, InputError
from headscope.extraction.loading import load_encoder
from headscope.finetune.outcome import RESULTS, TrainingSettings
from headscope.finetune.run import UNDEFINED, finetune
from headscope.finetune.settings import methods_of
from tests.extraction.toys import bert_config, random_model, save

SETTINGS = TrainingSettings(epochs=2, rate=1e-3, batch=4, max_length=20, device="cpu", seed=3)
WORDS = ("the cat", "a b", "the c d", "b", "cat cat", "d a", "c", "the the the a")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return save(tmp_path_factory.mktemp("saved"), random_model(bert_config()))


def split_of(task, name="train.tsv", labels=(0, 1)):
    examples = tuple(
        Example(text, text[::-1], labels[place % len(labels)], place + 2)
        for place, text in enumerate(WORDS)
    )
    return Split(name, "ab" * 32, examples, task.labels or ())


def trained(start, out, name="standard", *, task="qnli", labels=(0, 1), settings=SETTINGS, **more):
    chosen = task_of(task)
    splits = split_of(chosen, labels=labels), split_of(chosen, "dev.tsv", labels)
    return finetune(
        start, chosen, *splits, out, methods=methods_of(name), settings=settings, **more
    )


NAMES = ["standard", "r3f", "r4f", "smart", "freelb", "r-drop", "sam", "l2-sp", "repina", "mixout",
         "llrd", "reinit", "neftune", "lp-ft", "child-tuning-f", "child-tuning-d", "lora",
         "smart+l2-sp+llrd+mixout"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_method_leaves_a_checkpoint_that_all_commands_take(start, tmp_path, name):
    result = trained(start, tmp_path / "out", name)
    found = json.loads((tmp_path / "out" / RESULTS).read_text(encoding="utf-8"))
    assert found["scores"] == result.scores
    assert found["method"] == name
    assert set(p.name for p in (tmp_path / "out").iterdir()) >= {
        "README.md", "config.json", "model.safetensors", "run.json", "tokenizer.json",
    }  # fmt: skip
    assert not (tmp_path / "out" / "checkpoints").exists()
    encoder = load_encoder(tmp_path / "out", device="cpu")
    assert encoder.notes == load_encoder(start, device="cpu").notes
    # Weights moved, and none has another name than in a plain checkpoint.
    before = load_encoder(start, device="cpu").model.state_dict()
    after = encoder.model.state_dict()
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[key], after[key]) for key in before)


def test_time_to_best_is_read_from_the_clock(start, tmp_path):
    began = time.perf_counter()
    result = trained(start, tmp_path / "out")
    assert 0 < result.seconds_to_best < time.perf_counter() - began
    assert result.best_step in (2, 4)
    assert result.throughput["examples_per_second"] > 0


def test_the_checkpoint_answers_as_the_trained_model_did(start, tmp_path):
    result = trained(start, tmp_path / "out", "r4f")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    largest = torch.linalg.matrix_norm(model.classifier.weight, 2).item()
    assert largest == pytest.approx(1, abs=1e-2)
    assert 0 <= result.scores["accuracy"] <= 1


def test_the_same_seed_gives_the_same_weights(start, tmp_path):
    for number, seed in enumerate((3, 3, 4)):
        trained(start, tmp_path / str(number), settings=replace_seed(seed))
    first, second, other = (
        load_encoder(tmp_path / str(n), device="cpu").info.weights_sha256 for n in range(3)
    )
    assert first == second != other


def replace_seed(seed):
    return TrainingSettings(**{**vars(SETTINGS), "seed": seed, "epochs": 1})


def test_regression_of_constant_scores_is_null_and_never_best(start, tmp_path):
    result = trained(start, tmp_path / "out", task="stsb", labels=(2.5,))
    assert result.scores == {"pearson": None, "spearman": None}
    assert "undefined" in result.nulls["pearson"]
    assert all(log.get("eval_choice", UNDEFINED) == UNDEFINED for log in result.history)
    text = (tmp_path / "out" / RESULTS).read_text(encoding="utf-8")
    assert "NaN" not in text


def test_a_folder_that_holds_something_is_not_overwritten(start, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(HeadscopeError, match="mine: found other files; expected a new or an empty"):
        trained(start, tmp_path / "mine")
    trained(start, tmp_path / "out")
    with pytest.raises(HeadscopeError, match="found a run; .* go on with it by --resume"):
        trained(start, tmp_path / "out")
    with pytest.raises(HeadscopeError, match="holds a run of another methods"):
        trained(start, tmp_path / "out", "r3f", resume=True)
    with pytest.raises(HeadscopeError, match="the run is finished"):
        trained(start, tmp_path / "out", resume=True)


def test_splits_without_labels_are_refused(start, tmp_path):
    with pytest.raises(InputError, match=r"train\.tsv: found no labelled example"):
        trained(start, tmp_path / "out", labels=(None,))
    assert not (tmp_path / "out").exists()


def test_an_analysis_of_a_checkpoint_made_here(start, tmp_path, ewt):
    trained(start, tmp_path / "out")
    corpus = headscope.open_corpus(ewt, limit=3)
    assert headscope.surface(tmp_path / "out", corpus).measures["first"].n > 0


KILLED = """
import os, signal, sys
from pathlib import Path
from transformers import TrainerCallback
from headscope.finetune import run
from headscope.finetune.trainer import MethodTrainer
from tests.finetune.test_run import trained
name, start, out, step = sys.argv[1:]

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        if state.global_step == int(step):
            os.kill(os.getpid(), signal.SIGKILL)

made = run._trainer
def with_kill(*given):
    trainer = made(*given)
    trainer.add_callback(Kill())
    return trainer
run._trainer = with_kill
trained(start, Path(out), name)
"""


@pytest.mark.parametrize("name", ["standard", "smart", "mixout+r3f"])
def test_a_killed_run_goes_on_and_ends_with_the_same_weights(start, tmp_path, name):
    trained(start, tmp_path / "whole", name)
    command = [sys.executable, "-c", KILLED, name, str(start), str(tmp_path / "cut"), "3"]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (checkpoint,) = (tmp_path / "cut" / "checkpoints").iterdir()
    assert checkpoint.name == "checkpoint-2"
    # As a kill in the middle of writing leaves it.
    shutil.copytree(checkpoint, checkpoint.parent / "checkpoint-4")
    (checkpoint.parent / "checkpoint-4" / "whole").unlink()
    resumed = trained(start, tmp_path / "cut", name, resume=True)
    # Of the time before the kill nothing is known.
    rate = resumed.throughput["examples_per_second"]
    assert (resumed.seconds_to_best, rate) == (None, None)
    for file in ("model.safetensors", "config.json"):
        one, other = ((tmp_path / run / file).read_bytes() for run in ("whole", "cut"))
        assert one == other, file
