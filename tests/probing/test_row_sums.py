"""Sums over rows in every way: plain loops, windows, sinks, padding, blocks, cross-attention."""

import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headscope.extraction.digest import EXACT_KEYS
from headscope.extraction.measures import MEASURES
from headscope.extraction.observers import Block
from headscope.probing import row_sums
from headscope.probing.row_sums import WAYS, RowSums
from tests.drawn import LENGTHS, Drawn, block_of, marks, mask_of_rows
from tests.loops import plain_surface, uniform_attention

N_LAYERS, N_HEADS = 2, 5
RULES = (
    {},
    {"causal": True},
    {"causal": True, "window": 3},
    {"window": 2},
    {"sinks": True, "causal": True},
    {"pairs": False},
)
EVERY_RULE = pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rules) or "plain")


class Batch(SimpleNamespace):
    """Padding, marks and nothing else; a batch is told by its identity."""

    def __len__(self):
        return len(self.valid)


@pytest.fixture(autouse=True)
def described(monkeypatch):
    """Batches of these tests hold their marks."""
    monkeypatch.setattr(row_sums, "describe_tokens", lambda batch, encoder: batch.tokens)


def summed(tokens, blocks, *, sinks=False, keys=None, n_heads=N_HEADS):
    """The sums of some blocks of a batch of such tokens."""
    batch = Batch(valid=tokens.valid, tokens=tokens)
    other = batch if keys is None else Batch(valid=keys.valid, tokens=keys)
    encoder = SimpleNamespace(n_layers=N_LAYERS, n_heads=n_heads, has_sinks=sinks)
    blocks = [replace(block, batch=batch, keys=other) for block in blocks]
    sums = RowSums(blocks[0], encoder)
    for block in blocks:
        sums.add(block)
    sums.finish()
    return sums


def of_drawn(drawn, blocks=None):
    return summed(drawn.tokens, blocks or [drawn.block()], sinks=drawn.sinks)


@EVERY_RULE
@pytest.mark.parametrize("seed", range(3))
def test_every_measure_in_every_way_equals_plain_loops(seed, rules):
    drawn = Drawn(seed, **rules)
    found = of_drawn(drawn)
    assert found.ways == (WAYS if rules.get("pairs", True) else WAYS[:2])
    undefined_rows = 0
    for row, head in np.ndindex(len(LENGTHS), N_HEADS):
        for place, way in enumerate(found.ways):
            expected = plain_surface(drawn.sequence(row, head), way)
            for at, name in enumerate(MEASURES):
                total, n_rows, undefined = expected[name]
                where = (row, 0, place, at)
                assert found.counts[where] == n_rows, (way, name, row)
                assert found.sums[row, 0, head, place, at].item() == pytest.approx(
                    total, abs=1e-9
                ), (way, name, row, head)
                if way == "without_first":
                    assert found.undefined[row, 0, head, at] == undefined, (name, row, head)
                    undefined_rows += undefined
    assert undefined_rows > 50
    assert not found.sums[:, 1].any()


@EVERY_RULE
def test_uniform_attention_equals_plain_loops(rules):
    drawn = Drawn(**rules)
    found = of_drawn(drawn)
    sequences = [drawn.sequence(row, 0) for row in range(len(LENGTHS))]
    flat = [replace(s, attention=uniform_attention(s)) for s in sequences]
    for place, way in enumerate(found.ways):
        parts = [plain_surface(sequence, way) for sequence in flat]
        for at, name in enumerate(MEASURES):
            total, n_rows, undefined = np.sum([part[name] for part in parts], axis=0)
            assert found.uniform_counts[0, place, at] == n_rows - undefined, (way, name)
            assert found.uniform[0, place, at].item() == pytest.approx(total, abs=1e-9), (way, name)


def assert_equal_sums(found, expected):
    for name in ("sums", "counts", "undefined", "uniform", "uniform_counts"):
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-10), name


@EVERY_RULE
def test_padding_twice_as_long_changes_nothing(rules):
    drawn = Drawn(width=7, **rules)
    longer = torch.nn.functional.pad(drawn.probs, (0, 7, 0, 7))
    longer[:, :, 7:] = 1 / 14  # rows of padding are uniform over everything
    wide = {name: getattr(drawn.tokens, name) for name in ("valid", "scored", "first")}
    wide = {name: torch.nn.functional.pad(mask, (0, 7)) for name, mask in wide.items()}
    sets = {n: torch.nn.functional.pad(mask, (0, 7)) for n, mask in drawn.tokens.sets.items()}
    tokens = replace(drawn.tokens, sets=sets, **wide)
    mask = mask_of_rows(width=14, **drawn.rules)
    block = block_of(longer, tokens.valid, mask=mask)
    assert_equal_sums(summed(tokens, [block], sinks=drawn.sinks), of_drawn(drawn))


@EVERY_RULE
@pytest.mark.parametrize("stops", [range(10), (0, 4, 9), (0, 1, 8, 9), (0, 2, 4, 6, 8, 9)])
def test_blocks_of_rows_add_up_to_the_whole(stops, rules):
    drawn = Drawn(**rules)
    blocks = [drawn.block(*ends) for ends in zip(stops, list(stops)[1:], strict=False)]
    assert_equal_sums(of_drawn(drawn, blocks), of_drawn(drawn))


def test_blocks_without_the_keys_that_no_row_sees_add_up_to_the_whole():
    drawn = Drawn(causal=True, window=3)
    blocks = [drawn.block(i, i + 3, slice(max(0, i - 2), i + 3)) for i in (0, 3, 6)]
    assert [block.first_key for block in blocks] == [0, 1, 4]
    assert_equal_sums(of_drawn(drawn, blocks), of_drawn(drawn))


def test_layers_with_windows_of_their_own_have_a_uniform_value_of_their_own():
    drawn = Drawn(causal=True)
    blocks = [drawn.block()]
    blocks.append(replace(blocks[0], layer=1, mask=mask_of_rows(causal=True, window=2, width=9)))
    found = of_drawn(drawn, blocks)
    entropy = list(MEASURES).index("entropy")
    full, local = (found.uniform[:, 0, entropy] / found.uniform_counts[:, 0, entropy]).tolist()
    n_rows = sum(LENGTHS)
    assert full == pytest.approx(sum(np.log(i + 1) for n in LENGTHS for i in range(n)) / n_rows)
    assert local == pytest.approx(np.log(2) * (n_rows - 4) / n_rows)


def test_layers_that_see_alike_are_summed_together_or_one_by_one(monkeypatch):
    first, second = Drawn(0), Drawn(1)
    blocks = [first.block(), replace(second.block(), layer=1, mask=first.mask)]
    blocks = [replace(block, mask=first.mask) for block in blocks]
    together = summed(first.tokens, blocks)
    monkeypatch.setattr(row_sums, "WAITING_BYTES", 0)
    assert_equal_sums(summed(first.tokens, blocks), together)
    assert_equal_sums(summed(first.tokens, blocks[::-1]), together)
    assert not torch.equal(together.sums[:, 0], together.sums[:, 1])


def test_a_mask_is_kept_so_that_no_other_one_is_taken_for_it():
    drawn = Drawn()
    mask = mask_of_rows(causal=True, window=2, width=9)
    held = weakref.ref(mask)
    sums = of_drawn(drawn, [replace(drawn.block(), mask=mask)])
    del mask
    assert held() is not None
    del sums
    assert held() is None


def test_rows_of_the_second_text_alone_by_hand():
    tokens = marks(4, text=[-1, 0, 1, -1], segment=[0, 0, 1, 1], special={0, 3}, cls={0})
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.5, 0.4, 0.0, 0.1], [0.25] * 4]
    probs = torch.tensor(rows, dtype=torch.float64)[None, None]
    found = summed(tokens, [block_of(probs, tokens.valid)], n_heads=1)
    names = list(MEASURES)
    for name, in_all, in_first, in_second in (
        ("other_text", (0.2 + 0.4, 2), (0.2, 1), (0.4, 1)),
        ("other_segment", (0.7 + 0.3 + 0.9 + 0.5, 4), (0.3, 1), (0.9, 1)),
        ("first", (1.25, 4), (0.4, 1), (0.5, 1)),
        ("previous", (0.4 + 0.4 + 0.25, 3), (0.4, 1), (0.4, 1)),
        ("entropy_from_first", (1.2798542, 1), (0, 0), (0, 0)),
    ):
        for way, (total, count) in zip(
            ("all", *WAYS[2:]), (in_all, in_first, in_second), strict=True
        ):
            at = (WAYS.index(way), names.index(name))
            assert found.sums[(0, 0, 0, *at)].item() == pytest.approx(total), (name, way)
            assert found.counts[(0, 0, *at)] == count, (name, way)


def test_cross_attention_has_no_measure_that_compares_places():
    queries, keys = marks(3, cls={0}, annotated=False), marks(4, separator={3}, special={3})
    probs = torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3, dtype=torch.float64)[None, None]
    found = summed(queries, [block_of(probs, queries.valid)], keys=keys, n_heads=1)
    counts = dict(zip(MEASURES, found.counts[0, 0, 0].tolist(), strict=True))
    sums = dict(zip(MEASURES, found.sums[0, 0, 0, 0].tolist(), strict=True))
    gone = {name for name, measure in MEASURES.items() if measure.square} | {"cls", "sink"}
    assert {name for name, count in counts.items() if not count} == gone
    assert (sums["separator"], sums["first"]) == pytest.approx((1.2, 0.3))
    # Whose words are punctuation is a matter of the keys, whose row it is one of the queries.
    assert counts["punctuation_all"] == 3
    assert (counts["entropy_from_cls"], counts["entropy_from_first"]) == (1, 1)
    assert sums["entropy_relative"] / 3 == pytest.approx(1.2798542 / np.log(4), abs=1e-6)


def test_sums_are_float64_and_maps_are_left_as_they_are():
    drawn = Drawn()
    exact = of_drawn(drawn)
    single = drawn.probs.float()
    kept = single.clone()
    found = of_drawn(drawn, [replace(drawn.block(), probs=single)])
    assert found.sums.dtype == torch.float64
    assert torch.equal(single, kept)
    assert torch.allclose(found.sums, exact.sums, atol=2e-4)
    assert torch.equal(found.counts, exact.counts)


def test_long_sequences_equal_short_ones_padded():
    n = 6
    tokens = marks(n, special={0, 5})
    probs = torch.rand(1, 1, n, n, generator=torch.Generator().manual_seed(0)) + 0.01
    probs = probs / probs.sum(3, keepdim=True)
    width = EXACT_KEYS + 1
    padded = torch.nn.functional.pad(probs, (0, width - n))
    valid = torch.arange(width)[None] < n
    longer = marks(width, valid=valid, special={0, 5}, segment=[0] * width)
    short = summed(tokens, [block_of(probs, tokens.valid)], n_heads=1)
    long = summed(longer, [Block(0, 0, padded, None, None)], n_heads=1)
    assert torch.allclose(long.sums, short.sums, atol=1e-5)
    assert torch.allclose(long.uniform, short.uniform, atol=1e-5)
    assert torch.equal(long.counts, short.counts)
