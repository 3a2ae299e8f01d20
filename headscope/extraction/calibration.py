"""The calibration pass: observed attention is compared with the model's own before use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from headscope.datasets import Sentence
from headscope.errors import ModelError
from headscope.extraction.batches import Batch, collate
from headscope.extraction.encoder import Encoder
from headscope.extraction.hook import (
    MAX_MAP_TOKENS,
    NAME,
    Observation,
    Site,
    attention_set_to,
    inputs,
    watched_by,
)
from headscope.extraction.observers import Observer
from headscope.extraction.words import NO_WORD, Pieces

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}


@dataclass
class KeepMaps:
    """Keeps every map; for calibration and for tests, never for a corpus.

    Attributes:
        maps: [B, H, T, T] of every layer of one batch, then of the next.
    """

    needs: Literal["maps"] = "maps"
    maps: list[Tensor] = field(default_factory=list)
    _open: list[Tensor] = field(default_factory=list, repr=False)

    def update(self, layer: int, start: int, probs: Tensor, batch: Batch) -> None:
        """Takes in one layer's whole map [B, H, T, T]."""
        if layer == 0:
            self._open = []
        self._open.append(probs.detach().clone())

    def close(self, batch: Batch) -> None:
        """Keeps the maps of the batch."""
        self.maps.extend(self._open)
        self._open = []

    def __add__(self, other: Self) -> Self:
        """Maps of both, one after the other."""
        return replace(self, maps=[*self.maps, *other.maps], _open=[])


@contextlib.contextmanager
def observe(
    encoder: Encoder, observers: Sequence[Observer], *, max_map_tokens: int = MAX_MAP_TOKENS
) -> Iterator[Observation]:
    """Observers see the attention of every batch given to `Observation.forward` inside the block.

    On first use the model is compared with its own eager attention. The model is restored on every
    exit, also after an exception.

    Raises:
        ModelError: the model cannot be observed, or observed attention differs from its own.
    """
    if not encoder.sites:
        calibrate(encoder)
    observation = Observation(encoder, observers, max_map_tokens)
    with attention_set_to(encoder.model, NAME):
        yield observation


def calibrate(encoder: Encoder) -> None:
    """Fixes which module is which layer; compares probabilities and output with eager attention.

    Two short sequences of arbitrary ids, one padded, are run three times: with the model's own
    eager attention, with the observed function, and once more under observation.

    Raises:
        ModelError: the number of calls differs from the number of maps or layers, or probabilities
            or outputs are further apart than rounding explains.
    """
    batch = _probe(encoder)
    name = encoder.info.name
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        own = encoder.model(**inputs(encoder, batch), output_attentions=True)
    sites, output = _call_roll(encoder, batch)
    maps = [m for m in own.attentions or () if m is not None]
    if len(sites) != len(maps) or len(sites) != encoder.n_layers:
        raise ModelError(
            f"{name}: {len(sites)} calls of the attention function, {len(maps)} maps of its own "
            f"and {encoder.n_layers} layers in its config; expected the same number of each"
        )
    n_heads = {m.shape[1] for m in maps}
    if n_heads != {encoder.n_heads}:
        raise ModelError(
            f"{name}: {' or '.join(map(str, sorted(n_heads)))} heads in its maps, "
            f"{encoder.n_heads} in its config; expected the same number in every layer"
        )
    keep = KeepMaps()
    encoder.sites = sites
    try:
        with attention_set_to(encoder.model, NAME):
            Observation(encoder, [keep]).forward(batch)
        _compare(encoder, batch, maps, keep.maps, own.last_hidden_state, output)
        _note_what_was_seen(encoder, batch, keep.maps)
    except BaseException:
        # Also after Ctrl-C: a model that was not compared to the end is compared on its next use.
        encoder.sites = ()
        raise


def _probe(encoder: Encoder) -> Batch:
    vocabulary = encoder.model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    ids = [i for i in range(min(vocabulary, 64)) if i != encoder.pad_id]
    longest = min(7, encoder.max_length)
    group = [(_sentence(n), _pieces(ids, n)) for n in (longest, max(1, longest - 3))]
    return collate(encoder, group)


def _sentence(n_words: int) -> Sentence:
    blank = ("_",) * n_words
    return Sentence(blank, (0,) * n_words, blank, blank, "calibration", 0, 0, 0)


def _pieces(ids: list[int], length: int) -> Pieces:
    chosen = torch.tensor([ids[(11 * i + length) % len(ids)] for i in range(length)]).numpy()
    zeros = torch.zeros(length, dtype=torch.long).numpy()
    return Pieces(chosen, zeros, zeros.astype(bool), zeros + NO_WORD, length)


@dataclass
class _Roll:
    """Writes down which modules call, in order."""

    called: list[nn.Module] = field(default_factory=list)

    def arrive(self, module: nn.Module) -> Site | None:
        self.called.append(module)
        return None


def _call_roll(encoder: Encoder, batch: Batch) -> tuple[tuple[nn.Module, ...], Tensor]:
    """Modules in the order in which they call the observed function, and the pass's output."""
    roll = _Roll()
    with torch.no_grad(), watched_by(roll, encoder.model):
        output = encoder.model(**inputs(encoder, batch)).last_hidden_state
    return tuple(roll.called), output


def _compare(
    encoder: Encoder,
    batch: Batch,
    own_maps: list[Tensor],
    maps: list[Tensor],
    own_output: Tensor,
    output: Tensor,
) -> None:
    """Rows of padding do not count; NaN is a difference, for it compares as False."""
    limit = TOLERANCE[own_output.dtype]
    rows = batch.valid.unsqueeze(1).expand(-1, encoder.n_heads, -1)
    pairs = zip(own_maps, maps, strict=True)
    apart = float(torch.stack([(a.to(b.dtype) - b)[rows].abs().max() for a, b in pairs]).max())
    expected, found = own_output[batch.valid], output[batch.valid]
    drift = float((expected - found).abs().max()) / max(1.0, float(expected.abs().max()))
    if not (apart <= limit and drift <= limit):
        raise ModelError(
            f"{encoder.info.name}: observed attention differs from the model's own by {apart:.1e} "
            f"(output: {drift:.1e}), expected at most {limit:.0e}; "
            "this family cannot be observed yet"
        )


def _note_what_was_seen(encoder: Encoder, batch: Batch, maps: list[Tensor]) -> None:
    longest = int(batch.n_tokens[0])
    if longest < 2:
        return
    whole = torch.stack([m[0, :, :longest, :longest] for m in maps])
    encoder.causal = not bool(whole.triu(1).any())
    if encoder.causal:
        encoder.info = replace(encoder.info, attention="decoder")
    visible = torch.ones(longest, longest, device=whole.device)
    visible = visible.tril() if encoder.causal else visible
    uniform = visible / visible.sum(1, keepdim=True)
    flat = [i for i, m in enumerate(whole) if bool(((m - uniform).abs() < 1e-7).all())]
    if flat:
        encoder.notes = (
            *encoder.notes,
            f"every head of layer {', '.join(map(str, flat))} attends exactly uniformly: "
            "are the weights of this checkpoint complete?",
        )
