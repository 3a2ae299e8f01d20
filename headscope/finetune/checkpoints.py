"""Checkpoints of a run that may be killed at any moment: only whole ones are gone on from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model
from transformers import TrainerCallback

from headscope.datasets.files import whole_file
from headscope.finetune.trainer import Anchors

_MARK = "whole"
_TEACHER = "teacher.safetensors"


class MarkWhole(TrainerCallback):
    """Adds to each checkpoint what methods keep beside the model, then marks it as whole."""

    def __init__(self, anchors: Anchors) -> None:
        """Of the run."""
        self.anchors = anchors

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The trainer has written a checkpoint."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.anchors.teacher is not None:
            save_model(self.anchors.teacher.model, str(folder / _TEACHER))
        with whole_file(folder / _MARK) as file:
            file.write(str(state.global_step).encode())


def last_whole(work: Path) -> Path | None:
    """The newest whole checkpoint, or None; newer ones that were cut off are deleted."""
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    while found:
        if (found[-1] / _MARK).is_file():
            return found[-1]
        shutil.rmtree(found.pop())
    return None


def restore(anchors: Anchors, folder: Path) -> None:
    """Brings back what methods keep beside the model."""
    if anchors.teacher is not None:
        load_model(anchors.teacher.model, str(folder / _TEACHER))
