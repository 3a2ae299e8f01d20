"""The same dropout mask, or none, in a second pass over the same batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class RandomState:
    """Where the generators of the processor, and of the device in use, stood."""

    processor: Tensor
    device: Tensor | None

    @classmethod
    def now(cls) -> RandomState:
        """Where they stand."""
        cuda = torch.cuda.is_available()
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if cuda else None)

    def restore(self) -> None:
        """Sets them back: a pass of the same shapes draws the same masks again."""
        torch.set_rng_state(self.processor)
        if self.device is not None:
            torch.cuda.set_rng_state(self.device)


@contextlib.contextmanager
def no_dropout(model: nn.Module) -> Iterator[None]:
    """The model is in eval mode inside the block; every part gets its mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
