"""`headscope record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import Data, Model, Options, RowRule, app, takes_options
from headscope.commands import recording

Folder = Annotated[Path, typer.Option("--out", help="The folder that becomes the record.")]
Level = Annotated[
    str, typer.Option("--level", help="Attention between tokens: `subword`, or between `word`s.")
]
Precision = Annotated[
    str, typer.Option("--precision", help="On disk: `float32`, or `float16`, which halves it.")
]
States = Annotated[
    str,
    typer.Option("--hidden-states", help="Also keep these, such as `0,6`; 0 are the embeddings."),
]


ANALYSIS_OPTIONS = ("target", "windows", "window_tokens", "stride", "control", "seed")
"""What only an analysis can be told: a record keeps single texts as they are, nothing random."""


@app.command()
@takes_options(*ANALYSIS_OPTIONS)
def record(
    model: Model,
    data: Data,
    out: Folder,
    level: Level = "subword",
    rows: RowRule = "mean",
    precision: Precision = "float32",
    hidden_states: States = "",
    *,
    options: Options,
) -> None:
    """Keep the attention of every sentence on disk; a run that was killed goes on from there.

    The folder can be DATA of `surface`, `dependency` and `report`, with the same MODEL.

    Try:

    `headscope record demo demo --out demo.record`

    `headscope record bert-base-cased ewt.conllu --out ewt --level word --precision float16`
    """
    settings = recording.settings_of(
        options, level=level, rows=rows, precision=precision, hidden_states=hidden_states
    )
    recording.record(model, data, out, settings, options)
