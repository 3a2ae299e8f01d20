"""How far apart two outputs of a model are, whatever its task: what regularisers are made of.

Everything is computed in float32, also under autocast, and gradients flow through both sides unless
a caller detaches one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

Kind = Literal["classification", "regression", "span", "choice", "tagging", "sequence"]
"""What a head answers: a class, a number, a span of the text, one of several texts, a class a
token, a token after each token of a target."""

KINDS: tuple[Kind, ...] = (
    "classification", "regression", "span", "choice", "tagging", "sequence",
)  # fmt: skip

IGNORED = -100
"""Label of tokens that do not count."""


def kl(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second) of each row in nats: logits [..., C] twice -> [...] float32.

    >>> a, b = torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 0.5, -1.0])
    >>> kl(a, b)
    tensor(0.1718)
    """
    log_p, log_q = first.float().log_softmax(-1), second.float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second) + KL(second || first) of each row in nats: logits [..., C] -> [...]."""
    log_p, log_q = first.float().log_softmax(-1), second.float().log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def squared_error(first: Tensor, second: Tensor) -> Tensor:
    """Squared difference of each row: [..., 1] twice -> [...] float32."""
    return (first.float() - second.float()).square().squeeze(-1)


def answers(kind: Kind, output: Mapping[str, Any], batch: Mapping[str, Tensor]) -> list[Tensor]:
    """Logits [N, C] of the rows that count, one tensor for each answer that a head gives.

    Args:
        kind: what the head answers.
        output: of the model, with `logits`, or `start_logits` and `end_logits`.
        batch: what the model was given: `attention_mask` for spans, `labels` for tokens.
    """
    if kind == "span":
        outside = batch["attention_mask"] == 0
        lowest = torch.finfo(torch.float32).min
        both = (output["start_logits"], output["end_logits"])
        return [one.float().masked_fill(outside, lowest) for one in both]
    logits: Tensor = output["logits"]
    if kind in ("tagging", "sequence"):
        return [logits[batch["labels"] != IGNORED]]
    return [logits]


def divergence(
    kind: Kind, first: list[Tensor], second: list[Tensor], *, one_sided: bool = False
) -> Tensor:
    """Mean over rows, and over answers, of symmetric KL; of squared error for regression.

    Args:
        kind: what the head answers.
        first: answers of one call.
        second: answers of another.
        one_sided: KL(first || second) alone.

    Sources: Aghajanyan et al. 2021 (R3F); Jiang et al. 2020 (SMART), who take squared error for
    regression.
    """
    apart = squared_error if kind == "regression" else kl if one_sided else symmetric_kl
    rows = [apart(one, other) for one, other in zip(first, second, strict=True)]
    # The sum of no rows is 0, their mean would be NaN.
    return torch.stack([each.sum() / max(1, each.numel()) for each in rows]).mean()
