"""The observer that writes shards while a pass runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn, final

from torch import Tensor

from headscope.datasets.files import whole_file
from headscope.datasets.records import Manifest, Part, write_manifest
from headscope.errors import MergeError, ModelError
from headscope.extraction.batches import Batch
from headscope.extraction.encoder import Encoder
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.masks import Mask
from headscope.extraction.observers import Block
from headscope.extraction.record.identity import RecordSettings
from headscope.extraction.record.shards import Array, Shelf, packed, plain, shard_name


@final
class Recorder:
    """Writes a shard whenever the batches of one are through, and notes it in the manifest.

    Args:
        encoder: whose attention is kept.
        settings: what is kept.
        folder: of the record.
        manifest: of the record so far.
        done: numbers in the corpus of the sentences that its shards hold.

    Attributes:
        manifest: names every shard that is whole.
    """

    needs: Literal["maps"] = "maps"

    def __init__(
        self,
        encoder: Encoder,
        settings: RecordSettings,
        folder: Path,
        manifest: Manifest,
        done: Iterable[int],
    ) -> None:
        """Goes on after the last whole shard."""
        self.encoder, self.settings, self.folder = encoder, settings, folder
        self.manifest, self._done = manifest, frozenset(done)
        self._maps = SentenceMaps(encoder.n_heads, settings.level, settings.rows)
        self._shelf = Shelf(self._maps, encoder.seen, encoder.causal, settings)
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None
        self._open: Batch | None = None
        self._unlike: dict[Mask | None, Array | None] = {}

    @property
    def wants_states(self) -> bool:
        """Whether hidden states are kept."""
        return bool(self.settings.hidden_states)

    def has(self, batch: Batch) -> bool:
        """Whether the shards hold the batch; a shard holds batches as a whole."""
        return batch.sentences[0].ordinal in self._done

    def update(self, block: Block) -> None:
        """Takes in one layer's whole map."""
        if self._open is not block.batch:
            self._open, self._unlike = block.batch, {}
        maps = self._maps.cut(block.probs, block.batch)
        # Layers that see alike share the mask.
        if block.mask not in self._unlike:
            self._unlike[block.mask] = self._unlike_plain(block)
        self._shelf.add_layer(block.layer, maps, self._unlike[block.mask])

    def take_states(self, batch: Batch, states: Sequence[Tensor]) -> None:
        """Takes in the hidden states of the batch."""
        if max(self.settings.hidden_states) >= len(states):
            raise ModelError(
                f"{self.encoder.info.name}: hidden state {max(self.settings.hidden_states)} was "
                f"asked for; the model gives 0 to {len(states) - 1}"
            )
        for number in self.settings.hidden_states:
            if states[number].shape[1] != batch.valid.shape[1]:
                raise ModelError(
                    f"{self.encoder.info.name}: hidden state {number} was asked for; it has "
                    f"{states[number].shape[1]} vectors for {batch.valid.shape[1]} tokens, for the "
                    "model pools them; leave it out"
                )
        self._shelf.add_states(batch, states)

    def close(self, batch: Batch) -> None:
        """Writes the shard, if it is full."""
        self._shelf.close_batch(batch)
        if self._shelf.n_bytes >= self.settings.shard_bytes:
            self._write()

    def finish(self) -> None:
        """Writes what is left, and says in the manifest that this was all."""
        if self._shelf.ordinals:
            self._write()
        self.settle()
        self._writer.shutdown()
        self.manifest = replace(self.manifest, status="finished")
        write_manifest(self.folder, self.manifest)

    def __add__(self, other: Recorder) -> NoReturn:
        """Refused: a record is written by one process.

        Raises:
            MergeError: always.
        """
        raise MergeError("records cannot be added; write each into a folder of its own")

    def _write(self) -> None:
        """Leaves the shard to a thread, which waits for the disk while the model goes on."""
        self.settle()
        number = len(self.manifest.shards)
        content = self._shelf.content(self.manifest.fingerprint, number)
        n_sentences = len(self._shelf.ordinals)
        self._shelf.clear()
        self._writing = self._writer.submit(self._store, shard_name(number), content, n_sentences)

    def settle(self) -> None:
        """Waits until the last shard is on disk; raises what went wrong there."""
        if self._writing is not None:
            self._writing.result()
        self._writing = None

    def _store(self, name: str, content: bytes, n_sentences: int) -> None:
        with whole_file(self.folder / name) as file:
            file.write(content)
        digest = hashlib.sha256(content).hexdigest()
        part = Part(name, len(content), digest, n_sentences)
        # Only now: a shard that the manifest does not name is written again.
        self.manifest = replace(self.manifest, shards=(*self.manifest.shards, part))
        write_manifest(self.folder, self.manifest)

    def _unlike_plain(self, block: Block) -> Array | None:
        """Who sees whom, `packed`, where it is not all, or all earlier ones.

        A word sees another as in ceilings: any piece that its row is made of, any piece of the
        other. What is said of words without a piece does not matter, for no arc on them counts.
        """
        maps = self._maps.cut(block.visible().float(), block.batch)
        seen = [one[0].cpu().numpy() > 0 for one in maps]
        special = False
        for visible, pieces in zip(seen, block.batch.pieces, strict=True):
            unlike = visible != plain(len(visible), self.encoder.causal)
            if self.settings.level == "word":
                unlike = unlike[pieces.has_piece][:, pieces.has_piece]
            special = special or bool(unlike.any())
        return packed(seen) if special else None
