"""Long sequences: rows come in blocks, and nothing of tokens by tokens is ever held."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, LlamaConfig

from headscope.datasets import Sentence
from headscope.extraction import observation
from headscope.extraction.batches import collate
from headscope.extraction.calibration import calibrate, observe
from headscope.extraction.encoder import Encoder
from headscope.extraction.observers import Resampling
from headscope.extraction.words import Pieces
from headscope.probing.surface import Surface
from headscope.results import ModelInfo
from tests.extraction.toys import wordpiece

RESAMPLING = Resampling(0, "ab" * 32)


def decoder(n_tokens, heads=8, layers=4):
    """A Llama with random weights and heads of size 4."""
    config = LlamaConfig(
        hidden_size=4 * heads, num_attention_heads=heads, num_key_value_heads=heads // 2,
        num_hidden_layers=layers, intermediate_size=16, vocab_size=60,
        max_position_embeddings=n_tokens,
    )  # fmt: skip
    torch.manual_seed(0)
    info = ModelInfo("long", None, "0" * 64, 0, 0, "llama", "encoder", "float32")
    body = AutoModel.from_config(config).eval()
    tokenizer = wordpiece(["the"], letters=True)
    encoder = Encoder(body, config, tokenizer, info, n_tokens, 0, None, None, None, None, False)
    calibrate(encoder)
    return encoder


def batch_of(encoder, n_tokens):
    ids = np.random.default_rng(0).integers(3, 60, n_tokens)
    places, zeros = np.arange(n_tokens), np.zeros(n_tokens, dtype=np.int64)
    blank = ("_",) * n_tokens
    sentence = Sentence(blank, (0,) * n_tokens, blank, blank, "s", 0, 0, 1)
    pieces = Pieces(ids, zeros, zeros.astype(bool), places, zeros, n_tokens)
    return collate(encoder, [(sentence, pieces)])


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the number of cells of the largest tensor that any operation makes."""

    cells = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for item in out if isinstance(out, tuple | list) else (out,):
            if isinstance(item, torch.Tensor):
                # What is stretched without being copied takes no memory.
                self.cells = max(self.cells, item.untyped_storage().nbytes() // item.element_size())
        return out


def seen(encoder, n_tokens):
    surface = Surface(encoder, RESAMPLING)
    with Largest() as largest, observe(encoder, [surface]) as watched:
        watched.forward(batch_of(encoder, n_tokens))
    return surface, largest.cells


def test_no_map_of_tokens_by_tokens_is_held(monkeypatch):
    """1 MiB a block: 2^18 cells, where one head's map has 2^22 and all of a layer's 2^25."""
    monkeypatch.setattr(observation, "BLOCK_BYTES", 2**20)
    n_tokens = 2048
    surface, cells = seen(decoder(n_tokens, layers=2), n_tokens)
    assert cells <= 2**18 + 2**16
    assert surface.result()["entropy"].n == n_tokens


@pytest.mark.slow
def test_16384_tokens_run_through_a_decoder_of_4_layers_and_8_heads():
    n_tokens = 16384
    surface, cells = seen(decoder(n_tokens), n_tokens)
    assert cells <= observation.BLOCK_BYTES // 4 + 2**20  # a map of one head alone has 2^28
    measures = surface.result()
    assert measures["entropy"].n == n_tokens
    # Small weights make attention nearly even: as even as what each query sees.
    assert np.allclose(measures["entropy_relative"].values, 1, atol=0.02)
    assert np.allclose(measures["distance"].values, measures["distance"].uniform, rtol=0.05)


def test_blocks_of_a_long_sequence_give_the_numbers_of_whole_rows(monkeypatch):
    n_tokens = 1500  # over EXACT_KEYS: rows are summed in float32
    encoder = decoder(n_tokens, heads=2, layers=2)
    whole, _ = seen(encoder, n_tokens)
    monkeypatch.setattr(observation, "BLOCK_BYTES", 4 * 2 * n_tokens * 37)
    blocks, cells = seen(encoder, n_tokens)
    assert cells <= 2 * n_tokens * 37 + 2**17
    for name, item in whole.result().items():
        if not item.why_null:
            found = blocks.result()[name].values
            assert np.allclose(found, item.values, rtol=1e-5, atol=1e-6), name
