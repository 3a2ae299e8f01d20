"""Every family of docs/models.md: observed attention is the model's own, alone and padded."""

import copy
import functools

import pytest
import torch

from headscope.extraction import observation
from headscope.extraction.calibration import KeepMaps, observe
from headscope.extraction.own_maps import OUTPUTS
from tests.extraction import zoo
from tests.extraction.zoo import CASES, IDS, KINDS, PAGE, written
from tests.models import batch_of, sentence_of

LENGTHS = (9, 5, 7)
EVERY_CASE = pytest.mark.parametrize(("kind", "attention"), CASES, ids=IDS)

# Their own maps need unfolding or a softmax, which test_own_maps.py checks otherwise.
ADAPTED = {"longformer", "squeezebert"}

# No test changes a model; to make one takes longer than to look at it.
encoder_of = functools.cache(lambda number, attention: zoo.encoder_of(KINDS[number], attention))


def made(kind, attention):
    return encoder_of(KINDS.index(kind), attention)


def batch_for(encoder, lengths=LENGTHS):
    """Sentences, and targets of other lengths where a decoder reads them."""
    batch = batch_of(encoder, lengths)
    if not encoder.has_target:
        return batch
    target = batch_of(encoder, [length - 1 for length in lengths], seed=1)
    return paired(encoder, batch, target)


def paired(encoder, batch, target):
    cross = encoder.info.attention == "cross"
    return type(batch)(**{**vars_of(batch), "target": target, "cross": cross})


def vars_of(batch):
    return {name: getattr(batch, name) for name in batch.__dataclass_fields__}


def alone(encoder, batch, row):
    source = sentence_of(batch, row)
    if batch.target is None:
        return source
    return paired(encoder, source, sentence_of(batch.target, row))


def recorded(encoder, batch):
    keep = KeepMaps()
    with observe(encoder, [keep]) as seen:
        seen.forward(batch)
    return keep.maps


def own_maps(encoder, batch):
    """What the library itself returns with eager attention, nothing of headscope in between."""
    model = copy.deepcopy(encoder.model)
    if model._can_set_attn_implementation():
        model.set_attn_implementation("eager")
    else:
        model.config._attn_implementation_internal = "eager"
    given = {"input_ids": batch.input_ids, "attention_mask": batch.valid.long()}
    if batch.target is not None:
        given["decoder_input_ids"] = batch.target.input_ids
        given["decoder_attention_mask"] = batch.target.valid.long()
    with torch.no_grad():
        output = model.eval()(**given, output_attentions=True)
    maps = next(output[key] for key in OUTPUTS[encoder.info.attention] if output.get(key))
    return [one for layer, one in enumerate(maps) if layer not in encoder.unseen]


def apart(found, expected, rows):
    """Largest difference over rows that are not padding."""
    where = rows.unsqueeze(1).expand(found.shape[:3])
    return float((found - expected).abs()[where].max())


def lengths_for(encoder):
    return (7, 7, 7) if encoder.equal_lengths else LENGTHS


@EVERY_CASE
def test_facts_are_those_of_the_table(kind, attention):
    encoder = made(kind, attention)
    place = -1 if encoder.has_target else 0
    assert (encoder.n_layers, encoder.n_heads) == (kind.layers[place], kind.heads[place])
    assert encoder.route == kind.reads
    assert encoder.equal_lengths == kind.equal_lengths
    assert encoder.notes == ()
    for name in ("has_sinks", "unseen"):
        assert getattr(encoder, name) == kind.facts.get(name, type(getattr(encoder, name))())


@EVERY_CASE
def test_recorded_maps_equal_the_models_own_padded_and_alone(kind, attention):
    encoder = made(kind, attention)
    batch = batch_for(encoder, lengths_for(encoder))
    together = recorded(encoder, batch)
    if kind.family not in ADAPTED and (kind.family, attention) != ("led", "encoder"):
        for found, expected in zip(together, own_maps(encoder, batch), strict=True):
            assert found.shape == expected.shape
            assert apart(found, expected, batch.queries.valid) <= 1e-5
    for row in range(len(batch)):
        single = alone(encoder, batch, row)
        n_rows, n_keys = single.queries.valid.shape[1], single.keys.valid.shape[1]
        for padded, found in zip(together, recorded(encoder, single), strict=True):
            assert found.shape == (1, encoder.n_heads, n_rows, n_keys)
            part = padded[row : row + 1, :, :n_rows, :n_keys]
            assert apart(part, found, single.queries.valid) <= 1e-5
            assert not padded[row, :, :n_rows, n_keys:].any()
    # The test is worth something: heads are unlike each other and far from uniform.
    assert float((together[0][0, 0] - together[0][0, 1]).abs().max()) > 1e-3
    assert max(float(found[0, :, 2:].max()) for found in together) > 0.14


@EVERY_CASE
def test_rows_are_distributions_over_what_can_be_seen(kind, attention, monkeypatch):
    encoder = made(kind, attention)
    batch = batch_for(encoder, lengths_for(encoder))

    class Sees:
        needs = "rows"
        n_blocks = 0

        def update(self, block):
            self.n_blocks += 1
            rows = block.batch.valid[:, block.start : block.stop]
            visible = block.visible()
            hidden = (block.probs * ~visible).permute(0, 2, 1, 3)
            assert not hidden[rows].any()
            totals = block.probs.sum(3).permute(0, 2, 1)[rows]
            assert (totals < 1 - 1e-3).any() == encoder.has_sinks
            # Every key that is said to be visible gets some attention from some head.
            attended = block.probs.amax(1) > 0
            assert (attended == visible[:, 0])[rows].all()

        def close(self, batch):
            pass

    whole, blocks = Sees(), Sees()
    with observe(encoder, [whole]) as seen:
        seen.forward(batch)
    assert whole.n_blocks == encoder.n_layers - len(encoder.unseen)
    monkeypatch.setattr(observation, "BLOCK_BYTES", 2 * 4 * 3 * encoder.n_heads * 9)
    with observe(encoder, [blocks]) as seen:
        seen.forward(batch)
    assert (blocks.n_blocks > whole.n_blocks) == (encoder.route == "function")


def test_the_table_is_what_is_found():
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run: python -m tests.extraction.zoo"


def test_titles_and_families_are_listed_once():
    assert len({kind.family for kind in KINDS}) == len({kind.title for kind in KINDS}) == len(KINDS)
