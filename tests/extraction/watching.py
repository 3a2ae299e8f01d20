"""Observers that keep what they are shown, for tests of observed attention."""

import torch

from headscope.extraction.calibration import KeepMaps, observe


class Rows:
    """Keeps the blocks of rows that it is given."""

    needs = "rows"

    def __init__(self):
        self.open, self.seen, self.n_closed = [], [], 0

    def update(self, block):
        whole = torch.zeros(*block.probs.shape[:3], block.keys.valid.shape[1])
        whole[..., block.first_key : block.first_key + block.probs.shape[3]] = block.probs
        self.open.append((block.layer, block.start, whole))

    def close(self, batch):
        self.seen, self.open, self.n_closed = self.seen + self.open, [], self.n_closed + 1

    def map_of(self, layer):
        parts = [(start, probs) for seen, start, probs in self.seen if seen == layer]
        assert [start for start, _ in parts] == sorted(start for start, _ in parts)
        return torch.cat([probs for _, probs in parts], 2)


def recorded(encoder, batch):
    """All maps [B, H, T, T] of one observed pass."""
    keep = KeepMaps()
    with observe(encoder, [keep]) as seen:
        seen.forward(batch)
    return keep.maps


def apart(found, expected, rows):
    """Largest difference over rows that are not padding."""
    where = rows.unsqueeze(1).expand(found.shape[:3])
    return float((found - expected).abs()[where].max())
