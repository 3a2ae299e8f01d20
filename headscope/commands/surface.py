"""`headscope surface`."""

from __future__ import annotations

from headscope.cli import Data, Model, Options, Outputs, app, takes_options
from headscope.commands import session


@app.command()
@takes_options()
def surface(model: Model, data: Data, outputs: Outputs = None, *, options: Options) -> None:
    """What each attention head attends to, whatever the words: offsets, special tokens, spread.

    Try:

    `headscope surface demo demo`

    `headscope surface bert-base-cased en_ewt-ud-dev.conllu -o surface.json -o surface.html`

    `headscope surface ./my-checkpoint text.txt --control random-weights`
    """
    settings = session.settings_of(options)
    session.check_outputs(outputs)
    analysis = session.analyse(model, data, ("surface",), settings, options)
    if analysis.surface is not None:
        session.deliver(analysis.surface, outputs, options)
