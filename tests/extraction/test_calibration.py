"""What is observed is compared with the model's own attention first, and refused by name."""

from dataclasses import replace

import pytest
import torch
from transformers import AttentionInterface
from transformers.models.bert import modeling_bert
from transformers.models.bert.modeling_bert import BertSelfAttention

from headscope.errors import ModelError
from headscope.extraction import calibration, hook
from headscope.extraction.calibration import TOLERANCE, KeepMaps, calibrate, observe
from headscope.extraction.encoder import untrained
from tests.models import CAUSAL, KINDS, N_HEADS, batch_of, encoder


def refused(model, match):
    """Refused by name in one line, with nothing fixed."""
    with pytest.raises(ModelError, match=match) as caught, observe(model, []):
        pass
    assert str(caught.value).startswith(f"{model.info.name}: ")
    assert "\n" not in str(caught.value)
    assert model.sites == ()
    assert model.notes == ()
    assert model.info.attention == "encoder"


@pytest.mark.parametrize("kind", KINDS)
def test_sites_are_the_attention_modules_in_the_order_of_calling(kind):
    model = encoder(kind)
    calibrate(model)
    assert len(model.sites) == model.n_layers
    names = {module: name for name, module in model.model.named_modules()}
    called = [names[site] for site in model.sites]
    n_modules = {"albert": 1, "albert of groups": 4}.get(kind, 3)
    assert len(set(called)) == n_modules
    if n_modules == 3:
        assert called == sorted(called)
    assert model.notes == ()


def test_albert_of_groups_calls_each_module_in_turn():
    model = encoder("albert of groups")
    calibrate(model)
    order = [model.sites.index(site) for site in model.sites]
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
    model = encoder(max_position_embeddings=max_length)
    model.max_length = max_length
    calibrate(model)
    assert model.notes == ()
    assert not model.causal


def test_another_number_of_calls_than_of_layers_is_refused():
    model = encoder()
    model.info = replace(model.info, n_layers=4)
    refused(model, "3 calls of the attention function, 3 maps of its own and 4 layers in its conf")


def test_another_number_of_maps_than_of_calls_is_refused(monkeypatch):
    model = encoder()
    forward = BertSelfAttention.forward

    def silent(self, *args, **kwargs):
        out, probs = forward(self, *args, **kwargs)
        return out, probs if self.layer_idx != 1 else None

    monkeypatch.setattr(BertSelfAttention, "forward", silent)
    refused(model, "3 calls of the attention function, 2 maps of its own and 3 layers in its conf")


def test_layers_that_call_no_registered_function_are_refused(monkeypatch):
    model = encoder()
    monkeypatch.setattr(
        modeling_bert.ALL_ATTENTION_FUNCTIONS,
        "get_interface",
        lambda name, default: default,
        raising=False,
    )
    refused(model, "0 calls of the attention function, 3 maps of its own and 3 layers in its conf")


def test_another_number_of_heads_is_refused():
    model = encoder()
    model.info = replace(model.info, n_heads=N_HEADS - 1)
    refused(model, "4 heads in its maps, 3 in its config; expected the same number in every layer")


def test_layers_with_fewer_heads_are_refused():
    model = encoder()
    pruned = model.model.encoder.layer[2].attention
    size = pruned.self.attention_head_size
    for name in ("query", "key", "value"):
        linear = getattr(pruned.self, name)
        linear.weight = torch.nn.Parameter(linear.weight[:size])
        linear.bias = torch.nn.Parameter(linear.bias[:size])
    pruned.output.dense.weight = torch.nn.Parameter(pruned.output.dense.weight[:, :size])
    refused(model, "1 or 4 heads in its maps, 4 in its config")


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


def test_an_unknown_term_is_refused_with_the_size_of_the_difference(monkeypatch):
    model = encoder()
    with_a_term(monkeypatch, 1.0)
    refused(
        model,
        r"observed attention differs from the model's own by [1-9]\.\de-01 \(output: \d\.\de[+-]\d"
        r"\d\), expected at most 1e-04; this family cannot be observed yet",
    )


@pytest.mark.parametrize(("size", "passes"), [(1e-6, True), (3e-3, False)])
def test_rounding_passes_and_more_does_not(monkeypatch, size, passes):
    model = encoder()
    with_a_term(monkeypatch, size)
    if passes:
        calibrate(model)
    else:
        refused(model, r"by \d\.\de-0[34] ")


def test_an_unknown_keyword_that_changes_the_result_is_refused(monkeypatch):
    model = encoder()
    forward, eager = BertSelfAttention.forward, modeling_bert.eager_attention_forward

    def with_sinks(self, hidden_states, attention_mask=None, **kwargs):
        return forward(self, hidden_states, attention_mask, s_aux=torch.ones(N_HEADS), **kwargs)

    def eager_with_sinks(module, query, key, value, mask, s_aux, **terms):
        out, probs = eager(module, query, key, value, mask, **terms)
        return out * 0.7, probs * 0.7

    monkeypatch.setattr(BertSelfAttention, "forward", with_sinks)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", eager_with_sinks)
    refused(model, "observed attention differs from the model's own by")


def test_an_output_that_differs_behind_equal_maps_is_refused(monkeypatch):
    model = encoder()
    eager = modeling_bert.eager_attention_forward

    def scaled(module, query, key, value, *rest, **terms):
        return eager(module, query, key, value * 1.5, *rest, **terms)

    for layer in model.model.encoder.layer[:2]:  # only the last layer's values reach no map
        torch.nn.init.zeros_(layer.attention.output.dense.weight)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", scaled)
    refused(model, r"by 0\.0e\+00 \(output: \d\.\de-0\d\)")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_layer_of_nan_is_refused_whichever_it_is(monkeypatch, layer):
    model = encoder()
    eager = modeling_bert.eager_attention_forward

    def spoiled(module, *args, **terms):
        out, probs = eager(module, *args, **terms)
        return out, probs * torch.nan if module.layer_idx == layer else probs

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", spoiled)
    refused(model, "differs from the model's own by nan")


def test_weights_that_are_not_finite_are_refused():
    model = encoder()
    with torch.no_grad():
        model.model.encoder.layer[1].attention.self.key.bias[3] = torch.nan
    refused(model, "sentence calibration, layer 1, head 0, row 0: attention sums to nan")


def test_a_function_that_ignores_the_mask_is_refused(monkeypatch):
    def blind(module, query, key, value, mask, *rest, **terms):
        return hook.observed_attention(module, query, key, value, None, *rest, **terms)

    for kind in ("bert", "gpt2"):
        model = encoder(kind)
        with monkeypatch.context() as patched:
            functions = {name: AttentionInterface()[name] for name in AttentionInterface()}
            patched.setattr(AttentionInterface, "_global_mapping", {**functions, hook.NAME: blind})
            refused(model, "differs from the model's own by")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_layers_without_keys_are_uniform_and_told(kind):
    model = encoder(kind)
    calibrate(model)
    for site in (model.sites[0], model.sites[2]):
        with torch.no_grad():
            if kind == "bert":
                site.key.weight.zero_()
            else:  # query, key and value side by side
                width = site.c_attn.weight.shape[0]
                site.c_attn.weight[:, width : 2 * width] = 0
    model.sites = ()
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
        keep.update(layer, 0, torch.full((1, 1, 1, 1), float(layer)), batch)
    assert keep.maps == []
    keep.update(0, 0, torch.ones(1, 1, 1, 1), batch)  # the pass failed and is tried again
    keep.close(batch)
    assert [float(m) for m in keep.maps] == [1.0]
    both = keep + KeepMaps(maps=[torch.zeros(1)])
    assert [float(m) for m in both.maps] == [1.0, 0.0]
    assert len(keep.maps) == 1
