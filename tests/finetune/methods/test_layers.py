"""Depth of parameters in families, learning rates, layers drawn anew."""

import pytest
import torch
from transformers import BertConfig, BertModel

from headscope.finetune.methods.layers import depth_from_top, draw_anew, layer_rate, top_layers


@pytest.mark.parametrize(
    ("name", "in_body", "depth"),
    [
        ("classifier.weight", False, 0),
        ("pooler.dense.weight", True, 0),
        ("encoder.layer.11.output.dense.weight", True, 1),
        ("encoder.layer.0.attention.self.query.weight", True, 12),
        ("embeddings.word_embeddings.weight", True, 13),
        ("transformer.layer.3.ffn.lin1.weight", True, 9),
        ("layers.11.mlp.up_proj.weight", True, 1),
        ("h.0.attn.c_attn.weight", True, 12),
        ("wte.weight", True, 13),
        ("embed_tokens.weight", True, 13),
        ("ln_f.weight", True, 0),
        ("final_norm.weight", True, 0),
    ],
)
def test_depth_from_the_top(name, in_body, depth):
    assert depth_from_top(name, 12, in_body) == depth


def test_e12_rates():
    expected = {0: 2e-5, 1: 1.9e-5, 12: 1.0807e-5, 13: 1.0267e-5}
    for depth, rate in expected.items():
        assert layer_rate(2e-5, 0.95, depth) == pytest.approx(rate, abs=1e-9)


def test_top_layers_are_drawn_anew_and_others_are_not():
    config = BertConfig(vocab_size=61, hidden_size=24, num_attention_heads=4, num_hidden_layers=3,
                        intermediate_size=20, max_position_embeddings=20)  # fmt: skip
    model = BertModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(7.0)
    draw_anew(model, [*top_layers(model.encoder.layer, 1), model.pooler])
    for name, weight in model.named_parameters():
        fresh = name.startswith(("encoder.layer.2.", "pooler"))
        assert bool((weight == 7).all()) != fresh, name
    top = model.encoder.layer[2]
    assert top.output.dense.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not top.output.dense.bias.any()
    assert (top.output.LayerNorm.weight == 1).all()
