"""PEFT adapter folders: their base model is found, and the adapter merged into its weights."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from headscope.errors import HeadscopeError
from headscope.extraction.checkpoint import Checkpoint, locate

CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


def with_base(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint of the model that an adapter was made for; the same where it is no adapter.

    Raises:
        ModelError: no base model named, or it is not there.
    """
    path = checkpoint.file(CONFIG)
    if path is None:
        return checkpoint
    try:
        base = json.loads(path.read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError) as error:
        raise checkpoint.error(f"{CONFIG} names no base model: {error!r}") from error
    for name in _WEIGHTS:
        checkpoint.file(name)  # fetched from a hub where it is one's
    found = locate(str(base), trust_remote_code=checkpoint.trust_remote_code)
    return replace(found, name=checkpoint.name, asked=checkpoint.asked, adapter=path.parent)


def merged(checkpoint: Checkpoint, body: Any) -> Any:
    """The body with the adapter's changes in its weights.

    Raises:
        ModelError: peft is not installed, a kind of adapter that changes no weights, or weights
            that do not fit the model.
    """
    if checkpoint.adapter is None:
        return body
    if importlib.util.find_spec("peft") is None:
        raise checkpoint.error(
            'found a PEFT adapter, and merging it takes peft: pip install "headscope[peft]"'
        )
    try:
        with warnings.catch_warnings():
            # What peft calls in transformers, and says is to be renamed, is nothing to a user.
            warnings.simplefilter("ignore", FutureWarning)
            return _merged(checkpoint, body, checkpoint.adapter)
    except HeadscopeError:
        raise
    except Exception as error:
        # Whatever a broken or foreign adapter makes the library raise.
        raise checkpoint.error(f"adapter: {type(error).__name__}: {error}") from error


def _merged(checkpoint: Checkpoint, body: Any, folder: Path) -> Any:
    import peft
    from peft.utils import get_peft_model_state_dict, load_peft_weights

    config = peft.PeftConfig.from_pretrained(str(folder))
    if config.is_prompt_learning:
        raise checkpoint.error(
            f"a {config.peft_type} adapter adds inputs and changes no weights; it cannot be "
            "merged into the model"
        )
    # The head that the adapter was trained with is not part of the body.
    config.task_type, config.modules_to_save, config.inference_mode = None, None, True
    wrapped = peft.get_peft_model(body, config)
    wanted = set(get_peft_model_state_dict(wrapped))
    state = _of_body(load_peft_weights(str(folder), device="cpu"), body)
    if lacking := sorted(wanted - state.keys()):
        raise checkpoint.error(
            f"the adapter lacks {len(lacking)} weights of the layers that it changes: "
            f"{lacking[0]}, ...; was it made for another model than {checkpoint.place}?"
        )
    peft.set_peft_model_state_dict(wrapped, {key: state[key] for key in wanted})
    return wrapped.merge_and_unload(safe_merge=True)


def _of_body(state: dict[str, Any], body: Any) -> dict[str, Any]:
    """Adapter weights under the names that they have when the body is wrapped without its head."""
    whole = f"base_model.model.{body.base_model_prefix}."
    return {
        f"base_model.model.{key.removeprefix(whole)}" if key.startswith(whole) else key: weight
        for key, weight in state.items()
    }


def adapter_sha256(folder: Path, of_base: str) -> str:
    """Of base and adapter weights together."""
    digest = hashlib.sha256(of_base.encode())
    for name in _WEIGHTS:
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    return digest.hexdigest()
