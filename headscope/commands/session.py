"""What every command does around its analysis: progress, notes, files or a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from headscope.cli import Options
from headscope.errors import HeadscopeError
from headscope.extraction.launch import launch

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from headscope.datasets import Corpus
    from headscope.extraction.encoder import Encoder
    from headscope.extraction.run import Progress
    from headscope.extraction.windows import Windows
    from headscope.probing.analysis import Analysis, Settings
    from headscope.results import Result


def analyse(
    model: str, data: str, kinds: Sequence[str], settings: Settings, options: Options
) -> Analysis:
    """One analysis as the shared options say, with a progress bar on a terminal."""
    from headscope.probing import analysis

    corpus = opened(data, options)
    with progress(corpus.n_sentences, options, corpus.item) as bar:
        encoder = loaded(model, options)
        return analysis.analyse(encoder, corpus, kinds, settings=settings, progress=bar)


def opened(data: str, options: Options) -> Corpus:
    """The data, once it is known that the model can be placed where it was asked for."""
    from headscope.datasets import columns_of, open_corpus
    from headscope.extraction.loading import placement

    placement(options.device, options.dtype)  # before a long survey of the data
    return open_corpus(
        data,
        format=options.format,
        columns=None if options.columns is None else columns_of(options.columns),
        limit=options.limit,
        skip_bad=options.skip_bad,
    )


def loaded(model: str, options: Options) -> Encoder:
    """The model, as the shared options say."""
    from headscope.extraction.loading import load_encoder

    return load_encoder(
        model,
        attention=options.attention,
        device=options.device,
        dtype=options.dtype,
        trust_remote_code=options.trust_remote_code,
    )


def settings_of(
    options: Options, *, rows: str = "mean", coarse: bool = False, n_examples: int = 0
) -> Settings:
    """Settings of the analysis from what the user gave; unknown names are refused here, early."""
    from headscope.probing.analysis import Settings

    return Settings(
        rows=rows,  # type: ignore[arg-type]
        coarse=coarse,
        seed=options.seed,
        control=options.control,
        n_examples=n_examples,
        batch_tokens=options.batch_tokens,
        target=options.target,  # type: ignore[arg-type]
        windows=_windows(options),
    )


def _windows(options: Options) -> Windows | None:
    from headscope.extraction.windows import Windows

    if options.windows:
        return Windows(options.window_tokens, options.stride)
    if options.window_tokens is not None or options.stride:
        raise HeadscopeError("--window-tokens and --stride say how --windows cuts; add --windows")
    return None


def check_outputs(outputs: Sequence[Path] | None) -> None:
    """Refuses files that cannot be written before a long analysis, not after it."""
    from headscope.report import check_writable

    # Other ranks write nothing, and may run where the folder is not.
    for path in outputs or ():
        if launch().leads:
            check_writable(path)


def deliver(result: Result, outputs: Sequence[Path] | None, options: Options) -> None:
    """Writes the files asked for, or prints the table; ranks but the first do neither."""
    if not launch().leads:
        return
    from headscope.commands.tables import table_of
    from headscope.report import write_result

    for path in outputs or ():
        write_result(result, path)
        note(f"wrote {path}", options)
    if not outputs:
        console = Console(emoji=False)
        # A pipe has no width of its own; columns must not be cut there.
        _Table(width=None if console.is_terminal else 160, emoji=False).print(table_of(result), "")
    tell_warnings(result, options)


class _Table(Console):
    """Prints to standard output."""

    def on_broken_pipe(self) -> None:
        """Leaves it to the command line what to do when the reader has gone; rich would exit."""
        raise BrokenPipeError


def tell_warnings(result: Result, options: Options) -> None:
    """What the reader of the numbers must know, on standard error."""
    origin = result.provenance
    for text in origin.warnings:
        note(f"note: {text}", options)
    can_cut = origin.data.format != "pairs" and origin.settings["record"] is None
    if origin.data.skipped["too_long"] and can_cut and not options.windows:
        note("note: --windows cuts what is too long, in place of leaving it out", options)


def note(text: str, options: Options) -> None:
    """A line on standard error, unless --quiet."""
    if not options.quiet:
        Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(text, markup=False)


@contextmanager
def progress(
    total: int | None, options: Options, item: str = "sentence"
) -> Iterator[Progress | None]:
    """A bar with rate and time left on a terminal; nothing when piped or quiet.

    Args:
        total: items of the data, None where nobody knows.
        options: those that commands share.
        item: what is counted.
    """
    if options.quiet or not sys.stderr.isatty():
        yield None
        return
    passes = 2 if options.control else 1
    with _bar(f"{item}s") as bar:
        task = bar.add_task("loading", total=None if total is None else total * passes, rate=0.0)

        def advance(n_sentences: int, n_tokens: int) -> None:
            state = bar.tasks[0]
            rate = state.speed or 0.0
            # Ranks keep pace, for batches are dealt out fairly: those of one tell of all.
            bar.update(
                task, advance=n_sentences * launch().size, description="observing", rate=rate
            )

        yield advance


def _bar(items: str) -> Bar:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(items + ", {task.fields[rate]:,.0f}/s"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)


def only_html(path: Path) -> None:
    """Refuses a report under another ending."""
    from headscope.report import check_writable

    if path.suffix != ".html":
        raise HeadscopeError(
            f"{path}: a report is one HTML file; expected a name ending in .html (results in other "
            "forms: headscope surface, headscope dependency)"
        )
    if launch().leads:
        check_writable(path)


def write_page(analysis: Analysis, path: Path, options: Options) -> None:
    """Writes the report and says where it lies; ranks but the first do neither."""
    if not launch().leads:
        return
    from headscope.report import render, write_report

    write_report(render(analysis.surface, analysis.dependency, analysis.examples), path)
    result = analysis.dependency or analysis.surface
    if result is not None:
        tell_warnings(result, options)
    note(f"wrote {path.resolve()}", options)
