"""The calibration pass: observed attention is compared with the model's own before use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from headscope.datasets import Sentence
from headscope.errors import ModelError
from headscope.extraction.batches import Batch, collate
from headscope.extraction.encoder import Call, Encoder
from headscope.extraction.hook import NAME, attention_set_to, inputs, watched_by
from headscope.extraction.masks import Mask
from headscope.extraction.observation import MAX_MAP_TOKENS, Observation
from headscope.extraction.observers import Block, Observer
from headscope.extraction.own_maps import n_own_maps, own_maps, own_output
from headscope.extraction.words import NO_WORD, Pieces

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}

_CROSS = ("cross_attention", "cross_attn", "crossattention", "encoder_attn", "EncDecAttention")
"""Names that modules of cross-attention bear in the library's encoder-decoders."""


@dataclass
class KeepMaps:
    """Keeps every map; for calibration and for tests, never for a corpus.

    Attributes:
        maps: [B, H, Tq, Tk] of every layer of one batch, then of the next.
    """

    needs: Literal["maps"] = "maps"
    maps: list[Tensor] = field(default_factory=list)
    _open: list[Tensor] = field(default_factory=list, repr=False)

    def update(self, block: Block) -> None:
        """Takes in one layer's whole map."""
        if block.layer == 0:
            self._open = []
        self._open.append(block.probs.detach().clone())

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

    A model that was not compared with its own eager attention yet is compared first. The model is
    restored on every exit, also after an exception.

    Raises:
        ModelError: the model cannot be observed, or observed attention differs from its own.
    """
    if encoder.route is None:
        calibrate(encoder)
    observation = Observation(encoder, observers, max_map_tokens)
    with attention_set_to(encoder.model, NAME):
        yield observation


def calibrate(encoder: Encoder) -> None:
    """Finds out how a model is observed; compares probabilities and output with its own attention.

    Two short sequences of arbitrary ids, one padded, are run with the model's own eager attention,
    with the observed function, under observation, and the shorter one once more alone.

    Raises:
        ModelError: a model that gives no probabilities, or whose probabilities or outputs are
            further from its own than rounding explains.
    """
    batch = _probe(encoder)
    own = own_output(encoder, batch)
    maps = own_maps(encoder, own)
    roll, output, why_not = _call_roll(encoder, batch)
    _note_shape(encoder, batch, maps, len(roll))
    _note_what_is_seen(encoder, maps)
    apart: _Apart | None = None
    if why_not is None and len(roll) == n_own_maps(own):
        try:
            _settle(encoder, batch, maps, (own.last_hidden_state, output), roll)
            return
        except _Apart as error:
            apart = error
    _compare_with_default(encoder, batch, own.last_hidden_state, apart)
    _settle(encoder, batch, maps, (own.last_hidden_state, own.last_hidden_state), None)
    if apart is not None:
        encoder.notes += (f"its attention is read from its own maps, for {apart}",)


class _Apart(ModelError):
    """What is observed is not the model's own."""


def _settle(
    encoder: Encoder,
    batch: Batch,
    maps: list[Tensor | None],
    outputs: tuple[Tensor, Tensor],
    roll: list[nn.Module] | None,
) -> None:
    """Fixes the route: by the calls on the roll, or by the model's own maps where there is none."""
    try:
        encoder.route = "maps" if roll is None else "function"
        encoder.sites = () if roll is None else _numbered(encoder, roll)
        seen = _seen(encoder, batch)
        _compare(encoder, batch, ([m for m in maps if m is not None], seen), outputs)
        _note_uniform_layers(encoder, batch, seen)
        leaks = _padding_leaks(encoder, batch, seen)
        encoder.equal_lengths = leaks or _turns_by_longest(encoder.config)
    except BaseException:
        # Also after Ctrl-C: a model that was not compared to the end is compared on its next use.
        encoder.route, encoder.sites = None, ()
        raise


def _probe(encoder: Encoder) -> Batch:
    ids = [i for i in range(min(encoder.n_ids, 64)) if i != encoder.pad_id]
    longest = min(7, encoder.max_length or 7)
    group = [(_sentence(n), _pieces(ids, n)) for n in (longest, max(1, longest - 3))]
    targets = None
    if encoder.has_target:
        targets = [(_sentence(n), _pieces(ids[::-1], n)) for n in (longest - 1, longest - 2)]
    return collate(encoder, group, targets)


def _sentence(n_words: int) -> Sentence:
    blank = ("_",) * n_words
    return Sentence(blank, (0,) * n_words, blank, blank, "calibration", 0, 0, 0)


def _pieces(ids: list[int], length: int) -> Pieces:
    chosen = torch.tensor([ids[(11 * i + length) % len(ids)] for i in range(length)]).numpy()
    zeros = torch.zeros(length, dtype=torch.long).numpy()
    return Pieces(chosen, zeros, zeros.astype(bool), zeros + NO_WORD, zeros, length)


@dataclass
class _Roll:
    """Writes down which modules call, in order."""

    called: list[nn.Module] = field(default_factory=list)

    def arrive(self, module: nn.Module, mask: Mask | None) -> None:
        self.called.append(module)


def _call_roll(encoder: Encoder, batch: Batch) -> tuple[list[nn.Module], Tensor, str | None]:
    """Modules that call the observed function, in order; the pass's output; why there is none."""
    roll = _Roll()
    try:
        with torch.no_grad(), watched_by(roll, encoder.model):
            output = encoder.model(**inputs(encoder, batch)).last_hidden_state
    except (AttributeError, TypeError, RuntimeError) as error:
        # A model that does something of its own with the mask.
        return roll.called, torch.empty(0), f"{type(error).__name__}: {error}"
    return roll.called, output, None


def _note_shape(encoder: Encoder, batch: Batch, maps: list[Tensor | None], n_calls: int) -> None:
    """Numbers of layers and heads, as the model's own maps have them."""
    info = encoder.info
    if not maps:
        raise ModelError(
            f"{info.name}: models of family '{info.family}' give no attention probabilities "
            f"({n_calls} calls of the attention function, no map of its own for "
            f"{info.attention} attention); this model cannot be observed"
        )
    shapes = {tuple(m.shape) for m in maps if m is not None}
    n_heads = {shape[1] for shape in shapes}
    wanted = (batch.queries.input_ids.shape[1], batch.keys.input_ids.shape[1])
    if len(n_heads) > 1 or {shape[2:] for shape in shapes} != {wanted}:
        raise ModelError(
            f"{info.name}: its maps have the shapes {sorted(shapes)} for {wanted[0]} queries and "
            f"{wanted[1]} keys; expected the same heads in every layer, and a row for every query "
            "and a column for every key; this model cannot be observed"
        )
    encoder.info = replace(info, n_layers=len(maps), n_heads=n_heads.pop())
    encoder.unseen = tuple(layer for layer, one in enumerate(maps) if one is None)


def _numbered(encoder: Encoder, roll: list[nn.Module]) -> tuple[Call, ...]:
    """The calls with the numbers of the layers of the kind observed."""
    names = {module: name for name, module in encoder.model.named_modules()}
    count = 0
    calls = []
    for module in roll:
        chosen = not encoder.has_target or _kind(names[module]) == encoder.info.attention
        calls.append(Call(module, count if chosen else None))
        count += chosen
    if count != encoder.n_layers:
        raise _Apart(
            f"there are {count} {encoder.info.attention} calls of the attention function and "
            f"{encoder.n_layers} maps of its own; expected the same number"
        )
    return tuple(calls)


def _kind(name: str) -> str:
    if any(part in name.split(".") for part in _CROSS):
        return "cross"
    return "decoder" if "decoder" in name.split(".") else "encoder"


def _seen(encoder: Encoder, batch: Batch) -> list[Tensor]:
    keep = KeepMaps()
    with attention_set_to(encoder.model, NAME):
        Observation(encoder, [keep]).forward(batch)
    return keep.maps


def _compare(
    encoder: Encoder,
    batch: Batch,
    maps: tuple[list[Tensor], list[Tensor]],
    outputs: tuple[Tensor, Tensor],
) -> None:
    """Own against observed. Rows of padding do not count; NaN is a difference, for it is False."""
    limit = TOLERANCE[outputs[0].dtype]
    valid = batch.queries.valid
    if encoder.has_sinks:
        maps = _without_sinks(encoder, maps)
    rows = valid.unsqueeze(1).expand(-1, encoder.n_heads, -1)
    pairs = zip(*maps, strict=True)
    apart = float(torch.stack([(a.to(b.dtype) - b)[rows].abs().max() for a, b in pairs]).max())
    drift = _drift(*outputs, valid)
    if not (apart <= limit and drift <= limit):
        raise _Apart(
            f"observed attention differs from the model's own by {apart:.1e} (output: "
            f"{drift:.1e}), expected at most {limit:.0e}"
        )


def _without_sinks(
    encoder: Encoder, maps: tuple[list[Tensor], list[Tensor]]
) -> tuple[list[Tensor], list[Tensor]]:
    """Both sides as they can be compared: some families leave the sinks out of their own maps."""
    own, seen = maps
    if not all(bool(((one.sum(3) - 1).abs() < 1e-3).all()) for one in own):
        return maps
    if encoder.route == "maps":
        raise ModelError(
            f"{encoder.info.name}: the model has attention sinks, and its own maps leave them out; "
            "this model cannot be observed"
        )
    return own, [one / one.sum(3, keepdim=True) for one in seen]


def _drift(own: Tensor, other: Tensor, valid: Tensor) -> float:
    expected, found = own[valid], other[valid]
    return float((expected - found).abs().max()) / max(1.0, float(expected.abs().max()))


def _compare_with_default(
    encoder: Encoder, batch: Batch, eager: Tensor, apart: ModelError | None
) -> None:
    """Where a family has a second attention of its own, both must agree (Falcon: not always)."""
    if not getattr(encoder.model, "_supports_sdpa", False):
        return
    with torch.no_grad(), attention_set_to(encoder.model, "sdpa"):
        other = encoder.model(**inputs(encoder, batch)).last_hidden_state
    drift = _drift(eager, other, batch.queries.valid)
    limit = TOLERANCE[eager.dtype]
    if not drift <= 10 * limit:
        raise ModelError(
            f"{encoder.info.name}: {f'{apart}; ' if apart else ''}the library's eager attention "
            f"of family '{encoder.info.family}', which alone gives maps, differs from its default "
            f"by {drift:.1e} in the output; this model cannot be observed"
        )


def _note_what_is_seen(encoder: Encoder, maps: list[Tensor | None]) -> None:
    """Causal or not, with sinks or not: facts that decide what measures mean."""
    if encoder.info.attention == "cross":
        encoder.causal = False
        return
    whole = torch.stack([m[0] for m in maps if m is not None])
    encoder.causal = whole.shape[-1] > 1 and not bool(whole.triu(1).any())
    if not encoder.config.is_encoder_decoder:
        kind = "decoder" if encoder.causal else "encoder"
        encoder.info = replace(encoder.info, attention=kind)
    encoder.has_sinks = any(
        name.rpartition(".")[2] == "sinks" for name, _ in encoder.model.named_parameters()
    )


def _note_uniform_layers(encoder: Encoder, batch: Batch, maps: list[Tensor]) -> None:
    n_rows, n_keys = int(batch.queries.n_tokens[0]), int(batch.keys.n_tokens[0])
    if min(n_rows, n_keys) < 2:
        return
    whole = torch.stack([m[0, :, :n_rows, :n_keys] for m in maps])
    visible = torch.ones(n_rows, n_keys, device=whole.device)
    visible = visible.tril() if encoder.causal else visible
    uniform = visible / visible.sum(1, keepdim=True)
    flat = [i for i, m in enumerate(whole) if bool(((m - uniform).abs() < 1e-7).all())]
    if flat:
        encoder.notes = (
            *encoder.notes,
            f"every head of layer {', '.join(map(str, flat))} attends exactly uniformly: "
            "are the weights of this checkpoint complete?",
        )


def _padding_leaks(encoder: Encoder, batch: Batch, maps: list[Tensor]) -> bool:
    """Whether the shorter sequence attends otherwise alone than beside a longer one."""
    if len(batch) < 2:
        return False
    alone = _alone(encoder, batch, 1)
    rows, keys = alone.queries.input_ids.shape[1], alone.keys.input_ids.shape[1]
    limit = TOLERANCE[next(encoder.model.parameters()).dtype]
    pairs = zip(maps, _seen(encoder, alone), strict=True)
    apart = [float((a[1:2, :, :rows, :keys] - b).abs().max()) for a, b in pairs]
    return not max(apart) <= limit


def _turns_by_longest(config: PreTrainedConfig) -> bool:
    """Whether the longest sequence of a batch decides how positions are turned in all of them."""
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    by_kind = [kind for kind in rope.values() if isinstance(kind, dict)]
    return any(kind.get("rope_type") == "longrope" for kind in (rope, *by_kind))


def _alone(encoder: Encoder, batch: Batch, row: int) -> Batch:
    def item(of: Batch) -> list[Any]:
        return [(of.sentences[row], of.pieces[row])]

    return collate(encoder, item(batch), item(batch.target) if batch.target else None)
