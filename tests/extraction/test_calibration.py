"""What is observed is compared with the model's own attention first, and refused by name."""

import re

import pytest
import torch
from transformers import AttentionInterface, BertModel
from transformers.models.bert import modeling_bert
from transformers.models.bert.modeling_bert import BertSelfAttention

from headscope.errors import ModelError
from headscope.extraction import calibration, hook
from headscope.extraction.calibration import TOLERANCE, KeepMaps, calibrate, observe
from headscope.extraction.loading import untrained
from headscope.extraction.observers import Block
from headscope.extraction.own_maps import own_output
from tests.extraction import zoo
from tests.extraction.zoo import Kind
from tests.models import CAUSAL, KINDS, N_HEADS, batch_of, encoder, uncalibrated


def refused(model, match):
    """Refused by name in one line, with nothing fixed."""
    with pytest.raises(ModelError, match=match) as caught:
        calibrate(model)
    assert str(caught.value).startswith(f"{model.info.name}: ")
    assert "\n" not in str(caught.value)
    assert (model.route, model.sites, model.notes) == (None, (), ())


def falls_back(model, match):
    """Its own maps are read, and the reason is told."""
    calibrate(model)
    assert (model.route, model.sites) == ("maps", ())
    (note,) = model.notes
    assert re.search(f"^its attention is read from its own maps, for .*{match}", note)


@pytest.mark.parametrize("kind", KINDS)
def test_sites_are_the_attention_modules_in_the_order_of_calling(kind):
    model = encoder(kind)
    calibrate(model)
    assert len(model.sites) == model.n_layers
    names = {module: name for name, module in model.model.named_modules()}
    called = [names[site.module] for site in model.sites]
    n_modules = {"albert": 1, "albert of groups": 4}.get(kind, 3)
    assert len(set(called)) == n_modules
    if n_modules == 3:
        assert called == sorted(called)
    assert model.notes == ()


def test_albert_of_groups_calls_each_module_in_turn():
    model = encoder("albert of groups")
    calibrate(model)
    modules = [site.module for site in model.sites]
    order = [modules.index(module) for module in modules]
    assert order == [0, 1, 0, 1, 4, 5, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_causal_models_are_found_by_their_maps(kind):
    model = encoder(kind)
    calibrate(model)
    assert model.causal == (kind in CAUSAL)
    assert model.info.attention == ("decoder" if kind in CAUSAL else "encoder")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_every_data_type_passes(kind, dtype):
    model = encoder(kind, dtype=dtype)
    calibrate(model)
    assert len(model.sites) == 3


def test_calibration_is_done_once(monkeypatch):
    model = encoder()
    with observe(model, []):
        pass
    sites, calls = model.sites, []
    monkeypatch.setattr(calibration, "calibrate", calls.append)
    with observe(model, []) as seen:
        seen.forward(batch_of(model))
    assert calls == []
    assert model.sites is sites


@pytest.mark.parametrize("max_length", [1, 2, 4])
def test_models_of_few_positions_pass(max_length):
    model = uncalibrated(max_position_embeddings=max_length)
    model.max_length = max_length
    calibrate(model)
    assert model.notes == ()
    assert not model.causal


def test_numbers_of_layers_and_heads_are_those_of_the_maps():
    model = uncalibrated("albert of groups")
    assert (model.n_layers, model.n_heads) == (0, 0)
    calibrate(model)
    assert (model.n_layers, model.n_heads) == (8, N_HEADS)


def test_layers_without_a_map_are_not_taken_for_others(monkeypatch):
    model = uncalibrated()
    forward = BertSelfAttention.forward

    def silent(self, *args, **kwargs):
        out, probs = forward(self, *args, **kwargs)
        return out, probs if self.layer_idx != 1 else None

    monkeypatch.setattr(BertSelfAttention, "forward", silent)
    calibrate(model)
    assert (model.route, model.n_layers) == ("maps", 2)


def test_a_model_without_any_map_is_refused(monkeypatch):
    forward = BertSelfAttention.forward
    monkeypatch.setattr(
        BertSelfAttention, "forward", lambda *args, **terms: (forward(*args, **terms)[0], None)
    )
    refused(uncalibrated(), "family 'bert' give no attention probabilities .3 calls of the attent")


def test_layers_that_call_no_registered_function_give_their_own_maps(monkeypatch):
    model = uncalibrated()
    monkeypatch.setattr(
        modeling_bert.ALL_ATTENTION_FUNCTIONS,
        "get_interface",
        lambda name, default: default,
        raising=False,
    )
    without_another_attention(monkeypatch)
    calibrate(model)
    assert (model.route, model.notes) == ("maps", ())


def test_layers_with_fewer_heads_are_refused():
    model = uncalibrated()
    pruned = model.model.encoder.layer[2].attention
    size = pruned.self.attention_head_size
    for name in ("query", "key", "value"):
        linear = getattr(pruned.self, name)
        linear.weight = torch.nn.Parameter(linear.weight[:size])
        linear.bias = torch.nn.Parameter(linear.bias[:size])
    pruned.output.dense.weight = torch.nn.Parameter(pruned.output.dense.weight[:, :size])
    refused(
        model, r"its maps have the shapes \[\(2, 1, 7, 7\), \(2, 4, 7, 7\)\] for 7 queries and 7"
    )


def without_another_attention(monkeypatch):
    """BERT as a family would be that has eager attention alone."""
    monkeypatch.setattr(BertModel, "_supports_sdpa", False)


class Biased:
    """Eager attention with a term that only it knows; the size of its effect is chosen."""

    def __init__(self, size, eager):
        self.size, self.eager = size, eager

    def __call__(self, module, query, key, value, mask, **terms):
        length = query.shape[2]
        term = self.size * torch.arange(length, dtype=query.dtype).expand(1, 1, length, length)
        return self.eager(module, query, key, value, term if mask is None else mask + term, **terms)


def with_a_term(monkeypatch, size):
    eager = modeling_bert.eager_attention_forward
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", Biased(size, eager))


def test_an_unknown_term_is_told_with_the_size_of_the_difference(monkeypatch):
    model = uncalibrated()
    with_a_term(monkeypatch, 1.0)
    refused(
        model, r"observed attention differs .* 1e-04; the library's eager .* from its default by"
    )
    without_another_attention(monkeypatch)
    falls_back(
        model,
        r"observed attention differs from the model's own by [1-9]\.\de-01 \(output: \d\.\de[+-]\d"
        r"\d\), expected at most 1e-04",
    )


@pytest.mark.parametrize(("size", "passes"), [(1e-6, True), (3e-3, False)])
def test_rounding_passes_and_more_does_not(monkeypatch, size, passes):
    model = uncalibrated()
    with_a_term(monkeypatch, size)
    without_another_attention(monkeypatch)
    if passes:
        calibrate(model)
        assert model.route == "function"
    else:
        falls_back(model, r"by \d\.\de-0[34] ")


def test_maps_whose_rows_are_no_distributions_are_refused(monkeypatch):
    model = uncalibrated()
    forward, eager = BertSelfAttention.forward, modeling_bert.eager_attention_forward

    def with_sinks(self, hidden_states, attention_mask=None, **kwargs):
        return forward(self, hidden_states, attention_mask, s_aux=torch.ones(N_HEADS), **kwargs)

    def eager_with_sinks(module, query, key, value, mask, s_aux, **terms):
        out, probs = eager(module, query, key, value, mask, **terms)
        return out * 0.7, probs * 0.7

    monkeypatch.setattr(BertSelfAttention, "forward", with_sinks)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", eager_with_sinks)
    without_another_attention(monkeypatch)
    refused(model, "layer 0, head 0, row 0: attention sums to 0.*, expected 1")


def test_an_output_that_differs_behind_equal_maps_is_found(monkeypatch):
    model = uncalibrated()
    eager = modeling_bert.eager_attention_forward

    def scaled(module, query, key, value, *rest, **terms):
        return eager(module, query, key, value * 1.5, *rest, **terms)

    for layer in model.model.encoder.layer[:2]:  # only the last layer's values reach no map
        torch.nn.init.zeros_(layer.attention.output.dense.weight)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", scaled)
    without_another_attention(monkeypatch)
    falls_back(model, r"by 0\.0e\+00 \(output: \d\.\de-0\d\)")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_layer_of_nan_is_refused_whichever_it_is(monkeypatch, layer):
    model = uncalibrated()
    eager = modeling_bert.eager_attention_forward

    def spoiled(module, *args, **terms):
        out, probs = eager(module, *args, **terms)
        return out, probs * torch.nan if module.layer_idx == layer else probs

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", spoiled)
    refused(model, f"layer {layer}, head 0, row 0: attention sums to nan, expected 1")


def test_weights_that_are_not_finite_are_refused():
    model = uncalibrated()
    with torch.no_grad():
        model.model.encoder.layer[1].attention.self.key.bias[3] = torch.nan
    refused(model, "sentence calibration, layer 1, head 0, row 0: attention sums to nan")


def test_a_function_that_ignores_the_mask_is_not_used(monkeypatch):
    def blind(module, query, key, value, mask, *rest, **terms):
        return hook.observed_attention(module, query, key, value, None, *rest, **terms)

    for kind in ("bert", "gpt2"):
        model = uncalibrated(kind)
        with monkeypatch.context() as patched:
            functions = {name: AttentionInterface()[name] for name in AttentionInterface()}
            patched.setattr(AttentionInterface, "_global_mapping", {**functions, hook.NAME: blind})
            falls_back(model, "differs from the model's own by")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_layers_without_keys_are_uniform_and_told(kind):
    model = encoder(kind)
    calibrate(model)
    for site in (model.sites[0], model.sites[2]):
        with torch.no_grad():
            if kind == "bert":
                site.module.key.weight.zero_()
            else:  # query, key and value side by side
                width = site.module.c_attn.weight.shape[0]
                site.module.c_attn.weight[:, width : 2 * width] = 0
    calibrate(model)
    assert model.notes == (
        "every head of layer 0, 2 attends exactly uniformly: "
        "are the weights of this checkpoint complete?",
    )
    assert model.causal == (kind == "gpt2")


def test_one_uniform_head_is_no_reason_for_a_note():
    model = encoder()
    with torch.no_grad():
        model.model.encoder.layer[1].attention.self.key.weight[:6] = 0
    calibrate(model)
    assert model.notes == ()


def test_random_weights_as_the_library_draws_them_are_not_taken_for_uniform():
    model = untrained(encoder(), seed=0)
    calibrate(model)
    assert model.notes == ()


def test_maps_of_a_batch_are_kept_when_it_is_closed():
    keep, batch = KeepMaps(), None
    for layer in range(2):
        keep.update(Block(layer, 0, torch.full((1, 1, 1, 1), float(layer)), batch, batch))
    assert keep.maps == []
    keep.update(
        Block(0, 0, torch.ones(1, 1, 1, 1), batch, batch)
    )  # the pass failed and is tried again
    keep.close(batch)
    assert [float(m) for m in keep.maps] == [1.0]
    both = keep + KeepMaps(maps=[torch.zeros(1)])
    assert [float(m) for m in both.maps] == [1.0, 0.0]
    assert len(keep.maps) == 1


GRANITE = Kind("Granite", "granite_swa", zoo._GROUPED | {"sliding_window": 4})


def test_sinks_that_a_models_own_maps_leave_out_are_seen():
    encoder = zoo.encoder_of(GRANITE, "encoder")
    assert (encoder.route, encoder.has_sinks, encoder.notes) == ("function", True, ())
    batch = batch_of(encoder, (9, 5))
    keep = KeepMaps()
    with observe(encoder, [keep]) as seen:
        seen.forward(batch)
    own = own_output(encoder, batch).attentions
    for found, expected in zip(keep.maps, own, strict=True):
        real = batch.valid.unsqueeze(1).expand(-1, 4, -1)
        totals = found.sum(3)
        assert 0.2 < float(totals[real].mean()) < 0.95
        assert torch.allclose((found / totals.unsqueeze(3))[real], expected[real], atol=1e-5)


def test_sinks_without_an_observed_function_are_refused(monkeypatch):
    monkeypatch.setattr(calibration, "_call_roll", lambda *_: ([], torch.empty(0), "none"))
    with pytest.raises(ModelError, match="sinks, and its own maps leave them out"):
        zoo.encoder_of(GRANITE, "encoder")


def test_cross_attention_by_any_name_of_its_module_is_told_apart():
    names = {"cross_attention", "cross_attn", "crossattention", "encoder_attn", "EncDecAttention"}
    assert {calibration._kind(f"decoder.layers.0.{name}") for name in names} == {"cross"}
    assert calibration._kind("decoder.layers.0.self_attn") == "decoder"


def test_layers_turned_by_the_longest_of_a_batch_have_batches_of_equal_lengths():
    factors = {"short_factor": [1.0] * 3, "long_factor": [4.0, 9.0, 20.0], "factor": 8.0}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 8}
    size = zoo._GROUPED | {"max_position_embeddings": 64, "rope_parameters": rope | factors}
    phi = zoo.encoder_of(Kind("Phi-3", "phi3", size), "encoder")
    assert phi.equal_lengths
    assert not zoo.encoder_of(Kind("Llama", "llama", zoo._GROUPED), "encoder").equal_lengths
