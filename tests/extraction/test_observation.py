"""A pass under observation: what is refused, what stops it, and that nothing half-seen counts."""

import copy

import pytest
import torch

from headscope.errors import HeadscopeError, ModelError
from headscope.extraction.calibration import KeepMaps, calibrate, observe
from tests.extraction.watching import Rows, apart, recorded
from tests.models import batch_of, encoder


def test_long_sequences_are_refused_with_the_memory_that_maps_would_take():
    model = encoder()
    maps, rows = KeepMaps(), Rows()
    message = r"sentence s0, a sequence of 9 tokens: whole maps would take 0 MiB a layer, and are "
    with observe(model, [rows, maps], max_map_tokens=8) as seen:
        with pytest.raises(HeadscopeError, match=message):
            seen.forward(batch_of(model))
        assert rows.open == []
        seen.forward(batch_of(model, (8, 5)))
    assert len(maps.maps) == model.n_layers
    with observe(model, [rows], max_map_tokens=8) as seen:  # rows need no whole map
        seen.forward(batch_of(model))
    with observe(model, [], max_map_tokens=8) as seen:
        seen.forward(batch_of(model))


def test_the_memory_estimate_is_that_of_one_layer():
    model = encoder("bert", max_position_embeddings=1600)
    message = r"1,500 tokens: whole maps would take 69 MiB a layer, and are given up to 1,024"
    with observe(model, [KeepMaps()]) as seen, pytest.raises(HeadscopeError, match=message):
        seen.forward(batch_of(model, (1500, 2)))


def test_an_observer_that_would_be_handed_nothing_is_refused():
    rows = Rows()
    rows.needs = "map"
    message = "unknown need of Rows 'map'; did you mean 'maps'"
    with pytest.raises(HeadscopeError, match=message), observe(encoder(), [rows]):
        pass


def poisoned(kind="bert", layer=1):
    """A model whose given layer turns token 7 into NaN."""
    model = encoder(kind)
    calibrate(model)
    query = model.sites[layer].module.query

    def poison(module, given, out):
        ids = model.poisoned_ids
        return out.masked_fill((ids == 7).unsqueeze(2), torch.nan)

    query.register_forward_hook(poison)
    return model


def test_nan_in_a_real_row_stops_with_sentence_layer_and_head():
    model = poisoned()
    batch = batch_of(model)
    batch.input_ids[batch.input_ids == 7] = 8
    batch.input_ids[2, 3] = 7
    model.poisoned_ids = batch.input_ids
    rows = Rows()
    message = r"^tiny bert: sentence s2, layer 1, head 0, row 3: attention sums to nan, expected 1;"
    with observe(model, [rows]) as seen:
        with pytest.raises(ModelError, match=message + " are all weights .* finite"):
            seen.forward(batch)
        batch.input_ids[2, 3] = 8
        seen.forward(batch)
    assert [layer for layer, _, _ in rows.open] == []
    assert rows.n_closed == 1


def test_infinite_scores_of_half_precision_ask_for_float32():
    model = encoder(dtype=torch.float16)
    calibrate(model)
    with torch.no_grad():
        for site in model.sites:
            site.module.query.weight.mul_(3e3)
            site.module.key.weight.mul_(3e3)
    with observe(model, []) as seen, pytest.raises(ModelError, match="try --dtype float32$"):
        seen.forward(batch_of(model))


def test_nan_in_rows_of_padding_neither_stops_nor_reaches_an_observer():
    model = poisoned(layer=2)
    batch = batch_of(model)
    batch.input_ids[batch.valid & (batch.input_ids == 7)] = 8
    clean = recorded_with(model, batch, poison=False)
    batch.input_ids[~batch.valid] = 7
    dirty = recorded_with(model, batch, poison=True)
    for layer in range(3):
        assert torch.isfinite(dirty[layer]).all()
        assert apart(dirty[layer], clean[layer], batch.valid) <= 1e-6
    assert float(dirty[2][1, :, 5:].abs().max()) == 0


def recorded_with(model, batch, *, poison):
    model.poisoned_ids = batch.input_ids if poison else torch.zeros_like(batch.input_ids)
    return recorded(model, batch)


def test_a_layer_called_out_of_turn_stops_the_pass():
    model = encoder()
    calibrate(model)
    model.sites = (model.sites[1], model.sites[0], model.sites[2])
    with observe(model, []) as seen, pytest.raises(ModelError, match="layer 0 was called out of"):
        seen.forward(batch_of(model))


def test_a_pass_without_all_layers_is_no_pass():
    model = encoder()
    calibrate(model)
    model.model = copy.deepcopy(model.model)  # other modules than those that were calibrated
    rows, message = Rows(), "tiny bert: 0 attention layers were called, expected 3"
    with observe(model, [rows]) as seen, pytest.raises(ModelError, match=message):
        seen.forward(batch_of(model))
    assert rows.n_closed == 0
