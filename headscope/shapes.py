"""Shapes of tensors, as they stand in signatures; the axis order is always L, B, H, Tq, Tk.

L layers, B sequences of a batch, H query heads, T tokens (Tq of the query rows, Tk of the keys), W
words. A checker sees the shapes in tests only (jaxtyping's import hook); elsewhere an alias is
just a tensor. Reserved for modules that need torch anyway: this one imports it.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

Probs = Float[Tensor, "B H Tq Tk"]
"""Attention probabilities from query (row) to key (column); rows at padding hold anything."""

Valid = Bool[Tensor, "B T"]
"""True at tokens, special ones included, False at padding."""

QueryMask = Bool[Tensor, "B Tq"]
"""True at the query rows that are meant."""

KeyMask = Bool[Tensor, "B Tk"]
"""True at the keys that are meant."""

Visible = Bool[Tensor, "B Tq Tk"]
"""True where a query sees a key: no padding, and nothing later in a causal model."""

PerRow = Float[Tensor, "B H Tq"]
"""One number for every head and query row."""

PerHead = Float[Tensor, "B H"]
"""One number for every head of every sequence."""

WordMaps = Float[Tensor, "B H W W"]
"""Word-level attention from word (row) to word (column)."""

Ids = Int[Tensor, "B T"]
"""Token ids, or the 0-based number of the word of each token."""

__all__ = [
    "Ids",
    "KeyMask",
    "PerHead",
    "PerRow",
    "Probs",
    "QueryMask",
    "Tensor",
    "Valid",
    "Visible",
    "WordMaps",
]
