"""`headscope report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headscope.cli import Coarse, Data, Model, Options, RowRule, app, takes_options
from headscope.commands import session

ReportFile = Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")]
Sentences = Annotated[int, typer.Option("--sentences", help="Sentences to look at in the report.")]


@app.command()
@takes_options()
def report(
    model: Model,
    data: Data,
    output: ReportFile = Path("report.html"),
    sentences: Sentences = 12,
    rows: RowRule = "mean",
    coarse: Coarse = False,
    *,
    options: Options,
) -> None:
    """Everything about a model's attention heads in one HTML file that works offline.

    Try:

    `headscope report demo demo`

    `headscope report bert-base-cased en_ewt-ud-dev.conllu -o bert.html --control random-weights`
    """
    settings = session.settings_of(options, rows=rows, coarse=coarse, n_examples=sentences)
    session.only_html(output)
    analysis = session.analyse(model, data, ("surface", "dependency"), settings, options)
    session.write_page(analysis, output, options)
