"""Recorded attention handed to observers, in place of a model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headscope.errors import InputError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.masks import Mask, band, mask_of
from headscope.extraction.observers import Block, Observer, TakesStates
from headscope.extraction.record.identity import refuse_other_model
from headscope.extraction.record.reading import Record
from headscope.extraction.words import NO_WORD


class Replay:
    """Reads the attention of batches from a record and shows it to observers.

    Args:
        encoder: the model that was recorded; it is not run.
        folder: of the record.
        observers: are handed the whole map of every layer.

    Raises:
        InputError: a record of another model, or one that lacks what an observer wants.
    """

    def __init__(self, encoder: Encoder, folder: Path, observers: Sequence[Observer]) -> None:
        """Checks that the record is one of this model and will do."""
        self.encoder, self.observers, self.record = encoder, observers, Record(folder)
        manifest = self.record.manifest
        refuse_other_model(folder, manifest.model["name"], manifest.identity, encoder)
        for observer in observers:
            self._refuse(observer)
        self._verified: set[int] = set()

    @property
    def facts(self) -> Mapping[str, Any]:
        """What results say about where their attention came from."""
        kept = {name: self.record.settings[name] for name in ("level", "rows", "precision")}
        return {"fingerprint": self.record.manifest.fingerprint, **kept}

    @property
    def max_map_tokens(self) -> int:
        """Longest sequence that was recorded."""
        return int(self.record.settings["max_map_tokens"])

    def forward(self, batch: Batch) -> None:
        """Shows the recorded maps of a batch; observers have added it up when this returns."""
        places = [self._place(batch, row) for row in range(len(batch))]
        for number in {number for number, _ in places} - self._verified:
            self.record.verify(number)
            self._verified.add(number)
        words = self.record.settings["level"] == "word"
        shown = _of_words(batch) if words else replace(batch)
        plain = band(self.encoder.causal, None, shown.valid)
        masks: dict[tuple[int, ...], Mask] = {}
        for layer in self.encoder.seen:
            probs = self._maps(layer, places, shown)
            # Layers that see alike share the mask, as in a pass of the model.
            alike = tuple(self.record.shards[number].sight(layer) for number, _ in places)
            if alike not in masks:
                masks[alike] = self._mask(layer, places, shown, plain)
            block = Block(layer, 0, probs, shown, shown, masks[alike])
            for observer in self.observers:
                observer.update(block)
        for observer in self.observers:
            observer.close(shown)

    def _refuse(self, observer: Observer) -> None:
        settings, folder = self.record.settings, self.record.folder
        name = type(observer).__name__
        if isinstance(observer, TakesStates) and observer.wants_states:
            raise InputError(f"{folder}: {name} wants hidden states; run it on the data instead")
        if settings["level"] != "word":
            return
        if not getattr(observer, "only_words", False):
            raise InputError(
                f"{folder}: found a record of attention between words; {name} looks at all tokens; "
                "expected a record made with --level subword, or the data themselves"
            )
        if observer.rows != settings["rows"]:  # type: ignore[attr-defined]
            raise InputError(
                f"{folder}: found a record made with --rows {settings['rows']}; expected "
                f"{observer.rows}; give --rows {settings['rows']}"  # type: ignore[attr-defined]
            )

    def _place(self, batch: Batch, row: int) -> tuple[int, int]:
        """Shard and place in it of a sentence, whose pieces must be those that were recorded."""
        sentence, pieces = batch.sentences[row], batch.pieces[row]
        place = self.record.places.get(sentence.ordinal)
        if place is None or not np.array_equal(
            self.record.shards[place[0]].ids(place[1]), pieces.ids
        ):
            found = "no attention" if place is None else "attention of other pieces"
            raise InputError(
                f"{self.record.folder}: found {found} of sentence {sentence.sent_id}; expected "
                "that of the pieces that this tokenizer makes; record anew"
            )
        return place

    def _maps(self, layer: int, places: Sequence[tuple[int, int]], batch: Batch) -> Tensor:
        side = batch.valid.shape[1]
        probs = np.zeros((len(places), self.encoder.n_heads, side, side), dtype=np.float32)
        for row, (number, index) in enumerate(places):
            one = self.record.shards[number].attention(layer, index)
            probs[row, :, : one.shape[1], : one.shape[2]] = one
        return torch.from_numpy(probs).to(batch.valid.device)

    def _mask(
        self, layer: int, places: Sequence[tuple[int, int]], batch: Batch, plain: Mask
    ) -> Mask:
        seen = [self.record.shards[number].visible(layer, index) for number, index in places]
        if all(one is None for one in seen):
            return plain
        side = batch.valid.shape[1]
        whole = plain.visible(0, side).clone()
        for row, one in enumerate(seen):
            if one is not None:
                whole[row, 0, : len(one), : len(one)] = torch.from_numpy(one)
        return mask_of(whole)


def _of_words(batch: Batch) -> Batch:
    """The batch as if every word were one token and there were no special ones."""
    n_words = torch.tensor([pieces.n_words for pieces in batch.pieces]).unsqueeze(1)
    numbers = torch.arange(batch.n_words).expand(len(batch), -1)
    has_piece = torch.zeros(numbers.shape, dtype=torch.bool)
    for row, pieces in enumerate(batch.pieces):
        has_piece[row, : pieces.n_words] = torch.from_numpy(pieces.has_piece)
    device = batch.valid.device
    blank = torch.zeros(numbers.shape, dtype=torch.long, device=device)
    return replace(
        batch,
        input_ids=blank,
        type_ids=blank,
        valid=(numbers < n_words).to(device),
        special=blank.bool(),
        word_of=numbers.masked_fill(~has_piece, NO_WORD).to(device),
    )
