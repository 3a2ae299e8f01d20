"""Settings of every training method, under the names of the command line."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin

from headscope.errors import HeadscopeError, unknown
from headscope.finetune.noise import Norm


@dataclass(frozen=True)
class R3F:
    """The same answers for noised words: strength x symmetric KL of both passes.

    Attributes:
        strength: lambda.
        eps: size of the noise. Dropout moves answers far more (docs/training.md).
        noise: its distribution.
        detach: whether the table of embeddings gets no gradient from the noised pass.
        share_dropout: the same dropout mask in both passes.
        eval_noise_pass: no dropout in the noised pass.
    """

    strength: float = 1.0
    eps: float = 1e-5
    noise: Literal["uniform", "normal"] = "uniform"
    detach: bool = True
    share_dropout: bool = False
    eval_noise_pass: bool = False


@dataclass(frozen=True)
class R4F(R3F):
    """R3F with a head whose weights have largest singular value 1.

    Attributes:
        scope: the last linear layer of the head, or all of them.
        rule: `equal` to 1, or `cap`ped at 1.
    """

    scope: Literal["out_proj", "all"] = "out_proj"
    rule: Literal["equal", "cap"] = "equal"


@dataclass(frozen=True)
class Smart:
    """The same answers for the worst neighbour, and near those of a momentum teacher.

    Attributes:
        strength: lambda of the adversary's term.
        radius: largest number of the perturbation.
        start: standard deviation of the noise that it begins with.
        step: of one ascent, in the largest number.
        n_steps: ascents.
        bregman: mu of the teacher's term; 0 for none.
        mtdnn_compat: perturb as the published code does, which has no radius.
    """

    strength: float = 1.0
    radius: float = 1e-5
    start: float = 1e-5
    step: float = 1e-3
    n_steps: int = 1
    bregman: float = 1.0
    mtdnn_compat: bool = False


@dataclass(frozen=True)
class FreeLB:
    """The mean loss of passes along an ascent in the embeddings.

    Attributes:
        num_passes: K; one pass is standard fine-tuning.
        step: of one ascent, in the norm.
        start: magnitude of the noise that it begins with; 0 begins with the clean input.
        max_norm: largest norm of the perturbation; 0 for any.
        norm: over the whole sequence.
        share_dropout: the same dropout mask in all passes.
    """

    num_passes: int = 3
    step: float = 0.1
    start: float = 0.0
    max_norm: float = 0.0
    norm: Norm = "l2"
    share_dropout: bool = True


@dataclass(frozen=True)
class RDrop:
    """The mean loss of two dropout masks, and alpha x half the symmetric KL between them."""

    alpha: float = 1.0


@dataclass(frozen=True)
class SAM:
    """The gradient at the weights moved by rho uphill."""

    rho: float = 0.05


@dataclass(frozen=True)
class L2SP:
    """alpha / 2 of the squared distance from the start, beta / 2 of the squared size of the head.

    Weight decay is off for the weights that have a start.
    """

    alpha: float = 0.01
    beta: float = 0.01


@dataclass(frozen=True)
class Repina:
    """strength x the mean squared distance of the sentence's vector from that of the start."""

    strength: float = 0.1


@dataclass(frozen=True)
class MixoutSettings:
    """A share p of each linear weight is that of the start, drawn anew in each pass."""

    p: float = 0.7


@dataclass(frozen=True)
class LLRD:
    """Learning rate x decay ^ depth: head 0, top layer 1, embeddings one more than layers."""

    decay: float = 0.95


@dataclass(frozen=True)
class Reinit:
    """The top layers, and the pooler, are drawn anew before training."""

    n_layers: int = 2


@dataclass(frozen=True)
class LPFT:
    """The head alone first, on a frozen encoder in eval mode; then everything.

    Attributes:
        epochs: of the head alone.
        rate: its learning rate.
    """

    epochs: float = 3.0
    rate: float = 1e-3


@dataclass(frozen=True)
class ChildTuningF:
    """A new part of the gradient for each update, over its share."""

    share: float = 0.3


@dataclass(frozen=True)
class ChildTuningD:
    """Only the share of the encoder with the largest Fisher information is trained.

    Attributes:
        share: of all numbers.
        n_batches: of training data from which the information is estimated.
    """

    share: float = 0.3
    n_batches: int = 64


@dataclass(frozen=True)
class NEFTune:
    """Uniform noise of size alpha / sqrt(T d) on the embeddings in training (the Trainer's own)."""

    alpha: float = 5.0


@dataclass(frozen=True)
class LoRA:
    """Low-rank updates of the attention's projections in place of the encoder's weights (peft).

    Attributes:
        rank: r.
        alpha: updates count alpha / r times.
        dropout: on what goes into them.
    """

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0


METHODS: dict[str, type[Any]] = {
    "r3f": R3F, "r4f": R4F, "smart": Smart, "freelb": FreeLB, "r-drop": RDrop, "sam": SAM,
    "l2-sp": L2SP, "repina": Repina, "mixout": MixoutSettings, "llrd": LLRD, "reinit": Reinit,
    "lp-ft": LPFT, "child-tuning-f": ChildTuningF, "child-tuning-d": ChildTuningD,
    "neftune": NEFTune, "lora": LoRA,
}  # fmt: skip
"""Every method but `standard`, which adds nothing."""

STANDARD = "standard"

PASSES = ("r3f", "r4f", "smart", "freelb", "r-drop", "sam")
"""Methods that decide what is computed in a step; there can be one."""

APART = (
    ("child-tuning-f", "child-tuning-d"),
    ("lora", "mixout"), ("lora", "l2-sp"), ("lora", "reinit"), ("lora", "child-tuning-d"),
    ("lora", "child-tuning-f"), ("lora", "llrd"), ("neftune", "freelb"), ("neftune", "smart"),
    ("neftune", "r3f"), ("neftune", "r4f"), ("mixout", "sam"),
    ("lora", "repina"), ("lora", "r4f"), ("lora", "lp-ft"),
)  # fmt: skip
"""Pairs that make no sense together."""


@dataclass(frozen=True)
class Methods:
    """The methods of one run, by name."""

    chosen: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The settings of a method, or None."""
        return self.chosen.get(name)

    @property
    def name(self) -> str:
        """As the command line has it."""
        return "+".join(self.chosen) or STANDARD

    @property
    def r3f(self) -> R3F | None:
        """Settings of R3F, or of R4F, which is one."""
        found: R3F | None = self["r3f"] or self["r4f"]
        return found

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """For results and cards."""
        return {name: dataclasses.asdict(settings) for name, settings in self.chosen.items()}


def methods_of(name: str, changes: Sequence[str] = ()) -> Methods:
    """The methods that a name such as `r3f+llrd` means, with settings such as `r3f.eps=1e-4`.

    Raises:
        HeadscopeError: an unknown method or setting, two that exclude each other, a bad value.
    """
    names = [part for part in name.split("+") if part != STANDARD]
    for part in names:
        if part not in METHODS:
            raise unknown("method", part, [STANDARD, *METHODS])
        if names.count(part) > 1:
            raise HeadscopeError(f"method {name}: found {part} twice; expected it once")
    passes = [part for part in names if part in PASSES]
    if len(passes) > 1:
        raise HeadscopeError(
            f"method {name}: {' and '.join(passes)} each decide what a step computes; choose one"
        )
    for one, other in APART:
        if one in names and other in names:
            raise HeadscopeError(f"method {name}: {one} and {other} do not go together")
    chosen = {part: METHODS[part]() for part in names}
    for change in changes:
        _change(chosen, change)
    return Methods(chosen)


def _change(chosen: dict[str, Any], change: str) -> None:
    place, equals, value = change.partition("=")
    method, dot, setting = place.partition(".")
    if not (equals and dot):
        raise HeadscopeError(f"--set: found '{change}'; expected METHOD.SETTING=VALUE")
    if method not in chosen:
        raise unknown("method in --set", method, chosen)
    types = typing.get_type_hints(type(chosen[method]))
    if setting not in {item.name for item in fields(chosen[method])}:
        raise unknown(f"setting of {method}", setting, types)
    read = _value(types[setting], value, f"--set {place}")
    chosen[method] = replace(chosen[method], **{setting: read})


def _value(kind: Any, text: str, where: str) -> Any:
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise HeadscopeError(
                f"{where}: found '{text}'; expected one of {', '.join(get_args(kind))}"
            )
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise HeadscopeError(f"{where}: found '{text}'; expected true or false")
        return text.lower() == "true"
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise HeadscopeError(f"{where}: found '{text}'; expected {what}") from None
