"""Observed attention is the model's own, whole or in blocks, padded or not; what is refused."""

import pytest
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from headscope.errors import ModelError
from headscope.extraction import hook, observation
from headscope.extraction.calibration import KeepMaps, calibrate, observe
from headscope.extraction.hook import attention_set_to, inputs, observed_attention, watched_by
from headscope.extraction.observation import Observation, Site
from tests.extraction.watching import Rows, apart, recorded
from tests.models import (
    CAUSAL,
    HEAD_SIZE,
    KINDS,
    LENGTHS,
    N_HEADS,
    batch_of,
    encoder,
    own_attention,
    sentence_of,
)

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


class Listener:
    """Hears of every attention call and looks at none: nothing stops the pass."""

    def __init__(self):
        self.called = []

    def arrive(self, module, mask):
        self.called.append(module)


@EVERY_KIND
def test_recorded_maps_equal_the_models_own(kind):
    model = encoder(kind)
    batch = batch_of(model)
    own, _ = own_attention(model, batch)
    maps = recorded(model, batch)
    assert len(maps) == len(own) == model.n_layers
    for found, expected in zip(maps, own, strict=True):
        assert found.shape == (3, N_HEADS, 9, 9)
        assert found.dtype == torch.float32
        assert apart(found, expected, batch.valid) <= 1e-5
        assert apart(found.sum(3), torch.ones(3, N_HEADS, 9), batch.valid) <= 1e-6
        # The test is worth something: heads are unlike each other and far from uniform.
        assert float((found[0, 0] - found[0, 1]).abs().max()) > 0.01
    assert max(float(found[0].max()) for found in maps) > 0.4


@EVERY_KIND
def test_padded_equals_alone(kind):
    model = encoder(kind)
    batch = batch_of(model)
    together = recorded(model, batch)
    for row, length in enumerate(LENGTHS):
        alone = sentence_of(batch, row)
        own, _ = own_attention(model, alone)
        for padded, single, expected in zip(together, recorded(model, alone), own, strict=True):
            assert apart(single, expected, alone.valid) <= 1e-5
            assert apart(padded[row : row + 1, :, :length, :length], single, alone.valid) <= 1e-5
            assert not padded[row, :, :length, length:].any()


@EVERY_KIND
def test_output_without_the_stop_equals_eager(kind):
    model = encoder(kind)
    batch = batch_of(model)
    listener = Listener()
    with torch.no_grad(), watched_by(listener, model.model):
        output = model.model(**inputs(model, batch)).last_hidden_state
    _, expected = own_attention(model, batch)
    assert len(listener.called) == model.n_layers
    assert float((output - expected)[batch.valid].abs().max()) <= 1e-5


@EVERY_KIND
@pytest.mark.parametrize("n_rows", [1, 2, 4])
def test_blocks_of_rows_are_the_same_rows(kind, n_rows, monkeypatch):
    model = encoder(kind)
    batch = batch_of(model)
    whole, keep, rows = recorded(model, batch), KeepMaps(), Rows()
    monkeypatch.setattr(observation, "BLOCK_BYTES", n_rows * 4 * 3 * N_HEADS * 9 + 3)
    with observe(model, [rows, keep]) as seen:
        seen.forward(batch)
    starts = [start for layer, start, _ in rows.seen if layer == 0]
    assert starts == list(range(0, 9, n_rows))
    for layer, expected in enumerate(whole):
        assert float((rows.map_of(layer) - expected).abs().max()) <= 1e-6
        assert torch.equal(keep.maps[layer], rows.map_of(layer))


def test_a_block_is_never_less_than_a_row(monkeypatch):
    model = encoder()
    rows = Rows()
    monkeypatch.setattr(observation, "BLOCK_BYTES", 1)
    with observe(model, [rows]) as seen:
        seen.forward(batch_of(model))
    assert [start for layer, start, _ in rows.seen if layer == 1] == list(range(9))


def test_every_layer_reports_its_own_attention_under_its_own_number():
    model = encoder("albert of groups")  # modules are called again: numbers tell calls apart
    own, _ = own_attention(model, batch := batch_of(model))
    rows = Rows()
    with observe(model, [rows]) as seen:
        seen.forward(batch)
    assert [layer for layer, _, _ in rows.seen] == list(range(8))
    for layer in range(8):
        distances = [apart(rows.map_of(layer), other, batch.valid) for other in own]
        assert distances.index(min(distances)) == layer
        assert sorted(distances)[1] > 1e-3


def test_padding_would_be_attended_to_without_the_mask_builder(monkeypatch):
    assert AttentionInterface()[hook.NAME] is observed_attention
    assert hook.NAME in AttentionMaskInterface()
    model = encoder()
    batch = batch_of(model)
    calibrate(model)
    masks = {name: AttentionMaskInterface()[name] for name in AttentionMaskInterface()}
    masks.pop(hook.NAME)
    monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", masks)
    naked = recorded(model, batch)
    assert float(naked[0][1, :, :5, 5:].sum(2).max()) > 0.2
    monkeypatch.undo()
    assert float(recorded(model, batch)[0][1, :, :5, 5:].abs().max()) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_half_precision_gives_float32_rows_that_sum_to_one(kind, dtype):
    model = encoder(kind, dtype=dtype)
    batch = batch_of(model)
    own, _ = own_attention(model, batch)
    for found, expected in zip(recorded(model, batch), own, strict=True):
        assert found.dtype == torch.float32
        assert apart(found.sum(3), torch.ones(3, N_HEADS, 9), batch.valid) <= 1e-6
        assert apart(found, expected.float(), batch.valid) <= 4e-2


def test_float64_models_give_float64_maps():
    model = encoder(dtype=torch.float64)
    batch = batch_of(model)
    own, _ = own_attention(model, batch)
    for found, expected in zip(recorded(model, batch), own, strict=True):
        assert found.dtype == torch.float64
        assert apart(found, expected, batch.valid) <= 1e-14


@pytest.mark.parametrize("n_keys", [4, 2, 1])
def test_grouped_keys_serve_their_query_heads(n_keys):
    # Query head h uses key head h // (H // H_kv) (grouped-query attention).
    drawn = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 5, HEAD_SIZE, generator=drawn)
    key, value = torch.randn(2, 2, n_keys, 5, HEAD_SIZE, generator=drawn)
    out, nothing = observed_attention(nn.Identity(), query, key, value, None)
    assert nothing is None
    assert out.shape == (2, 5, 4, HEAD_SIZE)
    for head in range(4):
        of = head // (4 // n_keys)
        probs = (query[:, head] @ key[:, of].transpose(1, 2) / HEAD_SIZE**0.5).softmax(-1)
        assert torch.allclose(out[:, :, head], probs @ value[:, of], atol=1e-6)


class InBlocks:
    """Looks at every call, in blocks of 2 of 5 rows."""

    def arrive(self, module, mask):
        model = encoder()
        batch = batch_of(model, (5,))
        return Site(Observation(model, []), batch, 0, mask, last=False)


@pytest.mark.parametrize("watcher", [None, InBlocks()], ids=["whole", "in blocks"])
def test_terms_of_families_come_in_their_order(watcher, monkeypatch):
    # q k^T x scaling, soft cap, position bias, mask; masks with one row serve all rows.
    drawn = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 5, HEAD_SIZE, generator=drawn)
    bias = torch.randn(1, 2, 5, 5, generator=drawn)
    visible = torch.tensor([True, True, False, True, False]).view(1, 1, 1, 5)
    added = torch.zeros(1, 1, 1, 5).masked_fill(~visible, torch.finfo(torch.float32).min)
    scores = 3.0 * torch.tanh(query @ key.transpose(2, 3) * 0.7 / 3.0) + bias
    expected = scores.masked_fill(~visible, -torch.inf).softmax(-1) @ value
    monkeypatch.setattr(observation, "BLOCK_BYTES", 2 * 4 * 2 * 5)
    for mask in (visible, added, visible.expand(1, 1, 5, 5), added.expand(1, 1, 5, 5)):
        with watched_by(watcher, encoder().model):
            out, _ = observed_attention(
                nn.Identity(), query, key, value, mask, 0.7, softcap=3.0, position_bias=bias
            )
        assert torch.allclose(out, expected.transpose(1, 2), atol=1e-6)


def test_plain_attention_in_training_has_dropout_and_gradients():
    query, key, value = torch.randn(3, 1, 2, 5, HEAD_SIZE, requires_grad=True)
    module = nn.Identity().train()
    out, _ = observed_attention(module, query, key, value, None, dropout=0.5)
    again, _ = observed_attention(module, query, key, value, None, dropout=0.5)
    assert not torch.equal(out, again)
    quiet = [
        observed_attention(module.eval(), query, key, value, None, dropout=0.5)[0] for _ in range(2)
    ]
    assert torch.equal(*quiet)
    assert torch.autograd.gradcheck(
        lambda q: observed_attention(module, q, key.double(), value.double(), None)[0],
        query.detach().double().requires_grad_(),
    )


@pytest.mark.parametrize("kind", CAUSAL)
def test_decoders_are_run_without_a_cache(kind):
    model = encoder(kind)
    given = inputs(model, batch_of(model))
    assert given["use_cache"] is False
    with torch.no_grad():
        assert model.model(**given).past_key_values is None


def test_encoders_are_given_no_cache_and_segments_only_where_they_have_them():
    bert, roberta = encoder("bert"), encoder("roberta")
    assert torch.equal(inputs(bert, batch := batch_of(bert))["token_type_ids"], batch.type_ids)
    given = inputs(roberta, batch_of(roberta))
    assert "token_type_ids" not in given


@pytest.mark.parametrize("flag", ["return_dict", "output_attentions", "output_hidden_states"])
@pytest.mark.parametrize("kind", ["bert", "distilbert", "gpt2", "albert"])
def test_output_settings_of_a_checkpoint_change_nothing(kind, flag):
    model = encoder(kind)
    expected = recorded(model, batch_of(model))
    other = encoder(kind, **{flag: flag != "return_dict"})
    found = recorded(other, batch_of(other))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_only_models_of_the_library_can_be_observed():
    message = "Linear is no model of the transformers library"
    with pytest.raises(ModelError, match=message), attention_set_to(nn.Linear(2, 2), hook.NAME):
        pass
