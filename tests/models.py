"""Tiny random models of every family, and batches for them.

Sizes differ on purpose: 3 layers, 4 heads, never as many tokens as either.
"""

import copy

import numpy as np
import torch
from transformers import AutoModel

from headscope.datasets import Sentence
from headscope.extraction.batches import Batch, batches, collate
from headscope.extraction.calibration import calibrate, observe
from headscope.extraction.loading import assemble
from headscope.extraction.tokenizer import Vocabulary
from headscope.extraction.words import NO_WORD, Pieces
from headscope.results import ModelInfo
from tests.extraction.families import FAMILY, family_config, family_tokenizer

N_LAYERS, N_HEADS, HEAD_SIZE = 3, 4, 6
LENGTHS = (9, 5, 7)

_WIDTH = N_HEADS * HEAD_SIZE
_SIZE = {"hidden_size": _WIDTH, "num_attention_heads": N_HEADS, "intermediate_size": 20}
_SIZES = {
    "distilbert": {"dim": _WIDTH, "n_heads": N_HEADS, "hidden_dim": 20},
    "gpt2": {"n_embd": _WIDTH, "n_head": N_HEADS},
}

KINDS = {name: (name, {}) for name in sorted(FAMILY)}
# Two groups of two inner layers each, called twice over: eight layers, four modules.
KINDS["albert of groups"] = (
    "albert",
    {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
)
KINDS["ernie of tasks"] = ("ernie", {"use_task_id": True})
KINDS["bert as decoder"] = ("bert", {"is_decoder": True})
CAUSAL = ("gpt2", "bert as decoder")


def spread(model, seed=0, std=0.25):
    """Weights N(0, std), those of norms N(1, std): attention far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator) * std
            is_norm = weight.ndim == 1 and name.endswith("weight")
            weight.copy_(1 + drawn if is_norm else drawn)
    return model


def encoder_for(model, family, name="tiny", attention="encoder"):
    """An encoder around a model of a family, as the loader would make it, not calibrated yet."""
    pad_id, cls_id, separator_id, unk_id = FAMILY[family].ids
    info = ModelInfo(
        name=name,
        revision=None,
        weights_sha256="0" * 64,
        n_layers=0,
        n_heads=0,
        family=family,
        attention=attention,
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
    )
    tokenizer = family_tokenizer(family)
    vocabulary = Vocabulary(
        tokenizer=tokenizer.backend_tokenizer,
        pad_id=pad_id,
        cls_id=cls_id,
        separator_id=separator_id,
        unk_id=unk_id,
        has_type_ids="token_type_ids" in tokenizer.model_input_names,
    )
    made = assemble(model.eval(), model.config, vocabulary, info)
    made.max_length = FAMILY[family].max_length
    return made


def shown(observer, sentences, *, batch_tokens=1024):
    """The observer, once it has seen the sentences."""
    with observe(observer.encoder, [observer]) as seen:
        for batch in batches(observer.encoder, sentences, batch_tokens=batch_tokens):
            seen.forward(batch)
    return observer


def encoder(kind="bert", *, dtype=torch.float32, **changes):
    """A tiny encoder with random weights, calibrated; `changes` are of its config."""
    made = uncalibrated(kind, dtype=dtype, **changes)
    calibrate(made)
    return made


def uncalibrated(kind="bert", *, dtype=torch.float32, **changes):
    """A tiny encoder with random weights."""
    family, own = KINDS[kind]
    config = family_config(family, **{**_SIZES.get(family, _SIZE), **own, **changes})
    made = spread(AutoModel.from_config(config)).to(dtype)
    return encoder_for(made, family, f"tiny {kind}")


def batch_of(encoder, lengths=LENGTHS, seed=0):
    """Sentences of random tokens, the first and last of them special, one word a piece."""
    generator = torch.Generator().manual_seed(seed)
    n_ids = encoder.model.get_input_embeddings().num_embeddings
    group = []
    for ordinal, length in enumerate(lengths):
        ids = torch.randint(5, n_ids, (length,), generator=generator).numpy()
        word_of = torch.arange(-1, length - 1).numpy()
        word_of[-1] = NO_WORD
        special = word_of == NO_WORD
        n_words = max(length - 2, 0)
        pieces = Pieces(ids, 0 * ids, special, word_of, np.where(special, NO_WORD, 0), n_words)
        words, relations, upos = ("w",) * n_words, ("dep",) * n_words, ("X",) * n_words
        heads = tuple(range(n_words))
        sentence = Sentence(words, heads, relations, upos, f"s{ordinal}", ordinal, ordinal, 1)
        group.append((sentence, pieces))
    return collate(encoder, group)


def sentence_of(batch, row):
    """A batch of one of its sentences, without padding."""
    length = int(batch.n_tokens[row])
    names = ("input_ids", "type_ids", "valid", "special", "word_of", "segment_of")
    return Batch(
        sentences=batch.sentences[row : row + 1],
        pieces=batch.pieces[row : row + 1],
        **{name: getattr(batch, name)[row : row + 1, :length] for name in names},
    )


def own_attention(encoder, batch):
    """(maps of all layers, last hidden state) of a copy of the model with its own eager code."""
    model = copy.deepcopy(encoder.model)
    model.set_attn_implementation("eager")
    given = {"input_ids": batch.input_ids, "attention_mask": batch.valid.long()}
    if encoder.uses_type_ids:
        given["token_type_ids"] = batch.type_ids
    with torch.no_grad():
        out = model.eval()(**given, output_attentions=True)
    return list(out.attentions), out.last_hidden_state
