"""One fine-tuning run: data and a checkpoint in, a folder with the best checkpoint out."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PrinterCallback,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)  # fmt: skip

from headscope.datasets.examples import Split, refuse_other_labels
from headscope.datasets.files import whole_file
from headscope.datasets.tasks import Task
from headscope.errors import HeadscopeError, InputError
from headscope.extraction.checkpoint import DEMO, quiet
from headscope.extraction.loading import DEMO_NOTE
from headscope.extraction.run import versions
from headscope.finetune.checkpoints import MarkWhole, last_whole, restore
from headscope.finetune.encoding import Encoded, collator
from headscope.finetune.heads import lora, model_for, open_checkpoint, prepare
from headscope.finetune.methods.fisher import fisher
from headscope.finetune.methods.weights import Children, release
from headscope.finetune.metrics import Scores, permuted, score
from headscope.finetune.outcome import RESULTS, TrainingResult, TrainingSettings, write_result
from headscope.finetune.settings import Methods
from headscope.finetune.trainer import Anchors, MethodTrainer

_WORK = "checkpoints"
UNDEFINED = -1e9
"""What an undefined metric counts when the best checkpoint is chosen."""


def finetune(
    model: str | Path,
    task: Task,
    train: Split,
    dev: Split,
    out: Path,
    *,
    methods: Methods,
    settings: TrainingSettings,
    resume: bool = False,
) -> TrainingResult:
    """Trains a fresh head and the encoder under it; keeps the checkpoint that is best on dev.

    Args:
        model: hub id, folder, or `demo`.
        task: what is learnt.
        train: examples to learn from.
        dev: examples that choose the checkpoint.
        out: new folder for the checkpoint, its card and `training.json`.
        methods: of `methods_of`.
        settings: of training.
        resume: go on with a run of the same settings that was stopped.

    Raises:
        HeadscopeError: a folder that holds something else, data without labels, a method that does
            not fit, a loss that is no longer finite.
    """
    _refuse_data(task, train, dev)
    checkpoint, tokenizer = open_checkpoint(model)
    identity = _identity(checkpoint.name, task, (train, dev), methods, settings)
    _claim(out, identity, resume)
    set_seed(settings.seed)
    with quiet():
        whole = model_for(checkpoint, task, train.labels)
        limit = min(settings.max_length, _positions(whole.config))
        data = {
            name: Encoded(task, split.labelled, tokenizer, limit)
            for name, split in (("train", train), ("dev", dev))
        }
        if methods["lp-ft"] is not None:
            _probe(whole, data, (task, tokenizer), out, methods, settings)
        anchors = prepare(whole, methods)
        if (d := methods["child-tuning-d"]) is not None:
            anchors.children = Children(d.share, _fisher(whole, data, tokenizer, d.n_batches))
        if (chosen := methods["lora"]) is not None:
            whole = lora(whole, chosen)
        trainer = _trainer(whole, data, (task, tokenizer, anchors), out, methods, settings)
        last = last_whole(out / _WORK) if resume else None
        if last is not None:
            restore(anchors, last)
        began = time.perf_counter()
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        seconds = time.perf_counter() - began if last is None else None
        told = {"train": _told(train, data["train"]), "dev": _told(dev, data["dev"])}
        result = _result(trainer, (task, train.labels), data, (identity, told), seconds)
        if trainer.is_world_process_zero():
            _save(trainer, tokenizer, result)
    return result


def _refuse_data(task: Task, train: Split, dev: Split) -> None:
    for split in (train, dev):
        if not split.labelled:
            raise InputError(f"{split.name}: found no labelled example; expected at least one")
    if task.kind == "classification" and task.labels is None:
        refuse_other_labels(train, dev)


def _result(
    trainer: MethodTrainer,
    of_task: tuple[Task, tuple[str, ...]],
    data: Mapping[str, Encoded],
    told: tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]],
    seconds: float | None,
) -> TrainingResult:
    """What the run came to; the trainer holds the best checkpoint.

    seconds: of training; None where it was stopped in between.
    """
    (task, labels), (identity, splits) = of_task, told
    scores, gold, found = _scored(trainer, task, data["dev"])
    warning = permuted(labels, gold, found) if task.kind == "classification" else None
    best = _best_step(trainer)
    return TrainingResult(
        folder=Path(trainer.args.output_dir or "").parent,
        task=task.name,
        method=trainer.methods.name,
        start=identity["start"],
        settings=identity,
        data=splits,
        scores=scores.values,
        nulls=scores.nulls,
        best_step=best,
        seconds_to_best=None if seconds is None else trainer.reached.get(best),
        throughput=_throughput(trainer, data["train"], seconds),
        history=tuple(trainer.state.log_history),
        warnings=tuple(
            text for text in (DEMO_NOTE if identity["start"] == DEMO else None, warning) if text
        ),
    )


def _save(trainer: MethodTrainer, tokenizer: Any, result: TrainingResult) -> None:
    """Writes the checkpoint as a plain one, its card and the result; drops what was in between."""
    released = trainer.accelerator.unwrap_model(trainer.model)
    if trainer.methods["lora"] is not None:
        released = released.merge_and_unload()
    release(released.eval())
    released.save_pretrained(result.folder)
    tokenizer.save_pretrained(result.folder)
    write_result(result)
    shutil.rmtree(result.folder / _WORK, ignore_errors=True)


def _identity(
    start: str, task: Task, splits: tuple[Split, Split], methods: Methods,
    settings: TrainingSettings,
) -> dict[str, Any]:  # fmt: skip
    return {
        "start": start,
        "task": task.name,
        "data": {split.name: [split.sha256, len(split.examples)] for split in splits},
        "methods": methods.as_dict(),
        "training": dataclasses.asdict(settings),
        "versions": versions(),
    }


def _claim(out: Path, identity: Mapping[str, Any], resume: bool) -> None:
    """Makes the folder, or finds in it the same run, stopped."""
    place = out / "run.json"
    told = json.dumps(identity, sort_keys=True, indent=1)
    if not out.exists() or not any(out.iterdir()):
        out.mkdir(parents=True, exist_ok=True)
        with whole_file(place) as file:
            file.write(told.encode())
        return
    if not place.is_file():
        raise HeadscopeError(f"{out}: found other files; expected a new or an empty folder")
    if not resume:
        raise HeadscopeError(
            f"{out}: found a run; expected a new or an empty folder; go on with it by --resume"
        )
    before = json.loads(place.read_text(encoding="utf-8"))
    apart = [key for key in identity if before.get(key) != json.loads(told)[key]]
    if apart:
        raise HeadscopeError(
            f"{out}: holds a run of another {', '.join(apart)}; expected the same to go on with"
        )
    if (out / RESULTS).is_file():
        raise HeadscopeError(f"{out}: the run is finished; expected one that was stopped")


def _arguments(out: Path, methods: Methods, settings: TrainingSettings) -> TrainingArguments:
    neftune = methods["neftune"]
    return TrainingArguments(
        output_dir=str(out / _WORK),
        num_train_epochs=settings.epochs,
        learning_rate=settings.rate,
        per_device_train_batch_size=settings.batch,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=settings.accumulate,
        warmup_steps=settings.warmup,
        weight_decay=settings.decay,
        max_grad_norm=settings.clip,
        seed=settings.seed,
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        use_cpu=settings.device == "cpu",
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="choice",
        greater_is_better=True,
        logging_steps=10,
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_broadcast_buffers=False,
        neftune_noise_alpha=None if neftune is None else neftune.alpha,
    )


def _trainer(
    model: Any,
    data: Mapping[str, Encoded],
    parts: tuple[Task, Any, Anchors],
    out: Path,
    methods: Methods,
    settings: TrainingSettings,
) -> MethodTrainer:
    task, tokenizer, anchors = parts
    arguments = _arguments(out, methods, settings)

    def measured(answer: EvalPrediction) -> dict[str, float]:
        scores = score(task.metrics, *_pairs(task, answer))
        chosen = scores.values[task.metrics[0]]
        defined = {name: value for name, value in scores.values.items() if value is not None}
        return {**defined, "choice": UNDEFINED if chosen is None else chosen}

    watching: list[TrainerCallback] = [MarkWhole(anchors)]
    if settings.patience:
        watching.append(EarlyStoppingCallback(settings.patience))
    trainer = MethodTrainer(
        model,
        arguments,
        train_dataset=data["train"],
        eval_dataset=data["dev"],
        data_collator=collator(tokenizer, settings.pad_multiple),
        compute_metrics=measured,
        callbacks=watching,
        kind=task.kind,
        methods=methods,
        anchors=anchors,
    )
    # It would print every log as a dictionary on standard output.
    trainer.remove_callback(PrinterCallback)
    return trainer


def _probe(
    model: Any,
    data: Mapping[str, Encoded],
    parts: tuple[Task, Any],
    out: Path,
    methods: Methods,
    settings: TrainingSettings,
) -> None:
    """LP-FT's first phase: the head alone, on a frozen encoder in eval mode."""
    probe = replace(
        settings, epochs=methods["lp-ft"].epochs, rate=methods["lp-ft"].rate, patience=0
    )
    model.base_model.requires_grad_(False)
    trainer = _trainer(model, data, (*parts, Anchors()), out, Methods({}), probe)
    trainer.frozen = model.base_model
    trainer.train()
    trainer.frozen = None
    model.base_model.requires_grad_(True)
    shutil.rmtree(out / _WORK, ignore_errors=True)


def _fisher(
    model: Any, data: Mapping[str, Encoded], tokenizer: Any, n_batches: int
) -> dict[torch.nn.Parameter, torch.Tensor]:
    """Information of the encoder's weights, from the first so many batches of 16 examples."""
    join = collator(tokenizer)
    items = data["train"].items[: 16 * n_batches]
    batches = (join(items[start : start + 16]) for start in range(0, len(items), 16))
    on_device = ({key: value.to(model.device) for key, value in b.items()} for b in batches)
    return fisher(model, model.base_model, on_device)


def _pairs(task: Task, answer: EvalPrediction) -> tuple[Any, Any]:
    """Gold and found, [N] float64 each."""
    logits = answer.predictions[0] if isinstance(answer.predictions, tuple) else answer.predictions
    found = logits.reshape(-1) if task.kind == "regression" else logits.argmax(-1)
    return np.asarray(answer.label_ids, dtype=np.float64), np.asarray(found, dtype=np.float64)


def _scored(trainer: MethodTrainer, task: Task, dev: Encoded) -> tuple[Scores, Any, Any]:
    answer = trainer.predict(dev)
    assert answer.label_ids is not None
    gold, found = _pairs(task, EvalPrediction(answer.predictions, answer.label_ids))
    return score(task.metrics, gold, found), gold, found


def _best_step(trainer: MethodTrainer) -> int:
    best = [log for log in trainer.state.log_history if "eval_choice" in log]
    chosen = max(best, key=lambda log: log["eval_choice"], default={"step": 0})
    return int(chosen["step"])


def _positions(config: Any) -> int:
    return int(getattr(config, "max_position_embeddings", None) or 512)


def _told(split: Split, encoded: Encoded) -> dict[str, Any]:
    return {
        "file": split.name,
        "sha256": split.sha256,
        "n_examples": len(encoded),
        "n_unlabelled": split.n_unlabelled,
        "n_cut": encoded.n_cut,
        "note": split.note,
    }


def _throughput(
    trainer: MethodTrainer, train: Encoded, seconds: float | None
) -> dict[str, float | None]:
    share = trainer.state.epoch or 0.0
    cuda = torch.cuda.is_available()
    return {
        "examples_per_second": len(train) * share / seconds if seconds else None,
        "tokens_per_second": train.n_tokens * share / seconds if seconds else None,
        "peak_cuda_mib": torch.cuda.max_memory_allocated() / 2**20 if cuda else None,
        "seconds": seconds,
    }
