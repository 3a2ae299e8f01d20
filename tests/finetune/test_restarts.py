"""The best of several runs: which one is kept, and what is told of the others."""

import pytest

from headscope.errors import HeadscopeError
from headscope.finetune.outcome import TrainingResult, TrainingSettings, write_result
from headscope.finetune.restarts import best_of, spread

SCORES = {0: 0.5, 1: None, 2: 0.9, 3: 0.7}


class Runs:
    """Makes folders in place of training."""

    def __init__(self, scores=SCORES):
        self.scores, self.made = scores, []

    def __call__(self, folder, settings):
        self.made.append((settings.rate, settings.seed))
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(str(settings.seed))
        value = self.scores[settings.seed]
        training = {"seed": settings.seed, "rate": settings.rate}
        result = TrainingResult(
            folder=folder, task="qnli", method="standard", start="demo",
            settings={"training": training, "methods": {}, "versions": {"headscope": "0"}}, data={},
            scores={"accuracy": value}, nulls={} if value else {"accuracy": "constant"},
            best_step=settings.seed, seconds_to_best=1.0, throughput={},
        )  # fmt: skip
        write_result(result)
        return result


def test_the_best_is_kept_and_all_are_told(tmp_path):
    found = best_of(Runs(), tmp_path / "out", TrainingSettings(), seeds=(0, 1, 2, 3))
    assert (tmp_path / "out" / "model.safetensors").read_text() == "2"
    assert [(run["seed"], run["scores"]["accuracy"]) for run in found.runs] == list(SCORES.items())
    assert spread(found.runs, "accuracy") == (0.5, 0.7, 0.9)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "README.md", "model.safetensors", "training.json",
    ]  # fmt: skip


def test_finished_runs_are_not_made_again(tmp_path):
    settings, first = TrainingSettings(rate=1e-3), Runs()
    first(tmp_path / "out" / "runs" / "rate-0.001-seed-2", TrainingSettings(rate=1e-3, seed=2))
    runs = Runs()
    best_of(runs, tmp_path / "out", settings, seeds=(0, 2))
    assert runs.made == [(1e-3, 0)]


def test_rates_are_tried_with_every_seed(tmp_path):
    runs = Runs()
    best_of(runs, tmp_path / "out", TrainingSettings(), seeds=(2, 3), rates=(1e-5, 2e-5))
    assert runs.made == [(1e-5, 2), (1e-5, 3), (2e-5, 2), (2e-5, 3)]


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(HeadscopeError, match="seeds: found 1, 1; expected different ones"):
        best_of(Runs(), tmp_path / "a", TrainingSettings(), seeds=(1, 1))
    with pytest.raises(HeadscopeError, match="undefined in every run"):
        best_of(Runs({1: None}), tmp_path / "b", TrainingSettings(), seeds=(1,))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.txt").touch()
    with pytest.raises(HeadscopeError, match="found other files"):
        best_of(Runs(), tmp_path / "c", TrainingSettings(), seeds=(1,))
