"""The only loop over a corpus: every analysis hands it observers, and several share one pass."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from headscope import __version__
from headscope.datasets import Corpus
from headscope.errors import InputError
from headscope.extraction.batches import BATCH_TOKENS, Batch, Tally, Target, batches, refuse_target
from headscope.extraction.calibration import calibrate, observe
from headscope.extraction.encoder import Encoder
from headscope.extraction.observation import MAX_MAP_TOKENS, Observation
from headscope.extraction.observers import Observer, Resampling
from headscope.extraction.ranks import Ranks, ranks
from headscope.extraction.record.replay import Replay
from headscope.results import DataInfo, counted

Progress = Callable[[int, int], None]
"""Is told, after each batch, how many sentences and tokens it held."""

UNKNOWN_WARNING = 0.05
"""Share of words with an unknown piece above which results carry a warning."""

SPELLED_OUT_WARNING = 3.0
"""Pieces a word above which results carry a warning: the vocabulary hardly holds the language."""

SHOWN = 20
"""Broken sentences that are named one by one; the rest are only counted."""


@dataclass(frozen=True)
class Pass:
    """What one pass over a corpus went through.

    Attributes:
        data: for the result's header.
        warnings: what the reader of the result must know.
        record: about the record that the attention came from; None where the model was run.
    """

    data: DataInfo
    warnings: tuple[str, ...]
    record: Mapping[str, Any] | None = None


def run(
    encoder: Encoder,
    corpus: Corpus,
    observers: Sequence[Observer],
    *,
    batch_tokens: int = BATCH_TOKENS,
    max_map_tokens: int = MAX_MAP_TOKENS,
    target: Target = "column",
    progress: Progress | None = None,
    done: Callable[[Batch], bool] | None = None,
) -> Pass:
    """One pass over the corpus; the observers have seen all of it when this returns.

    Under `torchrun` or `accelerate launch` every rank calls this with observers that are empty. It
    takes its share of the batches, and at the end all ranks hold the sums of all.

    Args:
        encoder: whose attention is observed.
        corpus: is read once; of a record, its attention is shown and the model is not run.
        observers: are handed the attention of every batch.
        batch_tokens: tokens in a batch, padding included.
        max_map_tokens: longest sequence whose whole maps are handed out; where an observer wants
            them, longer ones are left out, for all observers alike.
        target: what a decoder beside an encoder reads: the data's `column`, or a `copy`.
        progress: is told of every batch, on each rank of those that it takes.
        done: whether a batch was seen in an earlier run, and is passed over.

    Raises:
        InputError, ParseError: from reading the corpus.
        ModelError: the model cannot be observed, or reads no target and is to read a copy.
        HeadscopeError: ranks that do not share one task, or of which one failed.
    """
    _make_ready(encoder, target)
    tally = Tally()
    replay = Replay(encoder, corpus.record, observers) if corpus.record is not None else None
    longest = _longest_map(encoder, observers, max_map_tokens)
    met = ranks()
    stream = batches(
        encoder,
        corpus.read(),
        tally=tally,
        batch_tokens=batch_tokens,
        max_map_tokens=replay.max_map_tokens if replay else longest,
        target=target,
        takes=met.dealt() if met else None,
    )
    own = {"batch_tokens": batch_tokens, "max_map_tokens": max_map_tokens, "target": target}
    with (
        _together(met, encoder, corpus, observers, own),
        _source(replay, encoder, observers, max_map_tokens) as source,
    ):
        for batch in stream:
            if done is None or not done(batch):
                source.forward(batch)
            if progress is not None:
                progress(len(batch), int(batch.n_tokens.sum()))
            if met is not None:
                met.look()
    return pass_of(encoder, corpus, tally, replay.facts if replay else None)


def _make_ready(encoder: Encoder, target: Target) -> None:
    refuse_target(encoder, target)
    if encoder.route is None:
        calibrate(encoder)


def _longest_map(
    encoder: Encoder, observers: Sequence[Observer], max_map_tokens: int
) -> int | None:
    """Length above which sentences are left out; None where nobody wants whole maps."""
    wanted = encoder.route == "maps" or any(observer.needs == "maps" for observer in observers)
    return max_map_tokens if wanted else None


def _source(
    replay: Replay | None, encoder: Encoder, observers: Sequence[Observer], max_map_tokens: int
) -> AbstractContextManager[Replay | Observation]:
    """Where the attention comes from: the record, or the model."""
    if replay is not None:
        return nullcontext(replay)
    return observe(encoder, observers, max_map_tokens=max_map_tokens)


def pass_of(
    encoder: Encoder, corpus: Corpus, tally: Tally, record: Mapping[str, Any] | None = None
) -> Pass:
    """What a pass went through, from what its batches counted."""
    return Pass(_data(corpus, tally), tuple(_warnings(encoder, corpus, tally)), record)


def refuse_nothing(seen: Pass, hint: str = "") -> None:
    """Stops where every sentence was left out.

    Args:
        seen: what was gone through.
        hint: what would have helped.

    Raises:
        InputError: in that case; tells of the first sentence.
    """
    data = seen.data
    n_left_out = data.skipped["too_long"] + data.skipped["misaligned"]
    if n_left_out and not data.n_tokens:
        first = next(text for text in seen.warnings if " was left out: " in text)
        raise InputError(
            f"{data.name}: nothing to analyse: {counted(n_left_out, data.item)} left out, none "
            f"kept; the first: {first}{hint}"
        )


def _data(corpus: Corpus, tally: Tally) -> DataInfo:
    return DataInfo(
        name=corpus.name,
        sha256=corpus.sha256,
        format=corpus.format,
        unit=corpus.unit,
        n_units=len(tally.units),
        n_sentences=tally.n_sentences,
        n_words=tally.n_words,
        n_tokens=tally.n_tokens,
        skipped={**tally.skipped, "broken": len(corpus.skipped)},
        unk_rate=tally.unk_rate,
        annotation=corpus.annotation,
        note=corpus.note,
    )


@contextmanager
def _together(
    met: Ranks | None,
    encoder: Encoder,
    corpus: Corpus,
    observers: Sequence[Observer],
    settings: Mapping[str, object],
) -> Iterator[None]:
    """A pass of all ranks, whose observers are added up at its end; of one process, nothing."""
    if met is None:
        yield
        return
    with met.one_pass({**_facts(encoder, corpus, observers), **settings}):
        met.check(encoder, observers)
        yield
        met.add_up(encoder, observers)


def _facts(encoder: Encoder, corpus: Corpus, observers: Sequence[Observer]) -> dict[str, object]:
    """What ranks must share, so that their sums are those of one process."""
    info = encoder.info
    facts: dict[str, object] = {
        **{f"{name} version": number for name, number in versions().items() if name != "python"},
        "data of sha256": corpus.sha256[:12],
        "data format": corpus.format,
        "cut of the data": corpus.note or "none",
        "weights of sha256": info.weights_sha256[:12],
        "heads": f"{info.n_layers} x {info.n_heads}",
        "attention": info.attention,
        "dtype": info.dtype,
        "device": encoder.device.type,
        "max_length": encoder.max_length,
    }
    for observer in observers:
        for name, value in vars(observer).items():
            if isinstance(value, Resampling):
                facts["seed"] = value.seed
            elif isinstance(value, str | int | float):
                facts[f"{name} of {type(observer).__name__}"] = value
    return facts


def _warnings(encoder: Encoder, corpus: Corpus, tally: Tally) -> Iterator[str]:
    yield from encoder.notes
    if corpus.annotation == "parsed":
        yield "trees and parts of speech are a parser's, not gold"
    if tally.unk_word_rate > UNKNOWN_WARNING:
        yield (
            f"{tally.unk_word_rate:.0%} of the words ({tally.unk_rate:.0%} of the pieces) are "
            "unknown to this tokenizer: these numbers say little about the language of the data"
        )
    if tally.pieces_per_word > SPELLED_OUT_WARNING:
        yield (
            f"words are cut into {tally.pieces_per_word:.1f} pieces on average: this tokenizer "
            "spells the language of the data out, and these numbers say little about it"
        )
    yield from corpus.warnings
    yield from (f"broken sentence left out: {message}" for message in corpus.skipped[:SHOWN])
    yield from _more(len(corpus.skipped) - SHOWN, f"broken {corpus.item}")
    yield from tally.left_out
    n_left_out = tally.skipped["too_long"] + tally.skipped["misaligned"]
    yield from _more(n_left_out - len(tally.left_out), corpus.item)


def _more(count: int, what: str) -> Iterator[str]:
    if count > 0:
        yield f"left out besides: {counted(count, what)}"


def versions() -> dict[str, str]:
    """Versions that can change a number."""
    # Not of the installed package's metadata, which an editable install does not renew.
    own = {"headscope": __version__, "python": platform.python_version()}
    names = ("torch", "transformers", "tokenizers", "numpy")
    return own | {name: version(name) for name in names}
