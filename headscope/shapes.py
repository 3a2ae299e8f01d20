"""Shapes of tensors, as they stand in signatures; the axis order is always L, B, H, Tq, Tk.

B sequences of a batch, H query heads, Tq query rows at hand (a block of them, or all), Tk keys
(all tokens of the padded sequence), W words. To users an alias is just a tensor; in tests
jaxtyping's import hook compares the axes within one call. For modules that need torch anyway:
this one imports it.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

Probs = Float[Tensor, "B H Tq Tk"]
"""Attention probabilities from query (row) to key (column); rows at padding hold anything."""

Where = Bool[Tensor, "B Tk"]
"""True at the tokens that are meant, such as those that are not padding (`valid`)."""

Ids = Int[Tensor, "B Tk"]
"""A number for each token: its id, or the 0-based word that it belongs to."""

PerRow = Float[Tensor, "B H Tq"]
"""One number for every head and query row."""

PerKey = Float[Tensor, "B H Tk"]
"""One number for every head and key."""

PerHead = Float[Tensor, "B H"]
"""One number for every head of every sequence."""

WordMaps = Float[Tensor, "B H W W"]
"""Word-level attention from word (row) to word (column)."""

__all__ = ["Ids", "PerHead", "PerKey", "PerRow", "Probs", "Tensor", "Where", "WordMaps"]
