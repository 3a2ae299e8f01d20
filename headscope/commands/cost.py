"""`headscope cost`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from headscope.cli import Model, app

if TYPE_CHECKING:
    from headscope.finetune.cost import Cost

DEFAULT = (
    "r3f,r4f,smart,freelb,r-drop,sam,l2-sp,repina,mixout,llrd,reinit,child-tuning-f,"
    "child-tuning-d,neftune"
)


@app.command()
def cost(
    model: Model,
    methods: Annotated[str, typer.Option(help="Names with commas between.")] = DEFAULT,
    batch_size: Annotated[int, typer.Option(help="Examples of a step.")] = 16,
    length: Annotated[int, typer.Option(help="Tokens of an example.")] = 64,
    repeats: Annotated[int, typer.Option(help="Steps of each method.")] = 5,
) -> None:
    """What a training step of each method costs, relative to standard fine-tuning.

    Try:

    `headscope cost demo`

    `headscope cost bert-base-cased --methods r3f,smart --batch-size 32 --length 128`
    """
    from headscope.finetune.cost import step_costs

    names = methods.split(",")
    found = step_costs(model, names, batch=batch_size, length=length, repeats=repeats)
    show(found, f"{model}: {batch_size} examples of {length} tokens, median of {repeats}")


def show(costs: Sequence[Cost], title: str) -> None:
    """A table on standard output."""
    table = Table(title=title)
    for name in ("method", "seconds a step", "/ standard", "peak MiB"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for one in costs:
        peak = "–" if one.peak_cuda_mib is None else f"{one.peak_cuda_mib:,.0f}"
        table.add_row(one.method, f"{one.seconds:.3f}", f"{one.ratio:.2f}", peak)
    Console().print(table)
