"""Attention of sentence after sentence, for whoever wants the numbers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from headscope.datasets import Sentence
from headscope.errors import InputError
from headscope.extraction.batches import Batch, Tally, Target, batches, refuse_target
from headscope.extraction.calibration import observe
from headscope.extraction.encoder import Encoder
from headscope.extraction.loading import load_encoder
from headscope.extraction.maps import Level, SentenceMaps
from headscope.extraction.observers import Block
from headscope.extraction.words import Rows

AHEAD_CELLS = 2**17
"""Cells of one head's maps between words of sentences read ahead, unless one alone has more."""

Maps = npt.NDArray[np.float32]


def attention(
    model: str | Path | Encoder,
    sentences: Iterable[Sentence | list[str] | tuple[str, ...] | str],
    *,
    level: Level = "word",
    rows: Rows = "mean",
    target: Target = "column",
) -> Iterator[tuple[Sentence, Maps]]:
    """Every sentence with its attention [L, H, n, n] float32, in the order given.

    n counts words, or with level="subword" all tokens, special ones included. Layers whose queries
    or keys are not the tokens, as the pooled ones of Funnel, are NaN. Sentences are read ahead as
    far as memory stays small, and run through the model in batches. Of a decoder beside an encoder,
    words and tokens are those of the target; of cross-attention, [L, H, n, m] goes from n of the
    target to m of the sentence.

    Args:
        model: hub id, folder, `demo`, or an encoder that is loaded already, as with
            `load_encoder(name, attention="cross")`.
        sentences: words of each, or a string, which is cut at white space (a full stop stuck to a
            word stays part of it), or sentences of a corpus.
        level: `word` or `subword`.
        rows: `mean` or `first`: how rows of a split word's pieces become the word's row.
        target: what a decoder beside an encoder reads: `column`, the `target` of sentences of a
            corpus, or a `copy` of each sentence.

    Raises:
        InputError: no sentences, one that the model cannot take, or one without a target.
        HeadscopeError: an unknown level or row rule; a model that cannot be loaded or observed.
    """
    if isinstance(sentences, str | Sentence) or not isinstance(sentences, Iterable):
        raise InputError(
            f"found {sentences!r:.60}; expected a list of sentences: strings, lists of words, or "
            "sentences of a corpus"
        )
    encoder = model if isinstance(model, Encoder) else load_encoder(model)
    refuse_target(encoder, target)
    keep = _Keep(encoder, SentenceMaps(encoder.n_heads, level, rows))
    return _in_order(encoder, _numbered(sentences), keep, target)


@dataclass
class _Keep:
    """Keeps the maps of every sentence until they are taken."""

    encoder: Encoder
    maps: SentenceMaps
    needs: Literal["maps"] = "maps"
    kept: dict[int, Maps] = field(default_factory=dict)
    _open: tuple[Batch, list[Maps]] | None = None

    def update(self, block: Block) -> None:
        cut = self.maps.cut(block.probs, block.batch, block.keys)
        if self._open is None or self._open[0] is not block.batch:
            shapes = [(self.encoder.n_layers, *one.shape) for one in cut]
            # Layers that are not seen stay as they are.
            self._open = block.batch, [np.full(shape, np.nan, np.float32) for shape in shapes]
        for whole, one in zip(self._open[1], cut, strict=True):
            whole[block.layer] = one.cpu().numpy()

    def close(self, batch: Batch) -> None:
        _, maps = self._open or (batch, [])
        for sentence, whole in zip(batch.sentences, maps, strict=True):
            self.kept[sentence.ordinal] = whole
        self._open = None

    def __add__(self, other: _Keep) -> _Keep:
        return replace(self, kept=self.kept | other.kept)


def _in_order(
    encoder: Encoder, sentences: Iterator[Sentence], keep: _Keep, target: Target
) -> Iterator[tuple[Sentence, Maps]]:
    for group in _ahead(sentences):
        tally = Tally()
        # Numbered anew, for sentences of a corpus may be given twice.
        numbered = [_renumbered(sentence, number) for number, sentence in enumerate(group)]
        # For each group by itself: between two of them the model is as it was.
        with observe(encoder, [keep]) as seen:
            longest = seen.max_map_tokens
            for batch in batches(
                encoder, numbered, tally=tally, max_map_tokens=longest, target=target
            ):
                seen.forward(batch)
        if tally.left_out:
            raise InputError(tally.left_out[0].replace("was left out", "cannot be taken"))
        for number, sentence in enumerate(group):
            yield sentence, keep.kept.pop(number)


def _renumbered(sentence: Sentence, number: int) -> Sentence:
    """The sentence, and its target, under a number of the group."""
    target = sentence.target and replace(sentence.target, ordinal=number)
    return replace(sentence, ordinal=number, target=target)


def _ahead(sentences: Iterator[Sentence]) -> Iterator[list[Sentence]]:
    """Groups of sentences that are small enough together."""
    group: list[Sentence] = []
    cells = 0
    for sentence in sentences:
        size = len(sentence.words) ** 2
        if group and cells + size > AHEAD_CELLS:
            yield group
            group, cells = [], 0
        group.append(sentence)
        cells += size
    if group:
        yield group


def _numbered(
    sentences: Iterable[Sentence | list[str] | tuple[str, ...] | str],
) -> Iterator[Sentence]:
    for number, given in enumerate(sentences):
        if isinstance(given, Sentence):
            yield given
            continue
        words = tuple(given.split()) if isinstance(given, str) else _words(given)
        if not words or not all(isinstance(word, str) for word in words):
            raise InputError(
                f"sentence {number + 1}: found {given!r:.60}; expected a list of sentences, each "
                "of at least one word"
            )
        blank = ("_",) * len(words)
        yield Sentence(words, (0,) * len(words), blank, blank, str(number + 1), number, number, 1)


def _words(given: object) -> tuple[str, ...]:
    """The items of a list; none of what is no list."""
    return tuple(given) if isinstance(given, Iterable) else ()
