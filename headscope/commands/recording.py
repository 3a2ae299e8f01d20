"""What `headscope record` does around the call of the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headscope.cli import Interrupted, Options
from headscope.commands import session
from headscope.errors import HeadscopeError

if TYPE_CHECKING:
    from headscope.extraction.record.identity import RecordSettings


def settings_of(
    options: Options, *, level: str, rows: str, precision: str, hidden_states: str
) -> RecordSettings:
    """Settings of the record from what the user gave."""
    from headscope.extraction.record.identity import RecordSettings

    try:
        numbers = tuple(int(number) for number in hidden_states.split(",") if hidden_states)
    except ValueError:
        raise HeadscopeError(
            f"--hidden-states: found '{hidden_states}'; expected numbers such as 0,6"
        ) from None
    return RecordSettings(
        level=level,  # type: ignore[arg-type]
        rows=rows,  # type: ignore[arg-type]
        precision=precision,  # type: ignore[arg-type]
        hidden_states=numbers,
        batch_tokens=options.batch_tokens,
    )


def record(model: str, data: str, out: Path, settings: RecordSettings, options: Options) -> None:
    """Writes a record as the shared options say, with a progress bar on a terminal."""
    from headscope.extraction.record.writing import record as write
    from headscope.results import counted

    corpus = session.opened(data, options)
    try:
        with session.progress(corpus.n_sentences, options, corpus.item) as progress:
            written = write(
                session.loaded(model, options), corpus, out,
                settings=settings, progress=progress,
                tell=lambda text: session.note(text, options),
            )  # fmt: skip
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; whole shards in {out} are kept, and the same command goes on from there"
        ) from None
    n_kept = sum(part.n_sentences for part in written.manifest.shards)
    for text in written.manifest.warnings:
        session.note(f"note: {text}", options)
    session.note(f"{out}: attention of {counted(n_kept, corpus.item)}", options)
