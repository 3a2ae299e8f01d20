"""What is added to embeddings: the hook, padding, norms, projections."""

import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

from headscope.finetune.noise import (
    added_to_embeddings,
    ascended,
    drawn,
    projected,
    size_of,
    start_of_freelb,
    width_of,
    word_embeddings,
)  # fmt: skip

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
IDS = torch.tensor([[5, 9, 12, 7, 30], [8, 11, 1, 1, 1]])
SIZE = {"vocab_size": 61, "hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 3}
MORE = {"intermediate_size": 20, "max_position_embeddings": 20, "initializer_range": 0.2}


def bert(kind=BertModel, config=BertConfig):
    torch.manual_seed(0)
    return kind(config(**SIZE, **MORE, pad_token_id=1)).eval()


@pytest.mark.parametrize(
    ("kind", "config"), [(BertModel, BertConfig), (RobertaModel, RobertaConfig)]
)
def test_e5_the_hook_is_the_same_as_embeddings_given(kind, config):
    model = bert(kind, config)
    delta = torch.randn(2, 5, 24) * MASK.unsqueeze(2)
    plain = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    with added_to_embeddings(model, torch.zeros(2, 5, 24)):
        assert torch.equal(model(input_ids=IDS, attention_mask=MASK).last_hidden_state, plain)
    with added_to_embeddings(model, delta):
        found = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    words = model.get_input_embeddings()(IDS) + delta
    given = model(inputs_embeds=words, attention_mask=MASK).last_hidden_state
    assert torch.equal(found[MASK.bool()], given[MASK.bool()])
    assert torch.equal(model(input_ids=IDS, attention_mask=MASK).last_hidden_state, plain)


def test_e5_noise_at_padding_changes_nothing():
    model = bert()
    plain = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    with added_to_embeddings(model, torch.randn(2, 5, 24) * (1 - MASK).unsqueeze(2)):
        found = model(input_ids=IDS, attention_mask=MASK).last_hidden_state
    assert torch.allclose(found[MASK.bool()], plain[MASK.bool()], atol=1e-6)


def test_gradients_of_delta_and_of_the_table():
    model = bert()
    for detach in (False, True):
        model.zero_grad()
        delta = torch.zeros(2, 5, 24, requires_grad=True)
        with added_to_embeddings(model, delta, detach=detach):
            model(input_ids=IDS, attention_mask=MASK).last_hidden_state[
                :, 0
            ].square().sum().backward()
        assert (delta.grad[MASK.bool()] != 0).any()
        assert (delta.grad[~MASK.bool()] == 0).all()
        table = model.get_input_embeddings().weight.grad
        assert (table is None or not table.any()) == detach


BART = BartConfig(
    d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20, vocab_size=61,
    max_position_embeddings=20, init_std=0.2,
)  # fmt: skip
T5 = T5Config(d_model=24, num_heads=4, d_kv=6, num_layers=3, num_decoder_layers=2, d_ff=20,
              vocab_size=61)  # fmt: skip


@pytest.mark.parametrize(("kind", "config"), [(BartModel, BART), (T5Model, T5)])
def test_only_the_encoder_of_two_is_noised(kind, config):
    torch.manual_seed(0)
    model = kind(config).eval()
    states = model.get_encoder()(input_ids=IDS, attention_mask=MASK)
    given = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": IDS}
    plain = model(**given)
    with added_to_embeddings(model, torch.randn(2, 5, 24)):
        found = model(**given)
    assert not torch.allclose(found.encoder_last_hidden_state, states.last_hidden_state, atol=1e-3)
    # With the encoder's states given, the decoder answers as ever.
    given = {"attention_mask": MASK, "decoder_input_ids": IDS}
    moved = (found.encoder_last_hidden_state,)
    expected = model(encoder_outputs=moved, **given).last_hidden_state
    assert torch.allclose(found.last_hidden_state, expected, atol=1e-5)
    assert not torch.allclose(found.last_hidden_state, plain.last_hidden_state, atol=1e-3)
    assert width_of(model) == 24
    assert word_embeddings(model).num_embeddings == 61


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_noise_is_drawn_for_real_tokens_only(kind):
    torch.manual_seed(0)
    mask = torch.ones(40, 50)
    mask[:, 30:] = 0
    found = drawn(kind, mask, 24, 1e-2)
    assert found.dtype == torch.float32
    assert not found[:, 30:].any()
    real = found[:, :30]
    assert real.std().item() == pytest.approx(1e-2 / (3**0.5 if kind == "uniform" else 1), rel=0.02)
    assert abs(real.mean().item()) < 1e-4
    assert (real.abs().max() <= 1e-2) == (kind == "uniform")


def test_e6_the_start_of_freelb_is_as_large_whatever_the_length():
    torch.manual_seed(0)
    mask = torch.ones(200, 20)
    mask[100:, 7:] = 0
    found = size_of(start_of_freelb(mask, 24, 0.3), "l2")
    assert found[:100].mean().item() == pytest.approx(0.17322, abs=2e-3)
    assert found[100:].mean().item() == pytest.approx(0.17322, abs=2e-3)
    state = torch.get_rng_state()
    assert not start_of_freelb(mask, 24, 0).any()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_e7_steps_and_projections_keep_their_sizes(norm):
    torch.manual_seed(0)
    delta, gradient = torch.zeros(3, 5, 4), torch.randn(3, 5, 4)
    moved = ascended(delta, gradient, 0.1, norm)
    assert torch.allclose(size_of(moved, norm), torch.full((3,), 0.1))
    assert (moved * gradient > 0).all()
    assert (size_of(projected(moved * 9, 0.5, norm), norm) <= 0.5 + 1e-6).all()
    assert torch.allclose(projected(moved, 0.5, norm), moved)


def test_c090_without_a_gradient_nothing_is_divided_by_zero():
    still = ascended(torch.ones(1, 2, 3), torch.zeros(1, 2, 3), 0.1, "l2")
    assert torch.equal(still, torch.ones(1, 2, 3))
    assert not projected(torch.zeros(1, 2, 3), 0.1, "l2").isnan().any()
