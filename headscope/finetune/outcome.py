"""Settings of a run, and what it came to: `training.json`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headscope.datasets.files import whole_file
from headscope.finetune.card import write_card

RESULTS = "training.json"


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained, whatever the method.

    Attributes:
        epochs: passes over the training data.
        rate: learning rate at its peak.
        batch: examples of an update on one process, accumulated where `accumulate` is above 1.
        accumulate: batches of an update.
        warmup: share of the updates until the peak; then the rate falls linearly to 0.
        decay: weight decay.
        max_length: tokens of an example, special ones included.
        clip: largest norm of the gradient; 0 for any.
        seed: of the head, of the order of the examples, of dropout and noise.
        precision: `float32`, `bf16` or `fp16`.
        patience: evaluations without a better score until training stops; 0 for never.
        pad_multiple: pad batches to a multiple of so many tokens.
        device: `auto` or `cpu`.
    """

    epochs: float = 3.0
    rate: float = 2e-5
    batch: int = 32
    accumulate: int = 1
    warmup: float = 0.1
    decay: float = 0.01
    max_length: int = 128
    clip: float = 1.0
    seed: int = 0
    precision: str = "float32"
    patience: int = 0
    pad_multiple: int | None = None
    device: str = "auto"


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to.

    Attributes:
        folder: with the best checkpoint.
        task, method, start: names.
        settings: of training and of the method.
        data: split -> file, fingerprint, number of examples, note.
        scores: of the best checkpoint on the dev split.
        nulls: metric -> why it is undefined.
        best_step: updates after which it was best.
        seconds_to_best: of training until then, evaluations included; None of a run that was
            stopped in between.
        throughput: examples and tokens (without padding) a second, evaluations included, and peak
            memory on a GPU in MiB; rates are None of a run that was stopped in between.
        history: task loss, regulariser and dev metrics by update.
        warnings: whatever a reader of the numbers must know.
        runs: seed, rate, scores and time of every run, where it is the best of several.
    """

    folder: Path
    task: str
    method: str
    start: str
    settings: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    scores: Mapping[str, float | None]
    nulls: Mapping[str, str]
    best_step: int
    seconds_to_best: float | None
    throughput: Mapping[str, float | None]
    history: tuple[Mapping[str, Any], ...] = field(repr=False, default=())
    warnings: tuple[str, ...] = ()
    runs: tuple[Mapping[str, Any], ...] = ()


def write_result(result: TrainingResult) -> None:
    """Writes `training.json` and the card into the folder of the result."""
    found = dataclasses.asdict(result)
    found.pop("folder")
    told = {"kind": "training", "version": 1, **found}
    with whole_file(result.folder / RESULTS) as file:
        file.write((json.dumps(_plain(told), sort_keys=True, indent=1) + "\n").encode())
    write_card(result.folder, _plain(told))


def _plain(value: Any) -> Any:
    """Values that JSON has; numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
