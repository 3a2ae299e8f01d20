"""`headscope finetune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import Model, app, takes_options
from headscope.commands import training

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, snli, klue-nli, xnli, or "
        "`classification` or `regression` for tables of your own.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Option("--out", help="New folder for the checkpoint.")]


@app.command()
@takes_options()
def finetune(
    model: Model, task: TaskName, out: Folder, *, options: training.TrainingOptions
) -> None:
    """Fine-tune a checkpoint on a task, by any of the methods that claim to keep what it knows.

    The checkpoint that is best on the dev split is kept, with a model card and `training.json`. It
    can be MODEL of every other command.

    Try:

    `headscope finetune demo qnli --data glue/QNLI --out qnli-standard`

    `headscope finetune bert-base-cased sst2 --data glue/SST-2 --method r3f+llrd --set r3f.eps=1e-4
    --out sst2-r3f`

    `headscope finetune demo classification --train train.tsv --dev dev.tsv
    --columns text=review,label=stars --out stars`
    """
    training.finetune(model, task, out, options)
