"""`headscope dependency`."""

from __future__ import annotations

from headscope.cli import Coarse, Data, Model, Options, Outputs, RowRule, app, takes_options
from headscope.commands import session


@app.command()
@takes_options()
def dependency(
    model: Model,
    data: Data,
    outputs: Outputs = None,
    rows: RowRule = "mean",
    coarse: Coarse = False,
    *,
    options: Options,
) -> None:
    """Which attention head points from a word to its syntactic head, for each relation.

    Try:

    `headscope dependency demo demo`

    `headscope dependency bert-base-cased en_ewt-ud-dev.conllu -o dependency.csv --coarse`

    `headscope dependency ./my-checkpoint treebank.conllu.gz --limit 500 --control shuffled-words`
    """
    settings = session.settings_of(options, rows=rows, coarse=coarse)
    session.check_outputs(outputs)
    analysis = session.analyse(model, data, ("dependency",), settings, options)
    if analysis.dependency is not None:
        session.deliver(analysis.dependency, outputs, options)
