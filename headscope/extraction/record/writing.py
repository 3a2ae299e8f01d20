"""Writing a record of attention: shard by shard, so that a run that was killed can go on."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from headscope.datasets import Corpus, Sentence, open_corpus
from headscope.datasets.files import UNFINISHED, fingerprint, whole_file
from headscope.datasets.records import (
    MANIFEST,
    SENTENCES,
    Manifest,
    Part,
    read_manifest,
    recorded_corpus,
    refuse_other,
    sentence_line,
    write_manifest,
)
from headscope.errors import HeadscopeError, InputError, ModelError
from headscope.extraction.batches import Tally, batches
from headscope.extraction.encoder import Encoder
from headscope.extraction.launch import launch
from headscope.extraction.loading import load_encoder
from headscope.extraction.maps import SentenceMaps
from headscope.extraction.record.identity import RecordSettings, identity_of
from headscope.extraction.record.reading import Record
from headscope.extraction.record.recorder import Recorder
from headscope.extraction.record.shards import SHARDS, Shard
from headscope.extraction.run import Progress, pass_of, refuse_nothing, run, versions
from headscope.results import counted

Tell = Callable[[str], None]


def record(
    model: str | Path | Encoder,
    data: str | Path | Corpus,
    out: str | Path,
    *,
    settings: RecordSettings | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Record:
    """Keeps the attention of every sentence in a folder; goes on where an earlier run was stopped.

    A finished record of the same inputs and settings is left as it is; files that are missing or
    damaged are made anew, to the same bytes.

    Args:
        model: hub id, folder, `demo`, or an encoder that is loaded already.
        data: file, `demo`, or a corpus that is opened already.
        out: the folder; made if it is not there.
        settings: see `RecordSettings`.
        progress: is told of every batch.
        tell: is told the size of the record before it is written, or that it was there.

    Raises:
        InputError: a folder with other files, or with a record made otherwise.
        HeadscopeError: a disk without room, and anything else that the user can mend.
    """
    settings, folder = settings or RecordSettings(), Path(out)
    if launch().size > 1:
        raise HeadscopeError(
            f"found a launch of {launch().size} processes; expected one: a record is written by "
            "one process, without torchrun or accelerate"
        )
    corpus = data if isinstance(data, Corpus) else open_corpus(data)
    if corpus.record is not None:
        raise InputError(f"{corpus.record}: found a record; expected data to make one of")
    before = _begun(folder)
    encoder = model if isinstance(model, Encoder) else load_encoder(model)
    _refuse_two_texts(encoder)
    _refuse_states(encoder, settings)
    identity = {**identity_of(encoder, corpus, settings), "versions": versions()}
    if before is not None:
        # Before the corpus is read, which may take long.
        refuse_other(folder, {**before.identity, "sentences": ""}, {**identity, "sentences": ""})
    _swept(folder)
    with whole_file(folder / SENTENCES) as file:
        manifest, n_bytes = _survey(encoder, corpus, settings, identity, file)
        if before is not None:
            refuse_other(folder, before.identity, manifest.identity)
            manifest = replace(before, status="unfinished", shards=_whole(folder, before))
            if (before.status, before.shards) == ("finished", manifest.shards):
                _say(tell, f"{folder}: a finished record of the same; nothing to do")
                manifest = before
        if manifest.status == "unfinished":
            _check_room(folder, manifest, n_bytes, tell)
            write_manifest(folder, manifest)
    if manifest.status == "unfinished":
        _fill(encoder, folder, manifest, settings, progress)
    return Record(folder)


def _begun(folder: Path) -> Manifest | None:
    """The manifest of a record begun earlier, None where there is none; refuses foreign files."""
    try:
        paths = sorted(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        found = "a file" if folder.is_file() else error.strerror
        raise InputError(f"--out {folder}: found {found}; expected a folder") from None
    foreign = [
        path.name
        for path in paths
        if path.name not in (MANIFEST, SENTENCES)
        and not any(fnmatch(path.name, pattern) for pattern in (UNFINISHED, SHARDS))
    ]
    whole = [path.name for path in paths if not fnmatch(path.name, UNFINISHED)]
    if foreign or (whole and MANIFEST not in whole):
        raise InputError(
            f"--out {folder}: found {(foreign or whole)[0]}, which is no part of a record; "
            "expected an empty folder, or a record to go on with"
        )
    return read_manifest(folder) if whole else None


def _swept(folder: Path) -> None:
    """Makes the folder; what a killed run was writing is removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(UNFINISHED):
            path.unlink()
    except OSError as error:
        raise HeadscopeError(f"--out {folder}: {error.strerror or error}") from None


def _refuse_two_texts(encoder: Encoder) -> None:
    if encoder.has_target:
        raise ModelError(
            f"{encoder.info.name}: found {encoder.info.attention_name}, for which a target is read "
            "beside the source; expected --attention encoder: a record keeps attention over one "
            "text"
        )


def _refuse_states(encoder: Encoder, settings: RecordSettings) -> None:
    wrong = [n for n in settings.hidden_states if not 0 <= n <= encoder.n_layers]
    if wrong:
        raise HeadscopeError(
            f"hidden state {wrong[0]} was asked for; {encoder.info.name} has 0 (the embeddings) to "
            f"{encoder.n_layers}"
        )


def _survey(
    encoder: Encoder,
    corpus: Corpus,
    settings: RecordSettings,
    identity: dict[str, Any],
    file: IO[bytes],
) -> tuple[Manifest, int]:
    """Reads the corpus once: its sentences go to the file, and the record's size is counted."""
    digest = hashlib.sha256()
    counts = {"lines": 0, "bytes": 0}

    def copied() -> Iterator[Sentence]:
        for sentence in corpus.read():
            line = sentence_line(sentence)
            file.write(line)
            digest.update(line)
            counts["lines"] += 1
            counts["bytes"] += len(line)
            yield sentence

    tally, maps = Tally(), SentenceMaps(encoder.n_heads, settings.level, settings.rows)
    width = len(settings.hidden_states) * getattr(encoder.config, "hidden_size", 0)
    itemsize = 2 if settings.precision == "float16" else 4
    n_bytes = 0
    stream = batches(
        encoder,
        copied(),
        tally=tally,
        batch_tokens=settings.batch_tokens,
        max_map_tokens=settings.max_map_tokens,
    )
    for batch in stream:
        cells = sum(side**2 for side in maps.sides(batch)) * len(encoder.seen) * encoder.n_heads
        n_tokens = int(batch.n_tokens.sum())
        # Of a token also its id, its word and whether it is special.
        n_bytes += itemsize * (cells + n_tokens * width) + 17 * n_tokens + 24 * len(batch)
    seen = pass_of(encoder, corpus, tally)
    refuse_nothing(seen)
    manifest = Manifest(
        status="unfinished",
        identity={**identity, "sentences": digest.hexdigest()},
        model=asdict(encoder.info),
        data=asdict(seen.data),
        warnings=seen.warnings,
        broken=tuple(corpus.skipped),
        sentences=Part(SENTENCES, counts["bytes"], digest.hexdigest(), counts["lines"]),
    )
    return manifest, n_bytes + counts["bytes"]


def _whole(folder: Path, before: Manifest) -> tuple[Part, ...]:
    """The shards up to the first that is missing or damaged."""
    whole = []
    for part in before.shards:
        path = folder / part.name
        if not path.is_file() or path.stat().st_size != part.size:
            break
        if fingerprint(path) != part.sha256:
            break
        whole.append(part)
    return tuple(whole)


def _check_room(folder: Path, manifest: Manifest, n_bytes: int, tell: Tell | None) -> None:
    """Tells the size of the record, and refuses one that the disk has no room for."""
    written = sum(part.size for part in manifest.shards)
    free = shutil.disk_usage(folder).free
    sizes = f"{n_bytes / 2**20:,.1f} MiB, {free / 2**20:,.1f} MiB are free"
    if n_bytes - written > free:
        raise HeadscopeError(
            f"--out {folder}: the record takes {sizes}; choose another disk, --limit, "
            "--level word or --precision float16"
        )
    _say(tell, f"{folder}: the record takes {sizes}")
    if manifest.shards:
        done = sum(part.n_sentences for part in manifest.shards)
        whole = counted(len(manifest.shards), "whole shard")
        _say(tell, f"going on after {whole} ({counted(done, 'sentence')})")


def _say(tell: Tell | None, text: str) -> None:
    if tell is not None:
        tell(text)


def _fill(
    encoder: Encoder,
    folder: Path,
    manifest: Manifest,
    settings: RecordSettings,
    progress: Progress | None,
) -> None:
    """Writes the shards that are not there yet."""
    whole = {part.name for part in manifest.shards}
    for path in folder.glob(SHARDS):
        if path.name not in whole:
            path.unlink()
    shards = [
        Shard(folder / part.name, manifest.fingerprint, number, encoder.n_heads)
        for number, part in enumerate(manifest.shards)
    ]
    done = {int(ordinal) for shard in shards for ordinal in shard.ordinals}
    recorder = Recorder(encoder, settings, folder, manifest, done)
    try:
        run(
            encoder,
            # Of the record's own sentences: text is not parsed a second time.
            recorded_corpus(folder, manifest),
            [recorder],
            batch_tokens=settings.batch_tokens,
            max_map_tokens=settings.max_map_tokens,
            progress=progress,
            done=recorder.has,
        )
    finally:
        # Also after Ctrl-C: what was collected for a shard gets to disk before the error is told.
        recorder.settle()
    recorder.finish()
