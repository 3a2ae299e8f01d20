"""What `headscope finetune` does around the call of the library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from headscope.errors import HeadscopeError, InputError, unknown

if TYPE_CHECKING:
    from headscope.datasets.examples import Split
    from headscope.datasets.tasks import Task
    from headscope.finetune.outcome import TrainingResult, TrainingSettings

Number = TypeVar("Number", int, float)

DEVICES = ("auto", "cpu")
_PACKAGES = ("accelerate", "scipy", "sklearn")
PRECISIONS = ("float32", "bf16", "fp16")


@dataclass(frozen=True)
class TrainingOptions:
    """Options of training."""

    data: Annotated[
        Path | None, typer.Option(help="Folder with the task's files (train.tsv, dev.tsv, ...).")
    ] = None
    train: Annotated[
        Path | None, typer.Option(help="File of training examples, where not in --data.")
    ] = None
    dev: Annotated[Path | None, typer.Option(help="File of dev examples, where not in --data.")] = (
        None
    )
    columns: Annotated[
        str | None,
        typer.Option(help="Other names of columns, such as `text=premise,label=gold`."),
    ] = None
    method: Annotated[
        str,
        typer.Option(
            help="standard, r3f, r4f, smart, freelb, r-drop, sam, l2-sp, repina, mixout, llrd, "
            "reinit, neftune, or several joined by +."
        ),
    ] = "standard"
    set: Annotated[
        list[str] | None,
        typer.Option(help="Setting of a method, such as `r3f.eps=1e-4`. Repeatable."),
    ] = None
    epochs: Annotated[float, typer.Option(help="Passes over the training data.")] = 3.0
    learning_rate: Annotated[float, typer.Option(help="At its peak.")] = 2e-5
    batch_size: Annotated[int, typer.Option(help="Examples of a batch on one process.")] = 32
    accumulate: Annotated[int, typer.Option(help="Batches of an update.")] = 1
    max_length: Annotated[int, typer.Option(help="Tokens of an example.")] = 128
    precision: Annotated[str, typer.Option(help="`float32`, `bf16` or `fp16`.")] = "float32"
    patience: Annotated[
        int, typer.Option(help="Stop after so many epochs without a better score; 0: never.")
    ] = 0
    limit: Annotated[int | None, typer.Option(help="Take the first N training examples.")] = None
    seeds: Annotated[
        str, typer.Option(help="Seed of everything random, or several, the best of which is kept.")
    ] = "0"
    learning_rates: Annotated[
        str | None, typer.Option(help="Several, the best of which on dev is kept: `1e-5,3e-5`.")
    ] = None
    device: Annotated[str, typer.Option(help="`auto` or `cpu`.")] = "auto"
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out that was stopped.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False


def finetune(model: str, task_name: str, out: Path, options: TrainingOptions) -> None:
    """One run, or the best of several, as the options say; its scores are printed."""
    from headscope.datasets.tasks import task_of

    _refuse_without_packages()
    result = _trained(model, task_of(task_name), out, options)
    if not options.quiet:
        show(result)


def _trained(model: str, task: Task, out: Path, options: TrainingOptions) -> TrainingResult:
    from headscope.finetune.restarts import best_of
    from headscope.finetune.run import finetune as train
    from headscope.finetune.settings import methods_of

    methods, settings = methods_of(options.method, options.set or ()), settings_of(options)
    seeds = _numbers(options.seeds, int, "--seeds") or (0,)
    rates = _numbers(options.learning_rates or "", float, "--learning-rates")
    splits = splits_of(task, options)

    def run(folder: Path, of_run: TrainingSettings) -> TrainingResult:
        given = (model, task, *splits, folder)
        return train(*given, methods=methods, settings=of_run, resume=options.resume)

    if len(seeds) > 1 or rates:
        return best_of(run, out, settings, seeds=seeds, rates=rates)
    return run(out, replace(settings, seed=seeds[0]))


def _refuse_without_packages() -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise HeadscopeError(f'finetune needs {", ".join(missing)}: pip install "headscope[train]"')


def settings_of(options: TrainingOptions) -> TrainingSettings:
    """Settings from the options; what makes no sense is refused here, early."""
    from headscope.finetune.outcome import TrainingSettings

    _refuse(options)
    return TrainingSettings(
        epochs=options.epochs,
        rate=options.learning_rate,
        batch=options.batch_size,
        accumulate=options.accumulate,
        max_length=options.max_length,
        precision=options.precision,
        patience=options.patience,
        device=options.device,
    )


def _refuse(options: TrainingOptions) -> None:
    for name in ("epochs", "learning_rate", "batch_size", "accumulate", "max_length"):
        value = getattr(options, name)
        if not value > 0:
            flag = name.replace("_", "-")
            raise HeadscopeError(f"--{flag}: found {value}; expected a number above 0")
    if options.precision not in PRECISIONS:
        raise unknown("precision", options.precision, PRECISIONS)
    if options.device not in DEVICES:
        raise unknown("device", options.device, DEVICES)


def splits_of(task: Task, options: TrainingOptions) -> tuple[Split, Split]:
    """Training and dev examples, every row of both read and checked."""
    from headscope.datasets import columns_of
    from headscope.datasets.examples import find_file, read_split

    columns = None if options.columns is None else columns_of(options.columns)
    paths = []
    for name in ("train", "dev"):
        path: Path | None = getattr(options, name)
        if path is None and options.data is None:
            raise InputError(f"found neither --data nor --{name}; expected a folder or a file")
        paths.append(path or find_file(task, options.data or Path(), name))
    train = read_split(task, paths[0], columns=columns)
    dev = read_split(task, paths[1], labels=train.labels or None, columns=columns)
    return train.cut(options.limit), dev


def _numbers(text: str, kind: type[Number], flag: str) -> tuple[Number, ...]:
    try:
        return tuple(kind(part) for part in text.split(",") if part)
    except ValueError:
        expected = "whole numbers" if kind is int else "numbers"
        raise HeadscopeError(
            f"{flag}: found '{text}'; expected {expected} with commas between"
        ) from None


def show(result: TrainingResult) -> None:
    """A small table of scores on standard output."""
    console = Console()
    table = Table(title=f"{result.start} fine-tuned on {result.task} ({result.method})")
    table.add_column("metric")
    table.add_column("dev", justify="right")
    for name, value in result.scores.items():
        table.add_row(name, result.nulls.get(name, "") if value is None else f"{value:.4f}")
    console.print(table)
    for run in result.runs:
        told = ", ".join(f"{name} {value}" for name, value in run["scores"].items())
        console.print(f"seed {run['seed']}, rate {run['rate']:g}: {told}", markup=False)
    for warning in result.warnings:
        console.print(f"note: {warning}", markup=False)
    console.print(f"{result.folder}: best after {result.best_step:,} updates", markup=False)
