"""What a step of each method costs, in time and memory, relative to standard fine-tuning."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainingArguments

from headscope.datasets.tasks import task_of
from headscope.extraction.checkpoint import quiet
from headscope.finetune.heads import model_for, open_checkpoint, prepare
from headscope.finetune.methods.weights import Children
from headscope.finetune.settings import STANDARD, methods_of
from headscope.finetune.trainer import MethodTrainer

PLAIN = "transformers Trainer"
"""The library's own trainer, as a check of the overhead of ours."""


@dataclass(frozen=True)
class Cost:
    """Of one method.

    Attributes:
        method: its name.
        seconds: of a step, forward, backward and update, median.
        ratio: to a standard step, measured in turn.
        peak_cuda_mib: memory at its highest; None without a GPU.
    """

    method: str
    seconds: float
    ratio: float
    peak_cuda_mib: float | None


def step_costs(
    model: str | Path,
    names: Sequence[str],
    *,
    batch: int = 16,
    length: int = 64,
    repeats: int = 5,
) -> list[Cost]:
    """Times steps of every method on one batch of arbitrary ids, all of the same length.

    Methods take turns, so that what else the machine does falls on all of them; two steps of each
    come before and are not counted.

    Args:
        model: hub id, folder, or `demo`.
        names: of methods; standard is always there.
        batch: examples.
        length: tokens of each.
        repeats: steps of each method.

    Raises:
        HeadscopeError: an unknown method, or a model that cannot be trained.
    """
    checkpoint, tokenizer = open_checkpoint(model)
    task = task_of("mnli")
    with quiet(), TemporaryDirectory() as folder:
        torch.manual_seed(0)
        start = model_for(checkpoint, task, task.labels or ())
        ids = torch.randint(0, int(tokenizer.vocab_size), (batch, length))
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "labels": torch.arange(batch) % len(task.labels or ()),
        }
        chosen = list(dict.fromkeys([STANDARD, *names]))
        trainers: dict[str, Trainer] = {
            name: _trainer(copy.deepcopy(start), name, Path(folder)) for name in chosen
        }
        trainers[PLAIN] = Trainer(copy.deepcopy(start), _arguments(Path(folder)))
        times: dict[str, list[float]] = {name: [] for name in trainers}
        peaks: dict[str, float] = {}
        for number in range(repeats + 2):
            for name, trainer in trainers.items():
                seconds, peak = _step(trainer, inputs)
                if number >= 2:
                    times[name].append(seconds)
                    peaks[name] = max(peak, peaks.get(name, 0.0))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    cuda = torch.cuda.is_available()
    return [
        Cost(name, taken, taken / medians[STANDARD], peaks[name] if cuda else None)
        for name, taken in medians.items()
    ]


def _arguments(folder: Path) -> TrainingArguments:
    return TrainingArguments(str(folder), max_steps=100, disable_tqdm=True, save_strategy="no")


def _trainer(model: Any, name: str, folder: Path) -> MethodTrainer:
    methods = methods_of(name)
    anchors = prepare(model, methods)
    if (settings := methods["child-tuning-d"]) is not None:
        weights = model.base_model.parameters()
        anchors.children = Children(settings.share, {w: torch.rand_like(w) for w in weights})
    trainer = MethodTrainer(
        model, _arguments(folder), kind="classification", methods=methods, anchors=anchors
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _step(trainer: Trainer, inputs: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds and peak MiB of one step."""
    assert trainer.model is not None
    if trainer.optimizer is None:
        trainer.create_optimizer()
        trainer.current_gradient_accumulation_steps = 1
    assert trainer.optimizer is not None
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    began = time.perf_counter()
    trainer.training_step(trainer.model, dict(inputs))
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    if cuda:
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else 0.0
    return time.perf_counter() - began, peak
