"""From a model and data to results: several analyses in one pass, with their control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headscope.datasets import Corpus, Sentence, open_corpus
from headscope.errors import HeadscopeError, unknown
from headscope.extraction.batches import BATCH_TOKENS, Target
from headscope.extraction.encoder import Encoder
from headscope.extraction.loading import load_encoder, untrained
from headscope.extraction.observers import N_BOOTSTRAP, N_SPLITS, Observer, Resampling
from headscope.extraction.run import Pass, Progress, refuse_nothing, run, versions
from headscope.extraction.windows import Windows, windowed
from headscope.extraction.words import Rows
from headscope.probing.dependency import Dependency
from headscope.probing.examples import Examples
from headscope.probing.surface import Surface
from headscope.results import DependencyResult, Example, Provenance, SurfaceResult

KINDS = ("surface", "dependency")
CONTROLS = ("random-weights", "shuffled-words")
ROWS = ("mean", "first")
TARGETS = ("column", "copy")


@dataclass(frozen=True)
class Settings:
    """How an analysis is made; equal settings on equal inputs give equal numbers.

    Attributes:
        rows: `mean` or `first`: how rows of a split word's pieces become the word's row.
        coarse: cut relations at ":".
        seed: of resampling, of the choice of examples and of the control.
        control: `random-weights`, `shuffled-words` or None: also analyse the same architecture with
            random weights, or the same words in random order.
        n_examples: sentences kept whole for looking at.
        batch_tokens: tokens in a batch, padding included.
        target: `column` or `copy`: what a decoder beside an encoder reads, the target in the data
            or the sentence itself; `copy` is refused where no target is read.
        windows: how documents are cut into windows of whole sentences; None: every sentence alone.
    """

    rows: Rows = "mean"
    coarse: bool = False
    seed: int = 0
    control: str | None = None
    n_examples: int = 0
    batch_tokens: int = BATCH_TOKENS
    target: Target = "column"
    windows: Windows | None = None

    def __post_init__(self) -> None:
        """Refuses names that do not exist and numbers that make no sense."""
        if self.rows not in ROWS:
            raise unknown("rows", self.rows, ROWS)
        if self.target not in TARGETS:
            raise unknown("target", self.target, TARGETS)
        if self.control is not None and self.control not in CONTROLS:
            raise unknown("control", self.control, CONTROLS)
        if self.batch_tokens < 1:
            raise HeadscopeError(f"batch_tokens is {self.batch_tokens}; expected at least 1")
        if not 0 <= self.seed < 2**63:
            raise HeadscopeError(f"seed is {self.seed}; expected 0 or more, below 2**63")
        if self.n_examples < 0:
            raise HeadscopeError(f"{self.n_examples} sentences to look at; expected 0 or more")


@dataclass(frozen=True)
class Analysis:
    """Results of one pass; None for what was not asked for."""

    surface: SurfaceResult | None
    dependency: DependencyResult | None
    examples: tuple[Example, ...] = ()


def analyse(
    model: str | Path | Encoder,
    data: str | Path | Corpus,
    kinds: Sequence[str] = KINDS,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Surface patterns and dependency accuracy of every attention head, in one pass over the data.

    Args:
        model: hub id, folder, `demo`, or an encoder that is loaded already.
        data: file, record, `demo`, or a corpus that is opened already.
        kinds: which of `KINDS`.
        settings: see `Settings`.
        progress: is told of every batch.

    Raises:
        HeadscopeError: anything that the user can mend, as one line.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("analysis", kind, KINDS)
    settings = settings or Settings()
    corpus = data if isinstance(data, Corpus) else open_corpus(data)
    encoder = model if isinstance(model, Encoder) else load_encoder(model)
    if encoder.info.attention == "cross":
        encoder, kinds = _without_arcs(encoder, kinds)
        settings = replace(settings, n_examples=0)
    main = _once(encoder, corpus, kinds, settings, progress)
    if settings.control is None:
        return main
    others = _control(encoder, corpus, settings)
    control = _once(*others, kinds, replace(settings, n_examples=0), progress)
    return replace(
        main,
        surface=main.surface and replace(main.surface, control=control.surface),
        dependency=main.dependency and replace(main.dependency, control=control.dependency),
    )


def surface(
    model: str | Path | Encoder, data: str | Path | Corpus, **settings: Any
) -> SurfaceResult:
    """Surface patterns of every attention head; keywords are those of `Settings`."""
    result = analyse(model, data, ("surface",), settings=Settings(**settings)).surface
    assert result is not None
    return result


def dependency(
    model: str | Path | Encoder, data: str | Path | Corpus, **settings: Any
) -> DependencyResult:
    """Dependency accuracy of every attention head; keywords are those of `Settings`."""
    result = analyse(model, data, ("dependency",), settings=Settings(**settings)).dependency
    assert result is not None
    return result


def _without_arcs(encoder: Encoder, kinds: Sequence[str]) -> tuple[Encoder, Sequence[str]]:
    """The analyses that cross-attention allows, and the encoder with a note on the others.

    Raises:
        HeadscopeError: there are none.
    """
    why = "cross-attention goes from one text to another, and no arc of a tree does"
    kept = [kind for kind in kinds if kind != "dependency"]
    if not kept:
        raise HeadscopeError(
            f"{encoder.info.name}: {why}; observe the encoder or the decoder for dependency"
        )
    if len(kept) == len(kinds):
        return encoder, kinds
    note = f"{why}: dependency accuracy and sentences to look at are left out"
    return replace(encoder, notes=(*encoder.notes, note)), kept


def _once(
    encoder: Encoder,
    corpus: Corpus,
    kinds: Sequence[str],
    settings: Settings,
    progress: Progress | None,
) -> Analysis:
    notes: list[str] = []
    if settings.windows is not None:
        wants_maps = tuple(kinds) != ("surface",) or settings.n_examples > 0
        # The result says how long windows were, not only what was asked for.
        length = settings.windows.length(encoder, wants_maps=wants_maps)
        windows = replace(settings.windows, tokens=length)
        notes += _cut_short(settings.windows, length, encoder)
        settings = replace(settings, windows=windows)
        corpus = windowed(corpus, encoder, windows, wants_maps=wants_maps)
    resampling = Resampling(settings.seed, corpus.sha256)
    of_surface = Surface(encoder, resampling) if "surface" in kinds else None
    of_arcs = (
        Dependency(encoder, resampling, rows=settings.rows, coarse_labels=settings.coarse)
        if "dependency" in kinds
        else None
    )
    of_examples = (
        Examples(encoder, resampling, settings.n_examples, settings.rows)
        if settings.n_examples
        else None
    )
    observers: list[Observer] = [o for o in (of_surface, of_arcs, of_examples) if o is not None]
    seen = run(
        encoder,
        corpus,
        observers,
        batch_tokens=settings.batch_tokens,
        target=settings.target,
        progress=progress,
    )
    seen = replace(seen, warnings=(*notes, *seen.warnings))
    can_cut = settings.windows is None and corpus.format != "pairs" and corpus.record is None
    too_long = can_cut and seen.data.skipped["too_long"] > 0
    refuse_nothing(seen, "; --windows cuts what is too long" if too_long else "")
    return Analysis(
        surface=of_surface and _surface_result(encoder, seen, settings, of_surface),
        dependency=of_arcs and _dependency_result(encoder, seen, settings, of_arcs),
        examples=of_examples.result() if of_examples else (),
    )


def _cut_short(asked: Windows, length: int, encoder: Encoder) -> list[str]:
    """A note where windows are shorter than was asked for."""
    if asked.tokens is None or asked.tokens <= length:
        return []
    of_model = encoder.max_length == length
    why = "the model takes no more" if of_model else "whole maps are kept of no more"
    return [f"windows hold up to {length:,} tokens, not {asked.tokens:,} as asked for: {why}"]


def _surface_result(
    encoder: Encoder, seen: Pass, settings: Settings, observer: Surface
) -> SurfaceResult:
    origin = _provenance(encoder, seen, settings)
    return SurfaceResult(origin, None, observer.result(), observer.variants())


def _dependency_result(
    encoder: Encoder, seen: Pass, settings: Settings, observer: Dependency
) -> DependencyResult:
    relations, overall = observer.result()
    skipped = {**seen.data.skipped, **observer.skipped}
    warnings = seen.warnings
    if not relations:
        warnings = (
            *warnings,
            "there is no arc to score: every sentence has one word, or was left out",
        )
    seen = replace(seen, data=replace(seen.data, skipped=skipped), warnings=warnings)
    return DependencyResult(_provenance(encoder, seen, settings), None, relations, overall)


def _provenance(encoder: Encoder, seen: Pass, settings: Settings) -> Provenance:
    return Provenance(
        model=encoder.info,
        data=seen.data,
        settings={
            "rows": settings.rows,
            "coarse": settings.coarse,
            "control": settings.control,
            "batch_tokens": settings.batch_tokens,
            "target": settings.target if encoder.has_target else None,
            "n_bootstrap": N_BOOTSTRAP,
            "n_splits": N_SPLITS,
            "max_length": encoder.max_length,
            "windows": settings.windows and asdict(settings.windows),
            "record": seen.record,
        },
        seed=settings.seed,
        versions=versions(),
        warnings=seen.warnings,
    )


def _control(encoder: Encoder, corpus: Corpus, settings: Settings) -> tuple[Encoder, Corpus]:
    # Of a control no attention is recorded.
    corpus = replace(corpus, record=None)
    if settings.control == "shuffled-words":
        return encoder, shuffled(corpus, settings.seed)
    return untrained(encoder, settings.seed), corpus


def shuffled(corpus: Corpus, seed: int) -> Corpus:
    """The same corpus with the words of every text in random order, trees kept on the words.

    The words of a pair stay in their text. A target stays as it is.
    """

    def read() -> Iterator[Sentence]:
        for sentence in corpus.read():
            draw = np.random.default_rng([seed, sentence.ordinal])
            n_words = len(sentence.words)
            n_first = n_words if sentence.n_first is None else sentence.n_first
            first, second = draw.permutation(n_first), draw.permutation(n_words - n_first)
            yield reordered(sentence, [*first.tolist(), *(second + n_first).tolist()])

    return replace(corpus, read=read)


def reordered(sentence: Sentence, order: Sequence[int]) -> Sentence:
    """The sentence whose i-th word is the old word order[i]; heads still name the same words."""
    new_number = {old + 1: new + 1 for new, old in enumerate(order)} | {0: 0}
    return replace(
        sentence,
        words=tuple(sentence.words[i] for i in order),
        heads=tuple(new_number[sentence.heads[i]] for i in order),
        relations=tuple(sentence.relations[i] for i in order),
        upos=tuple(sentence.upos[i] for i in order),
    )
