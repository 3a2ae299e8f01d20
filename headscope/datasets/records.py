"""A record of attention as data: its manifest and its sentences, read without any model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from headscope.datasets.files import fingerprint, whole_file
from headscope.datasets.sentences import Annotation, Corpus, Sentence, Unit
from headscope.errors import InputError, ParseError

MANIFEST = "manifest.json"
SENTENCES = "sentences.jsonl"
VERSION = 2

Status = Literal["unfinished", "finished"]


@dataclass(frozen=True)
class Part:
    """One file of a record, and what it must be."""

    name: str
    size: int
    sha256: str
    n_sentences: int


@dataclass(frozen=True)
class Manifest:
    """What a record holds, and everything that decided its bytes.

    Attributes:
        status: `finished` once the last shard is there.
        identity: whatever changes a byte: weights, tokenizer, data, settings, versions. Two
            records are the same exactly if this is equal.
        model: as in results (`ModelInfo`).
        data: as in results (`DataInfo`).
        warnings: as in results.
        broken: sentences that `--skip-bad` left out, one message each.
        sentences: the file of sentences, those included that the model could not take.
        shards: those that are whole, in order.
    """

    status: Status
    identity: Mapping[str, Any]
    model: Mapping[str, Any]
    data: Mapping[str, Any]
    warnings: tuple[str, ...]
    broken: tuple[str, ...]
    sentences: Part
    shards: tuple[Part, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the identity."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of the file: keys sorted, nothing that depends on the clock."""
        whole = asdict(self) | {
            "kind": "record",
            "version": VERSION,
            "fingerprint": self.fingerprint,
        }
        return json.dumps(whole, sort_keys=True, indent=1, allow_nan=False) + "\n"


def is_record(place: Path) -> bool:
    """Whether a folder is a record, finished or not."""
    return (place / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a record, finished or not.

    Raises:
        ParseError: no manifest of a record of this version.
    """
    path = folder / MANIFEST
    remedy = "was it edited? record anew into an empty folder"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParseError(path, None, f"no JSON ({error})", "a manifest", remedy) from None
    if not isinstance(found, dict) or found.pop("kind", None) != "record":
        raise ParseError(path, None, "another kind of file", "the manifest of a record", remedy)
    version = found.pop("version", None)
    if version != VERSION:
        raise ParseError(
            path, None, f"a record of version {version}", f"version {VERSION}", "record anew"
        )
    stated = found.pop("fingerprint", None)
    try:
        manifest = Manifest(**found)
        manifest = replace(
            manifest,
            warnings=tuple(manifest.warnings),
            broken=tuple(manifest.broken),
            sentences=Part(**cast(dict[str, Any], manifest.sentences)),
            shards=tuple(Part(**cast(dict[str, Any], shard)) for shard in manifest.shards),
        )
    except TypeError as error:
        raise ParseError(path, None, f"wrong entries ({error})", "a manifest", remedy) from None
    if manifest.fingerprint != stated:
        raise ParseError(
            path, None, f"fingerprint {stated} over an identity of {manifest.fingerprint}",
            "equal ones", remedy,
        )  # fmt: skip
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replaces the manifest in one step."""
    with whole_file(folder / MANIFEST) as file:
        file.write(manifest.to_json().encode())


def open_record(folder: Path) -> Corpus:
    """The sentences of a finished record; `Corpus.record` says where the attention lies.

    Raises:
        ParseError: an unfinished or damaged record.
    """
    manifest = read_manifest(folder)
    if manifest.status != "finished":
        n_shards = len(manifest.shards)
        raise ParseError(
            folder, None,
            f"an unfinished record of {n_shards} shard{'s' * (n_shards != 1)}", "a whole one",
            "the headscope record command that began it goes on with it",
        )  # fmt: skip
    for part in (manifest.sentences, *manifest.shards):
        check_size(folder, part)
    check_bytes(folder, manifest.sentences)
    return replace(recorded_corpus(folder, manifest), record=folder)


def check_size(folder: Path, part: Part) -> None:
    """Refuses a file that is not there, or cut short.

    Raises:
        ParseError: names the file and both sizes.
    """
    path = folder / part.name
    found = f"{path.stat().st_size:,} bytes" if path.is_file() else "no file"
    if found != f"{part.size:,} bytes":
        raise ParseError(
            path, None, found, f"{part.size:,} bytes, as the manifest says",
            "the same headscope record command makes this part anew",
        )  # fmt: skip


def check_bytes(folder: Path, part: Part) -> None:
    """Refuses a file whose content is not what was written; it is read from end to end.

    Raises:
        ParseError: names the file.
    """
    if fingerprint(folder / part.name) != part.sha256:
        raise ParseError(
            folder / part.name, None, "other bytes than were written", "those of the record",
            "the same headscope record command makes this part anew",
        )  # fmt: skip


def recorded_corpus(folder: Path, manifest: Manifest) -> Corpus:
    """The sentences of a record, as data without attention."""
    data = manifest.data
    skipped: list[str] = []

    def read() -> Iterator[Sentence]:
        skipped[:] = manifest.broken
        return read_sentences(folder / SENTENCES)

    return Corpus(
        name=data["name"],
        sha256=data["sha256"],
        format=data["format"],
        unit=cast(Unit, data["unit"]),
        annotation=cast(Annotation, data["annotation"]),
        note=data["note"],
        read=read,
        skipped=skipped,
        n_sentences=manifest.sentences.n_sentences,
    )


def sentence_line(sentence: Sentence) -> bytes:
    """One sentence, all its fields, as one line of JSON."""
    return json.dumps(_fields(sentence), default=_fields, sort_keys=True).encode() + b"\n"


def _fields(sentence: Sentence) -> dict[str, Any]:
    return {item.name: getattr(sentence, item.name) for item in dataclasses.fields(sentence)}


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Sentences from lines of JSON.

    Raises:
        ParseError: a line that is no sentence.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield Sentence(**{name: _frozen(v) for name, v in json.loads(line).items()})
            except (ValueError, TypeError, AttributeError) as error:
                raise ParseError(path, number, f"no sentence ({error})", "JSON") from None


def _frozen(value: Any) -> Any:
    """Lists as tuples; an object can only be a sentence, the target of another."""
    if isinstance(value, dict):
        return Sentence(**{name: _frozen(item) for name, item in value.items()})
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def refuse_other(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Stops work on a record that was made otherwise.

    Raises:
        InputError: names everything that differs.
    """
    before, now = _facts(before), _facts(now)
    apart = [
        f"{name} {_shown(before.get(name))} there, {_shown(now.get(name))} now"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if apart:
        raise InputError(
            f"{folder}: holds a record made otherwise: {'; '.join(apart)}; name another folder, "
            "or delete this one"
        )


_CUT = re.compile("only the first ([0-9,]+) ")


def _facts(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an identity one by one; a cut to the first sentences as their number."""
    parts = str(identity.get("note", "")).split("; ")
    cuts = [found[1] for part in parts if (found := _CUT.match(part))]
    note = "; ".join(part for part in parts if not _CUT.match(part))
    told = {
        **identity,
        "note": note,
        "sentences": cuts[0] if cuts else "all",
        "text of sentences": identity.get("sentences"),
    }
    packages = told.pop("versions", {})
    return told | {f"{name} version": number for name, number in packages.items()}


def _shown(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\S+", value):
        # Fingerprints are told apart by their beginnings.
        return value[:12] if len(value) == 64 else value
    return json.dumps(value, ensure_ascii=False)
