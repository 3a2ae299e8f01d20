"""Attention and marks on tokens drawn at random, padded, with sinks and windows, for measures."""

from types import SimpleNamespace

import numpy as np
import torch

from headscope.extraction.digest import OFFSETS, digest
from headscope.extraction.masks import Mask
from headscope.extraction.observers import Block
from headscope.extraction.rows import Kept, sight
from headscope.extraction.tokens import MASSES, Tokens
from tests.loops import Sequence

LENGTHS = (7, 4, 1, 6)


def where(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def mask_of_rows(*, causal=False, window=None, width=None):
    """A mask by the same words as `loops.Sequence`; the band of a window ends at the query."""

    def rows(start, stop):
        queries, keys = torch.arange(start, stop).view(-1, 1), torch.arange(width)
        seen = keys <= queries if causal else torch.ones(stop - start, width, dtype=torch.bool)
        return (seen if window is None else seen & (keys > queries - window))[None, None]

    return Mask(rows)


def marks(n, *, valid=None, segment=None, text=None, annotated=True, **places):
    """`Tokens` of one sequence; the given places are True."""
    valid = where([True] * n) if valid is None else valid
    sets = {name: where([i in places.get(name, ()) for i in range(n)]) for name in MASSES}
    segment, text = torch.tensor([segment or [0] * n]), torch.tensor([text or [-1] * n])
    return tokens(valid, sets, segment, text, where([annotated]))


def tokens(valid, sets, segment, text, annotated):
    """`Tokens` from marks; segment and text [B, T] hold 0, 1 or -1."""
    first = torch.zeros_like(valid)
    first[:, 0] = valid[:, 0]
    sets = {"all": valid, **sets}
    for number in (0, 1):
        sets[f"segment {number}"] = valid & (segment == number)
        sets[f"text {number}"] = valid & (text == number)
    return Tokens(
        valid=valid,
        scored=valid,
        first=first,
        sets=sets,
        annotated=annotated,
        has_segments=sets["segment 1"].any(1, keepdim=True),
        has_texts=sets["text 1"].any(1, keepdim=True),
    )


def block_of(probs, valid, *, mask=None, start=0, first_key=0, scores=None, layer=0):
    """A block on a batch of which nothing but the padding is known."""
    batch = SimpleNamespace(valid=valid)
    return Block(layer, start, probs, batch, batch, mask, first_key, scores)


def kept(block, tokens, sinks=False, offsets=OFFSETS):
    """The rows of a block of self-attention, as they are."""
    rows = tokens.rows(block.start, block.stop)
    return Kept(digest(block, tokens, offsets), sight(block, offsets), rows, tokens, sinks)


class Drawn:
    """Random maps of padded sequences, special tokens in odd places; rows of padding hold anything.

    Args:
        seed: of all draws.
        causal, window: which keys a query sees.
        sinks: whether a part of each row is missing.
        pairs: whether there are segments and texts.
        width: padded length.
    """

    def __init__(
        self, seed=0, *, causal=False, window=None, sinks=False, pairs=True, width=9, n_heads=5
    ):
        rng = np.random.default_rng(seed)
        shape = (len(LENGTHS), width)
        self.rules = {"causal": causal, "window": window}
        self.sinks = sinks
        valid = np.arange(width) < np.array(LENGTHS).reshape(-1, 1)
        sets = {name: (rng.random(shape) < 0.3) & valid for name in MASSES}
        sets["cls"][0, 2], sets["cls"][1] = True, False
        sets["separator"][-1] = False
        annotated = rng.random((len(LENGTHS), 1)) < 0.5
        sets["punctuation_all"] &= annotated
        self.segment = rng.integers(0, 2, shape) * pairs
        self.segment[2] = 0
        self.text = np.where(sets["special"], -1, self.segment)
        self.tokens = tokens(
            torch.from_numpy(valid),
            {name: torch.from_numpy(mask) for name, mask in sets.items()},
            torch.from_numpy(self.segment),
            torch.from_numpy(self.text),
            torch.from_numpy(annotated),
        )
        self.mask = mask_of_rows(causal=causal, window=window, width=width)
        seen = self.mask.visible(0, width).numpy() & valid[:, None, None, :]
        probs = np.exp(rng.normal(0, 3, (len(LENGTHS), n_heads, width, width)))
        probs[rng.random(probs.shape) < 0.2] = 0
        probs[:, :, np.arange(width), np.arange(width)] += 1e-3
        probs = np.where(seen, probs, 0)
        probs = np.where(valid[:, None, :, None], probs, rng.random(probs.shape))
        probs /= probs.sum(3, keepdims=True)
        # Some rows have nothing but the first token, and are undefined without it.
        hard = (rng.random(probs.shape[:3]) < 0.2) & seen[..., 0]
        probs[hard] = np.eye(width)[0]
        if sinks:
            probs *= rng.random(probs.shape[:3])[..., None]
        self.probs = torch.from_numpy(probs)

    def sequence(self, row, head):
        """The same of one head of one sequence, for loops."""
        n = LENGTHS[row]
        sets = {name: set(np.flatnonzero(self.tokens.sets[name][row])) for name in MASSES}
        return Sequence(
            attention=self.probs[row, head, :n, :n].tolist(),
            annotated=bool(self.tokens.annotated[row]),
            segment=self.segment[row, :n].tolist(),
            text=self.text[row, :n].tolist(),
            sinks=self.sinks,
            **sets,
            **self.rules,
        )

    def block(self, start=0, stop=None, keys=slice(None)):
        """Some rows, and of them the attention to some keys."""
        probs = self.probs[:, :, start:stop, keys]
        first = keys.start or 0
        return block_of(probs, self.tokens.valid, mask=self.mask, start=start, first_key=first)
