"""The tokenizer of a checkpoint: the one that its files describe, cutting nothing off."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, TokenizersBackend

from headscope.extraction.checkpoint import Checkpoint, why_not

_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
# Words on which tokenizers that differ in case, accents, scripts or punctuation differ.
_PROBES = (
    "The",
    "naïve",
    "U.S.",
    "don't",
    "10,000",
    "Straße",
    "東京",
    "``",
    "ﬁ",
    "one_two",
    "한국어",
)
_N_PIECES = 400
"""Pieces of the vocabulary that are tried as words besides."""

_BERT_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


@dataclass(frozen=True)
class Vocabulary:
    """A fast tokenizer and the ids that it has names for.

    Attributes:
        tokenizer: the Rust tokenizer; truncation, padding and random cuts are switched off.
        pad_id, cls_id, separator_id, unk_id: None where the tokenizer has no such token.
        has_type_ids: whether it tells segments apart.
        notes: what a reader of results must know about it.
    """

    tokenizer: Tokenizer
    pad_id: int | None
    cls_id: int | None
    separator_id: int | None
    unk_id: int | None
    has_type_ids: bool
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> tuple[str, int]:
        """The piece with the highest id, and this id; the pad token, which is masked, left out."""
        ids = self.tokenizer.get_vocab()
        return max(
            ((piece, i) for piece, i in ids.items() if i != self.pad_id), key=lambda item: item[1]
        )


def read_tokenizer(checkpoint: Checkpoint) -> Vocabulary:
    """The tokenizer that AutoTokenizer builds, compared with the checkpoint's own description.

    Raises:
        ModelError: no tokenizer, a broken, slow or empty one, code that may not run, or one that
            the library rebuilds otherwise than the checkpoint's tokenizer.json describes it.
    """
    # Without vocabulary files the library builds an empty tokenizer and says nothing.
    if not any(checkpoint.file(name) for name in _FILES):
        raise checkpoint.error(
            f"found no tokenizer in {checkpoint.holder}; expected one of {', '.join(_FILES)}; save "
            "it beside the weights with tokenizer.save_pretrained"
        )
    config = _json(checkpoint, "tokenizer_config.json")
    # Where the library knows another way it would pass over the code and say nothing.
    if "auto_map" in config and not checkpoint.trust_remote_code:
        raise why_not(checkpoint, "trust_remote_code")
    loaded = load_tokenizer(checkpoint)
    if not loaded.is_fast:
        raise checkpoint.error(
            f"{type(loaded).__name__} is a slow tokenizer and cannot tell which piece belongs to "
            "which word; expected one with a tokenizer.json"
        )
    rust = loaded.backend_tokenizer
    rust.no_truncation()
    rust.no_padding()
    if getattr(rust.model, "dropout", None):
        rust.model.dropout = None
    if len(rust.get_vocab()) <= len(set(rust.get_added_tokens_decoder())):
        raise checkpoint.error(
            f"{type(loaded).__name__} has no vocabulary but special tokens; its vocabulary file is "
            "missing or belongs to another kind of tokenizer; save it with "
            "tokenizer.save_pretrained"
        )
    own = {} if type(loaded) is TokenizersBackend else _json(checkpoint, "tokenizer.json")
    return Vocabulary(
        tokenizer=rust,
        pad_id=loaded.pad_token_id,
        cls_id=loaded.cls_token_id,
        separator_id=loaded.sep_token_id,
        unk_id=_unknown_id(loaded, rust),
        has_type_ids="token_type_ids" in loaded.model_input_names,
        notes=_compare_with_file(checkpoint, loaded, own, config) if own else (),
    )


def load_tokenizer(checkpoint: Checkpoint) -> Any:
    """The tokenizer that AutoTokenizer builds.

    Raises:
        ModelError: broken or foreign files.
    """
    try:
        # Words given one by one carry the space that byte-level vocabularies expect before them.
        return AutoTokenizer.from_pretrained(
            checkpoint.place, **checkpoint.where, add_prefix_space=True
        )
    except Exception as error:
        # Whatever broken or foreign files make the readers raise.
        if "tiktoken" in str(error):
            # The last of several ways that the library tries, and never the right one here.
            raise checkpoint.error(
                "found no tokenizer.json, and to read its SentencePiece model takes two more "
                "packages: pip install sentencepiece protobuf"
            ) from error
        raise checkpoint.error(f"tokenizer: {type(error).__name__}: {error}") from error


def _json(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    path = checkpoint.file(name)
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except ValueError as error:
        raise checkpoint.error(f"{name} is no JSON: {error}; save the tokenizer again") from error
    return content if isinstance(content, dict) else {}


def _unknown_id(loaded: Any, rust: Tokenizer) -> int | None:
    # Byte-level vocabularies have no unknown piece; GPT-2 names its end-of-text token instead.
    named: int | None = loaded.unk_token_id
    if named is not None:
        return None if named == loaded.bos_token_id else named
    own = getattr(rust.model, "unk_token", None)
    unknown_id: int | None = rust.token_to_id(own) if own else None
    return unknown_id


def _compare_with_file(
    checkpoint: Checkpoint, loaded: Any, own: dict[str, Any], config: dict[str, Any]
) -> tuple[str, ...]:
    """Refuses a tokenizer that cuts words otherwise than the checkpoint's tokenizer.json says.

    Classes of transformers 5 take the vocabulary from tokenizer.json and build the rest anew: a
    cased model without a tokenizer_config.json is lower-cased, own normalizers are lost. Where
    tokenizer_config.json asks for the difference in so many words, a note will do.
    """
    rust = loaded.backend_tokenizer
    added = {token.content for token in rust.get_added_tokens_decoder().values()}
    pieces = sorted(rust.get_vocab().keys() - added)
    end = getattr(rust.model, "end_of_word_suffix", None) or ""
    bare = [piece.removeprefix("##").strip("\u0120\u2581").removesuffix(end) for piece in pieces]
    sample = [word for word in bare[:: len(bare) // _N_PIECES + 1] if word.isprintable() and word]
    words = (*_PROBES, *(token["content"] for token in own.get("added_tokens", ())), *sample)
    apart = _first_apart(rust, _described(own, {}), words)
    if apart is None:
        return ()
    if _first_apart(rust, _described(own, config), words) is None:
        return (
            f"tokenizer_config.json and tokenizer.json contradict each other: {apart[0]} by the "
            f"first, which is followed, and {apart[1]} by the second",
        )
    raise checkpoint.error(
        f"{type(loaded).__name__} gives {apart[0]}, and tokenizer.json {apart[1]}; if "
        'tokenizer.json is right, write "tokenizer_class": "PreTrainedTokenizerFast" and the names '
        "of its special tokens in tokenizer_config.json"
    )


def _first_apart(one: Tokenizer, other: Tokenizer, words: Sequence[str]) -> tuple[str, str] | None:
    """How both cut the first word that they cut differently."""
    given = [[word] for word in words]
    both = (tokenizer.encode_batch(given, is_pretokenized=True) for tokenizer in (one, other))
    for first, second in zip(*both, strict=True):
        if first.ids != second.ids:
            return " ".join(first.tokens), " ".join(second.tokens)
    return None


def _described(own: dict[str, Any], config: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a tokenizer.json, with settings of the config and those we ask for."""
    marks_ends = (own.get("model") or {}).get("end_of_word_suffix")
    steps = {name: copy.deepcopy(own.get(name)) for name in ("normalizer", "pre_tokenizer")}
    for part in _parts(*steps.values()):
        if part["type"] == "BertNormalizer":
            part.update({its: config[key] for key, its in _BERT_SETTINGS.items() if key in config})
        # A vocabulary that marks the ends of words, as CLIP's does, has no space before them.
        elif part["type"] == "ByteLevel" and not marks_ends:
            part["add_prefix_space"] = True
        elif part["type"] == "Metaspace":
            part.pop("add_prefix_space", None)
            part["prepend_scheme"] = "always"
    return Tokenizer.from_str(json.dumps({**own, **steps, "truncation": None, "padding": None}))


def _parts(*trees: Any) -> Iterator[dict[str, Any]]:
    """The steps of normalizers and pre-tokenizers, those inside sequences included."""
    for tree in trees:
        if tree is not None:
            yield tree
            yield from _parts(*tree.get("normalizers", ()), *tree.get("pretokenizers", ()))
