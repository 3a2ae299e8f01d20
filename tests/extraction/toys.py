"""Tokenizers and checkpoints small enough to check by hand."""

import json
import shutil
import string

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from torch import nn
from transformers import AutoModel, BertConfig, PreTrainedConfig, PreTrainedTokenizerFast

from headscope.datasets import Sentence
from headscope.errors import ModelError
from headscope.extraction.batches import batches
from headscope.extraction.checkpoint import locate, quiet, read_config, read_weights
from headscope.extraction.encoder import Encoder
from headscope.extraction.hook import inputs
from headscope.extraction.words import NO_WORD, Aligner
from headscope.results import ModelInfo

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def template(tokenizer, single, pair=None):
    """Special tokens around (or after) the text, and those of a pair of texts."""
    whole = f"{single} {pair or ''}".replace(":0", "").replace(":1", "")
    named = set(whole.split()) - {"$A", "$B"}
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in named],
    )
    return tokenizer


PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"


def wordpiece(pieces, *, lowercase=True, single="[CLS] $A [SEP]", pair=PAIR, letters=False):
    """BERT's: ids 0 to 4 are special, `pieces` follow; with `letters`, also a-z and ##a-##z."""
    spelling = [*string.ascii_lowercase, *(f"##{c}" for c in string.ascii_lowercase)]
    whole = [*BERT_SPECIALS, *pieces, *(spelling if letters else ())]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(whole))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(BERT_SPECIALS))
    return template(tokenizer, single, pair) if single else tokenizer


def byte_level(*merged, prefix=True, specials=ROBERTA_SPECIALS):
    """RoBERTa's: every byte is a piece; `merged` are further pieces, "Ġ" marks a space before."""
    vocabulary = [*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for piece in merged:
        for end in range(2, len(piece) + 1):
            if piece[:end] not in vocabulary:
                vocabulary.append(piece[:end])
                merges.append((piece[: end - 1], piece[end - 1]))
    numbered = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(numbered, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.add_special_tokens(
        [AddedToken(name, lstrip=name == "<mask>", special=True) for name in specials]
    )
    if "<s>" in specials:
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), True, prefix
        )
    return tokenizer


def unigram(*pieces, scheme="always", normalizer=None, letters=True):
    """SentencePiece's: "▁" marks a space before; `scheme` None has no pre-tokenizer at all."""
    ready = ("▁", *(string.ascii_letters + string.digits + ".,'-" if letters else ""))
    scores = [(name, 0.0) for name in ROBERTA_SPECIALS[:4]]
    scores += [(piece, -4.0) for piece in ready] + [(piece, -1.0) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram([*scores, ("<mask>", 0.0)], unk_id=3))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if scheme is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.add_special_tokens(list(ROBERTA_SPECIALS))
    return template(tokenizer, "<s> $A </s>")


def boundaries_from_text(*pieces, composing=False):
    """Gemma's way: only spaces of running text become "▁"; words one by one would be glued."""
    steps = [normalizers.NFC()] if composing else []
    steps.append(normalizers.Replace(" ", "▁"))
    return unigram(*pieces, scheme=None, normalizer=normalizers.Sequence(steps))


def word_ends(*pieces):
    """OpenAI-GPT's: the last piece of a word ends in "</w>"; `pieces` are words of their own."""
    letters = (*string.ascii_letters, *string.digits, *".,'-")
    spelling = [letter + end for letter in letters for end in ("", "</w>")]
    whole = [*ROBERTA_SPECIALS, *spelling, *(f"{piece}</w>" for piece in pieces)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(whole))}
    merges = []
    for piece in pieces:
        for start in range(len(piece) - 1, 0, -1):
            vocabulary.setdefault(f"{piece[start - 1 :]}</w>", len(vocabulary))
            merges.append((piece[start - 1], f"{piece[start:]}</w>"))
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix="</w>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(ROBERTA_SPECIALS))
    return template(tokenizer, "<s> $A </s>")


BERT = wordpiece(["the", "cat", "'", "s", "na", "##ive", ".", ",", "東", "京", "18"], letters=True)
ROBERTA = byte_level("Ġdog", "Ġthan", "ger", "Ġthe")
XLMR = unigram("▁the", "the", "▁cat")
GEMMA = boundaries_from_text("▁the", "the", "▁cat")
KINDS = {
    "wordpiece": BERT,
    "byte-level": ROBERTA,
    "byte-level without prefix space": byte_level("Ġdog", prefix=False),
    "metaspace always": XLMR,
    "metaspace first": unigram("▁the", scheme="first"),
    "metaspace never": unigram("▁the", scheme="never"),
    "boundaries from text": GEMMA,
    "word ends": word_ends("the", "cat"),
}
EVERY_KIND = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())


def align(tokenizer, words):
    """Pieces of one sentence."""
    (pieces,) = Aligner(tokenizer).align([words.split() if isinstance(words, str) else words])
    return pieces


def texts(tokenizer, pieces):
    """Text of every piece, marks included."""
    return [tokenizer.id_to_token(int(i)) for i in pieces.ids]


def bare(cut):
    """Text of the pieces of one word, without marks."""
    return "".join(cut).replace("##", "").strip("Ġ▁").removesuffix("</w>")


def of_words(pieces):
    """Words of the pieces that belong to one."""
    return pieces.word_of[~pieces.special].tolist()


def counts(pieces):
    """Number of pieces of each word."""
    return np.bincount(pieces.word_of[pieces.word_of != NO_WORD], minlength=pieces.n_words).tolist()


def sentence(words, *, ordinal=0, unit=None, line=1):
    """A flat tree over some words."""
    words = tuple(words.split() if isinstance(words, str) else words)
    return Sentence(
        words=words,
        heads=tuple(range(len(words))),
        relations=("dep",) * len(words),
        upos=("X",) * len(words),
        sent_id=f"s{ordinal}",
        ordinal=ordinal,
        unit=ordinal if unit is None else unit,
        line=line,
    )


class NeverCalled(nn.Module):
    """A model of which only the size of the embedding table is asked."""

    def __init__(self, n_ids):
        super().__init__()
        self.table = nn.Embedding(n_ids, 1)

    def get_input_embeddings(self):
        return self.table


def encoder_of(
    tokenizer, *, max_length=512, pad_id=0, unk_id=1, attention="encoder", start_id=None
):
    """An encoder whose model is never called; beside a decoder for any other attention."""
    info = ModelInfo("toy", None, "0" * 64, 2, 3, "bert", attention, "float32")
    return Encoder(
        model=NeverCalled(tokenizer.get_vocab_size()),
        config=PreTrainedConfig(is_encoder_decoder=attention != "encoder"),
        tokenizer=tokenizer,
        info=info,
        max_length=max_length,
        pad_id=pad_id,
        start_id=start_id,
        cls_id=2,
        separator_id=3,
        unk_id=unk_id,
        uses_type_ids=True,
    )


def bert_config(**changes):
    """2 layers, 4 heads of size 2, 40 positions, 61 ids."""
    size = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4}
    rest = {"intermediate_size": 12, "vocab_size": 61, "max_position_embeddings": 40}
    return BertConfig(**(size | rest | changes))


def random_model(config, make=AutoModel.from_config):
    """A model of which no weight has its initial value; the global generator stays as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = make(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(std=0.3)
    return model.eval()


def save(folder, model, tokenizer=None, **names):
    """A checkpoint as save_pretrained writes it; a bare Rust tokenizer is wrapped."""
    if tokenizer is None:
        tokenizer, names = wordpiece(["the", "cat", ".", ","], letters=True), {**NAMES, **names}
    if isinstance(tokenizer, Tokenizer):
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def edit_json(path, **changes):
    """Sets keys of a JSON file; None takes the key out."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    content = {key: value for key, value in (content | changes).items() if value is not None}
    path.write_text(json.dumps(content), encoding="utf-8")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put_in_hub_cache(monkeypatch, root, name, folder, *, branch="main", commit=COMMIT):
    """Lays a model folder into a hub cache of its own, as a download would have."""
    place = root / "hub" / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / branch).write_text(commit, encoding="utf-8")
    shutil.copytree(folder, place / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root / "hub"))


def weights(folder, **options):
    """The model of a folder, by the steps of `load_encoder`."""
    found = locate(folder, **options)
    with quiet():
        return read_weights(found, read_config(found))


def put(folder, state, *, pickled=False):
    """Other weights in place of those of the folder."""
    (folder / "model.safetensors").unlink()
    if pickled:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def state_of(folder):
    """Tensors of its weight file."""
    return load_file(folder / "model.safetensors")


def assert_same(found, expected):
    """All weights are equal to the last bit."""
    ours, theirs = found.state_dict(), expected.state_dict()
    assert ours.keys() == theirs.keys()
    assert [key for key in ours if not ours[key].equal(theirs[key])] == []


def refused(folder, match):
    """The message is one line, begins with the name and matches."""
    with pytest.raises(ModelError, match=match) as caught:
        weights(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder))


def output(encoder, words):
    """Last hidden state of one sentence, as headscope runs it."""
    (batch,) = batches(encoder, [sentence(words)])
    with torch.no_grad():
        return encoder.model(**inputs(encoder, batch)).last_hidden_state
