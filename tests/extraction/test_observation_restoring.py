"""A model under observation is left as it was found, and nothing else is touched meanwhile."""

import contextlib

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, EncoderDecoderConfig, EncoderDecoderModel

from headscope.extraction import hook
from headscope.extraction.calibration import KeepMaps, calibrate, observe
from headscope.extraction.hook import attention_set_to, inputs, watched_by
from headscope.extraction.observers import Resampling
from headscope.probing.dependency import Dependency
from headscope.probing.surface import Surface
from tests.models import (
    KINDS,
    batch_of,
    encoder,
    encoder_for,
    own_attention,
    spread,
    uncalibrated,
)

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
FAILURES = [ValueError("x"), KeyboardInterrupt()]
EVERY_FAILURE = pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)


def state(model):
    """All that an observation changes for a while."""
    modes = [module.training for module in model.modules()]
    configs = [m.config._attn_implementation for m in model.modules() if hasattr(m, "config")]
    return modes, configs


def output(encoder, batch):
    with torch.no_grad():
        return encoder.model(**inputs(encoder, batch)).last_hidden_state


class Failing:
    """Fails in the middle of a pass, or when the batch is to be added."""

    needs = "rows"

    def __init__(self, failure, layer=1):
        self.failure, self.layer = failure, layer

    def update(self, block):
        if block.layer == self.layer:
            raise self.failure

    def close(self, batch):
        if self.layer is None:
            raise self.failure


@EVERY_KIND
def test_the_stop_skips_the_rest_and_leaves_no_trace(kind):
    model = encoder(kind)
    batch = batch_of(model)
    before, called = output(model, batch), []
    calibrate(model)
    for name, module in model.model.named_modules():
        if isinstance(module, nn.Linear | nn.LayerNorm) or type(module).__name__ == "Conv1D":
            module.register_forward_hook(lambda *_, name=name: called.append(name))
    output(model, batch)
    whole, called[:] = list(called), []
    with observe(model, [KeepMaps()]) as seen:
        seen.forward(batch)
    assert called == whole[: len(called)]
    assert 0 < len(whole) - len(called) <= 6
    for _ in range(2):
        assert torch.equal(output(model, batch), before)
    assert torch.is_grad_enabled()


def test_the_last_feed_forward_is_not_run():
    model = encoder()
    calibrate(model)
    n_calls = [0, 0, 0]
    for index, layer in enumerate(model.model.encoder.layer):

        def count(*_, index=index):
            n_calls[index] += 1

        layer.intermediate.register_forward_hook(count)
    with observe(model, []) as seen:
        seen.forward(batch_of(model))
        seen.forward(batch_of(model))
    assert n_calls == [2, 2, 0]


@pytest.mark.parametrize("mode", [True, False])
@EVERY_KIND
def test_everything_is_as_before_on_the_way_out(kind, mode):
    model = encoder(kind)
    batch = batch_of(model)
    expected = output(model, batch)
    model.model.train(mode)
    list(model.model.modules())[3].training = not mode  # a part that differs stays different
    before = state(model.model)
    with observe(model, [KeepMaps()]) as seen:
        assert model.model.config._attn_implementation == hook.NAME
        assert not any(module.training for module in model.model.modules())
        seen.forward(batch)
        assert model.model.config._attn_implementation == hook.NAME
    assert state(model.model) == before
    model.model.eval()
    assert torch.equal(output(model, batch), expected)


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_the_function_that_was_chosen_is_chosen_again(name):
    model = encoder()
    model.model.set_attn_implementation(name)
    with observe(model, []) as seen:
        seen.forward(batch_of(model))
    assert model.model.config._attn_implementation == name


def test_maps_of_a_model_in_training_are_not_dropped_out():
    model = encoder(attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.5)
    batch = batch_of(model)
    own, _ = own_attention(model, batch)
    model.model.train()
    keep = KeepMaps()
    with observe(model, [keep]) as seen:
        seen.forward(batch)
    assert model.model.training
    for found, expected in zip(keep.maps, own, strict=True):
        rows = batch.valid.unsqueeze(1).expand(found.shape[:3])
        assert float((found - expected)[rows].abs().max()) <= 1e-5


@EVERY_FAILURE
def test_restored_after_a_failure_in_the_block(failure):
    model = encoder()
    model.model.train()
    before = state(model.model)
    with pytest.raises(type(failure)), observe(model, []):
        raise failure
    assert state(model.model) == before
    assert hook._running.get() is None


@EVERY_FAILURE
@pytest.mark.parametrize("layer", [0, 1, 2, None])
def test_restored_after_a_failure_in_an_observer(failure, layer):
    model = encoder()
    batch = batch_of(model)
    before, expected = state(model.model), output(model, batch)
    with pytest.raises(type(failure)), observe(model, [Failing(failure, layer)]) as seen:
        seen.forward(batch)
    assert state(model.model) == before
    assert hook._running.get() is None
    assert torch.is_grad_enabled()
    assert torch.equal(output(model, batch), expected)


@EVERY_FAILURE
def test_restored_after_a_failure_of_calibration_which_is_then_done_again(failure, monkeypatch):
    model = uncalibrated()
    before = state(model.model)

    def fail(*_):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr("headscope.extraction.calibration._compare", fail)
        with pytest.raises(type(failure)), observe(model, []):
            pass
    assert state(model.model) == before
    assert model.sites == ()
    with observe(model, []):
        assert len(model.sites) == 3


def seq2seq():
    """An encoder and a decoder with a config of each, inside a model with a third."""
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9}
    config = EncoderDecoderConfig.from_encoder_decoder_configs(
        BertConfig(**size, intermediate_size=8), BertConfig(**size, intermediate_size=8)
    )
    model = EncoderDecoderModel(config)
    model.encoder.set_attn_implementation("eager")
    model.decoder.set_attn_implementation("sdpa")
    return model


@pytest.mark.parametrize("failure", [None, *FAILURES], ids=str)
def test_parts_that_differ_get_back_each_its_own(failure):
    model = seq2seq()
    model.decoder.train()
    model.encoder.eval()
    before = state(model)
    expected = contextlib.nullcontext() if failure is None else pytest.raises(type(failure))
    with expected, attention_set_to(model, hook.NAME):
        assert set(state(model)[1]) == {hook.NAME}
        if failure is not None:
            raise failure
    assert state(model) == before
    assert {"eager", "sdpa"} <= set(before[1])


def test_models_that_are_only_wrapped_together_are_all_switched():
    both = nn.Sequential(encoder("bert").model, encoder("gpt2").model)
    with attention_set_to(both, "eager"):
        assert [part.config._attn_implementation for part in both] == ["eager", "eager"]
    assert [part.config._attn_implementation for part in both] == ["sdpa", "sdpa"]


def test_an_unknown_function_leaves_everything_as_it_was():
    model = encoder().model.train()
    before = state(model)
    with pytest.raises(ValueError, match="nowhere"), attention_set_to(model, "nowhere"):
        pass
    assert state(model) == before


def test_another_model_on_the_same_config_object_is_not_observed():
    model = encoder()
    other = spread(AutoModel.from_config(model.model.config), seed=1)
    twin = encoder_for(other, "bert", "twin")
    twin.model.config = model.model.config
    assert twin.model.config is model.model.config
    batch = batch_of(model)
    expected = output(twin, batch)

    class CallsTwin(KeepMaps):
        def update(self, block):
            super().update(block)
            found = output(twin, batch)
            assert float((found - expected)[batch.valid].abs().max()) <= 1e-5

    keep, plain = CallsTwin(), KeepMaps()
    with observe(model, [keep, plain]) as seen:
        output(twin, batch)
        seen.forward(batch)
        output(twin, batch)
    own, _ = own_attention(model, batch)
    assert len(keep.maps) == len(own) == len(plain.maps)
    assert all(
        float((found - right)[batch.valid.unsqueeze(1).expand(found.shape[:3])].abs().max()) <= 1e-5
        for found, right in zip(keep.maps, own, strict=True)
    )


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_calls_outside_a_pass_are_plain_attention(kind):
    model = encoder(kind)
    batch = batch_of(model)
    _, expected = own_attention(model, batch)
    keep = KeepMaps()
    with observe(model, [keep]) as seen:
        for _ in range(2):
            found = output(model, batch)
            assert float((found - expected)[batch.valid].abs().max()) <= 1e-5
        assert keep.maps == []
        seen.forward(batch)
        output(model, batch)
        assert len(keep.maps) == model.n_layers
        with watched_by(seen, model.model):  # also for whoever listens by hand
            found = output(model, batch)
        assert float((found - expected)[batch.valid].abs().max()) <= 1e-5
        assert len(keep.maps) == model.n_layers


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_what_an_observer_runs_itself_is_plain_attention(kind):
    model = encoder(kind)
    batch = batch_of(model)
    _, expected = own_attention(model, batch)

    class RunsTheModel(KeepMaps):
        def update(self, block):
            found = output(model, batch)
            assert float((found - expected)[batch.valid].abs().max()) <= 1e-5
            super().update(block)

    keep = RunsTheModel()
    with observe(model, [keep]) as seen:
        seen.forward(batch)
    own, _ = own_attention(model, batch)
    assert [len(keep.maps), len(own)] == [3, 3]
    for found, right in zip(keep.maps, own, strict=True):
        assert torch.allclose(found[0], right[0], atol=1e-5)


def test_two_models_observed_at_once_keep_their_attention_apart():
    first, second = encoder("bert"), encoder("gpt2")
    one, two = batch_of(first), batch_of(second)
    mine, yours = KeepMaps(), KeepMaps()
    with observe(first, [mine]) as seen, observe(second, [yours]) as also_seen:
        seen.forward(one)
        also_seen.forward(two)
        seen.forward(one)
    assert len(mine.maps) == 6
    assert all(torch.equal(mine.maps[i], mine.maps[i + 3]) for i in range(3))
    for found, right in zip(yours.maps, own_attention(second, two)[0], strict=True):
        assert torch.allclose(found[0], right[0], atol=1e-5)


def test_one_model_observed_twice_reports_to_whoever_runs_it():
    model = encoder()
    model.model.train()
    before, batch = state(model.model), batch_of(model)
    outer, inner = KeepMaps(), KeepMaps()
    with observe(model, [outer]) as seen:
        with observe(model, [inner]) as also_seen:
            also_seen.forward(batch)
            seen.forward(batch)
        assert model.model.config._attn_implementation == hook.NAME
        seen.forward(batch)
    assert state(model.model) == before
    assert (len(inner.maps), len(outer.maps)) == (3, 6)


def test_watchers_hear_of_every_call_inside_the_block_only():
    model = encoder()
    calls = []

    class Watcher:
        def arrive(self, module, mask):
            calls.append(module)

    with watched_by(Watcher(), model.model):
        output(model, batch_of(model))
        assert len(calls) == 3
    output(model, batch_of(model))
    assert len(calls) == 3


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_batch_whose_pass_failed_is_in_no_sums_even_when_tried_again(layer):
    model = encoder()
    resampling = Resampling(0, "ab" * 32)
    one, two = batch_of(model, seed=1), batch_of(model, seed=2)

    def observers():
        return [Surface(model, resampling), Dependency(model, resampling), KeepMaps()]

    flaky = Failing(KeyboardInterrupt(), layer)
    tried = observers()
    with observe(model, [*tried[:2], flaky, tried[2]]) as seen:
        with pytest.raises(KeyboardInterrupt):
            seen.forward(one)
        flaky.layer = -1  # whatever it was is over: the same batch again, then another
        seen.forward(one)
        flaky.layer = layer
        with pytest.raises(KeyboardInterrupt):
            seen.forward(two)
    once = observers()
    with observe(model, once) as seen:
        seen.forward(one)
    assert (tried[0].sums == once[0].sums).all()
    assert (tried[0].counts == once[0].counts).all()
    assert tried[1].totals()[0].keys() == {"dep"}
    assert (tried[1].totals()[0]["dep"] == once[1].totals()[0]["dep"]).all()
    assert len(tried[2].maps) == 3
    assert all(torch.equal(*pair) for pair in zip(tried[2].maps, once[2].maps, strict=True))


def test_kept_maps_can_be_added_and_copied():
    one, two = KeepMaps(maps=[torch.ones(1)]), KeepMaps(maps=[torch.zeros(1)])
    both = one + two
    assert [float(m) for m in both.maps] == [1.0, 0.0]
    assert len(one.maps) == len(two.maps) == 1
