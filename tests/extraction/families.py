"""A tiny model and tokenizer of every family: 3 layers, 2 heads, 20 positions."""

import string
from dataclasses import dataclass
from typing import Any

from transformers import (
    AlbertConfig,
    AlbertTokenizer,
    BertConfig,
    BertTokenizer,
    CamembertConfig,
    CamembertTokenizer,
    DistilBertConfig,
    DistilBertTokenizer,
    ElectraConfig,
    ElectraTokenizer,
    ErnieConfig,
    GPT2Config,
    GPT2Tokenizer,
    RobertaConfig,
    RobertaTokenizer,
    XLMRobertaConfig,
    XLMRobertaTokenizer,
)

from tests.extraction.toys import byte_level, wordpiece

_LETTERS = [("▁", -3.0), *((letter, -4.0) for letter in string.ascii_letters + ".,")]
_TEXT = [*_LETTERS, ("▁the", -1.0)]


def _scored(*names):
    return [(name, 0.0) for name in names]


_WORDPIECE = wordpiece(["the", "cat", ".", ","], letters=True).get_vocab()
_BYTES = byte_level("Ġdog").get_vocab()
_GPT2 = byte_level("Ġdog", specials=("<|endoftext|>",)).get_vocab()
_MERGES = [("Ġ", "d"), ("Ġd", "o"), ("Ġdo", "g")]
_ALBERT = [*_scored("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), *_TEXT]
_XLMR = [*_scored("<s>", "<pad>", "</s>", "<unk>"), *_TEXT, ("<mask>", 0.0)]
_CAMEMBERT = [
    *_scored("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"),
    *_TEXT,
    ("<mask>", 0.0),
]
_SIZE = {
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 20,
}
_DISTILBERT = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 12}
_DISTILBERT |= {"max_position_embeddings": 20}
_GPT2_SIZE = {"n_embd": 8, "n_layer": 3, "n_head": 2, "n_positions": 20}
_GPT2_SIZE |= {"bos_token_id": 0, "eos_token_id": 0}


@dataclass(frozen=True)
class Family:
    """Classes of a family, and what an encoder of it must know.

    Attributes:
        ids: of padding, classification, separator and unknown token.
    """

    config: Any
    size: dict[str, Any]
    tokenizer: Any
    vocabulary: dict[str, Any]
    max_length: int
    ids: tuple[int | None, ...]


_MERGED = {"vocab": _BYTES, "merges": _MERGES}
_EMBEDDED = _SIZE | {"embedding_size": 6}
FAMILY = {
    "albert": Family(
        AlbertConfig, _EMBEDDED, AlbertTokenizer, {"vocab": _ALBERT}, 20, (0, 2, 3, 1)
    ),
    "bert": Family(BertConfig, _SIZE, BertTokenizer, {"vocab": _WORDPIECE}, 20, (0, 2, 3, 1)),
    "camembert": Family(
        CamembertConfig, _SIZE, CamembertTokenizer, {"vocab": _CAMEMBERT}, 18, (1, 5, 6, 3)
    ),
    "distilbert": Family(
        DistilBertConfig, _DISTILBERT, DistilBertTokenizer, {"vocab": _WORDPIECE}, 20, (0, 2, 3, 1)
    ),
    "electra": Family(
        ElectraConfig, _EMBEDDED, ElectraTokenizer, {"vocab": _WORDPIECE}, 20, (0, 2, 3, 1)
    ),
    "ernie": Family(ErnieConfig, _SIZE, BertTokenizer, {"vocab": _WORDPIECE}, 20, (0, 2, 3, 1)),
    "gpt2": Family(
        GPT2Config,
        _GPT2_SIZE,
        GPT2Tokenizer,
        {"vocab": _GPT2, "merges": _MERGES},
        20,
        (0, None, None, None),
    ),
    "roberta": Family(RobertaConfig, _SIZE, RobertaTokenizer, _MERGED, 18, (1, 0, 2, 3)),
    "xlm-roberta": Family(
        XLMRobertaConfig, _SIZE, XLMRobertaTokenizer, {"vocab": _XLMR}, 18, (1, 0, 2, 3)
    ),
}


def family_config(name, **changes):
    """Its config, with as many ids as its toy tokenizer has."""
    family = FAMILY[name]
    return family.config(
        **{**family.size, "vocab_size": len(family.vocabulary["vocab"]), **changes}
    )


def family_tokenizer(name):
    """A toy tokenizer of the class that the library has for it."""
    family = FAMILY[name]
    return family.tokenizer(**family.vocabulary)
