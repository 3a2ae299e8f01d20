"""What a model's own maps mean: windows unfolded, scores made probabilities, pooled layers."""

import copy

import pytest
import torch

from headscope.errors import ModelError
from headscope.extraction.calibration import KeepMaps, observe
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.own_maps import ADAPTERS, n_own_maps, own_output, reach_of
from tests.extraction import zoo
from tests.extraction.zoo import KINDS, Kind, encoder_of
from tests.models import batch_of

BY_FAMILY = {kind.family: kind for kind in KINDS}


def recorded(encoder, batch):
    keep = KeepMaps()
    with observe(encoder, [keep]) as seen:
        seen.forward(batch)
    return keep.maps


@pytest.mark.parametrize("family", ["longformer", "led"])
def test_windows_are_unfolded_cell_by_cell(family):
    encoder = encoder_of(BY_FAMILY[family], "encoder")
    batch = batch_of(encoder, (9, 5))
    maps, output = recorded(encoder, batch), own_output(encoder, batch)
    for layer, windows in enumerate(output.attentions):
        half = windows.shape[3] // 2
        for sentence, length in enumerate((9, 5)):
            for i in range(length):
                for j in range(9):
                    expected = windows[sentence, :, i, j - i + half] if abs(i - j) <= half else 0.0
                    found = maps[layer][sentence, :, i, j]
                    assert torch.equal(found, torch.zeros(4) + expected)


def test_c008_a_token_of_longformer_finds_itself_in_the_middle_of_its_window():
    windows = torch.zeros(1, 1, 8, 5)
    windows[..., 2] = 1.0  # window 4: column 2 is the token itself
    (found,) = ADAPTERS["longformer", "encoder"]([windows])
    assert torch.equal(found[0, 0], torch.eye(8))
    assert found.shape == (1, 1, 8, 8)


def test_unfolded_windows_give_the_layers_output():
    """Attention times values is what the attention layer hands on."""
    encoder = encoder_of(BY_FAMILY["longformer"], "encoder")
    batch, kept = batch_of(encoder, (9,)), {}
    module = encoder.model.encoder.layer[1].attention.self
    values = module.value.register_forward_hook(lambda _m, _i, out: kept.update(values=out))
    context = module.register_forward_hook(lambda _m, _i, out: kept.update(context=out[0]))
    maps = recorded(encoder, batch)
    values.remove(), context.remove()
    found = maps[1][0] @ kept["values"].view(-1, 4, 6).transpose(0, 1)[:, :9]
    expected = kept["context"][0, :9].view(9, 4, 6).transpose(0, 1)
    assert torch.allclose(found, expected, atol=1e-5)


def test_squeezebert_gets_its_own_softmax():
    encoder = encoder_of(BY_FAMILY["squeezebert"], "encoder")
    batch, kept = batch_of(encoder, (9, 5)), []
    model = copy.deepcopy(encoder.model)
    for layer in model.encoder.layers:
        layer.attention.softmax.register_forward_hook(lambda _m, _i, out: kept.append(out))
    with torch.no_grad():
        model(input_ids=batch.input_ids, attention_mask=batch.valid.long())
    for found, expected in zip(recorded(encoder, batch), kept, strict=True):
        assert torch.allclose(found[0], expected[0], atol=1e-6)


def test_pooled_layers_of_funnel_are_not_shown():
    encoder = encoder_of(BY_FAMILY["funnel"], "encoder")

    class Layers:
        needs, seen = "rows", []

        def update(self, block):
            self.seen.append(block.layer)

        def close(self, batch):
            pass

    watcher = Layers()
    with observe(encoder, [watcher]) as seen:
        seen.forward(batch_of(encoder, (7,)))
    assert watcher.seen == [0, 1, 3, 4]


def test_reach_by_layer():
    local = encoder_of(BY_FAMILY["gpt_neo"], "encoder")
    assert [reach_of(local, layer) for layer in range(2)] == [None, 3]
    led = BY_FAMILY["led"]
    assert [reach_of(encoder_of(led, kind), 1) for kind in ("encoder", "cross")] == [2, None]


def test_layers_that_attend_locally_are_told_by_their_config():
    size = zoo._GROUPED | {"sliding_window": 4}
    encoder = encoder_of(Kind("Gemma 2", "gemma2", size | {"query_pre_attn_scalar": 7}), "encoder")
    assert [reach_of(encoder, layer) for layer in range(3)] == [3, None, 3]


def test_a_window_that_no_config_tells_is_refused():
    encoder = encoder_of(BY_FAMILY["gpt_neo"], "encoder")
    batch = batch_of(encoder, (13, 5))
    with observe(encoder, [KeepMaps()]) as seen:
        seen.forward(batch)
        encoder.config.attention_types = encoder.config.attention_layers = None
        seen.forward(batch_of(encoder, (8, 5)))  # few pairs are out of reach
        with pytest.raises(ModelError, match="layer 1 attends to no token more than 3 tokens away"):
            seen.forward(batch)


def test_states_of_a_model_that_is_read_from_its_own_maps_are_its_own():
    # Its mask hides padding from its own attention, but not from the observed function.
    encoder = encoder_of(Kind("MarkupLM", "markuplm", dict(zoo._BERT)), "encoder")
    assert encoder.route == "maps"
    batch, taken = batch_of(encoder, (9, 5)), []

    class Taker(KeepMaps):
        wants_states = True

        def take_states(self, batch, states):
            taken.extend(states)

    with observe(encoder, [Taker()]) as seen:
        seen.forward(batch)
    with torch.no_grad(), attention_set_to(encoder.model, "eager"):
        expected = encoder.model(**inputs(encoder, batch), output_hidden_states=True).hidden_states
    assert len(taken) == 4
    for found, right in zip(taken, expected, strict=True):
        assert torch.allclose(found[batch.valid], right[batch.valid], atol=1e-5)


def test_maps_of_all_kinds_are_counted():
    one = torch.ones(1)
    output = {"attentions": (one, None), "cross_attentions": (one, one), "logits": (one,)}
    assert n_own_maps({**output, "decoder_attentions": None}) == 3
