"""What a run writes: JSON without NaN, and a card beside it."""

import json

from headscope.finetune.outcome import TrainingResult, write_result

RESULT = {
    "task": "qnli", "method": "standard", "start": "demo", "data": {}, "nulls": {"accuracy": "why"},
    "settings": {"training": {"seed": 0}, "methods": {}, "versions": {"headscope": "0"}},
    "best_step": 2, "seconds_to_best": float("nan"), "throughput": {"x": float("inf")},
}  # fmt: skip


def test_numbers_that_are_not_finite_are_null(tmp_path):
    result = TrainingResult(
        folder=tmp_path, scores={"accuracy": None}, history=({"loss": float("nan")},), **RESULT
    )
    write_result(result)
    text = (tmp_path / "training.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert (found["kind"], found["version"]) == ("training", 1)
    assert (found["seconds_to_best"], found["throughput"]["x"]) == (None, None)
    assert found["history"] == [{"loss": None}]
    assert "folder" not in found
    assert "undefined: why" in (tmp_path / "README.md").read_text(encoding="utf-8")
