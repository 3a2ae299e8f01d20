"""Resampling: fixed weights for every unit, spread as they should be."""

import math

import numpy as np
import pytest
import scipy.stats

from headscope.extraction.observers import (
    BOOTSTRAP,
    MIN_CASES,
    MIN_UNITS,
    N_BOOTSTRAP,
    N_SPLITS,
    SPLITS,
    Resampling,
    _mix,
    percentile_interval,
)

CORPUS = "0123456789abcdef" + "0" * 48
N_UNITS = 20_000


@pytest.fixture(scope="module")
def weights():
    """[units, columns] of 20,000 units."""
    return Resampling(0, CORPUS).weights(range(N_UNITS))


def test_columns_are_ones_then_bootstrap_then_splits(weights):
    assert weights.shape == (N_UNITS, 1 + N_BOOTSTRAP + N_SPLITS) == (N_UNITS, 211)
    assert weights.dtype == np.float64
    assert (weights[:, 0] == 1).all()
    assert weights[:, BOOTSTRAP].shape[1] == N_BOOTSTRAP == 200
    assert weights[:, SPLITS].shape[1] == N_SPLITS == 10
    assert (weights >= 0).all()
    assert (weights == weights.round()).all()
    assert set(np.unique(weights[:, SPLITS])) == {0.0, 1.0}
    assert (MIN_UNITS, MIN_CASES) == (10, 5)


def test_bootstrap_weights_are_poisson_with_mean_one(weights):
    drawn = weights[:, BOOTSTRAP].astype(int)
    n = drawn.size
    counts = np.bincount(drawn.ravel(), minlength=8)
    observed = np.append(counts[:7], counts[7:].sum())
    expected = scipy.stats.poisson(1).pmf(np.arange(7))
    expected = n * np.append(expected, 1 - expected.sum())
    assert scipy.stats.chisquare(observed, expected).pvalue > 0.001
    assert drawn.mean() == pytest.approx(1, abs=5 / math.sqrt(n))
    assert drawn.var() == pytest.approx(1, abs=5 * math.sqrt(3 / n))
    # Each column and each unit on its own: no column of a wrong mean hides in the whole.
    assert np.abs(drawn.mean(0) - 1).max() < 4.5 / math.sqrt(N_UNITS)
    assert np.abs(drawn.mean(1) - 1).max() < 6 / math.sqrt(N_BOOTSTRAP)


def test_splits_are_halves(weights):
    halves = weights[:, SPLITS].mean(0)
    assert np.abs(halves - 0.5).max() < 4 * 0.5 / math.sqrt(N_UNITS)


def test_columns_are_independent_of_each_other(weights):
    related = np.corrcoef(weights[:, 1:].T)
    np.fill_diagonal(related, 0)
    # 21,945 pairs: the largest of as many normal draws stays below 5 standard deviations.
    assert np.abs(related).max() < 5.2 / math.sqrt(N_UNITS)


def test_units_are_independent_of_each_other(weights):
    drawn = weights[:, BOOTSTRAP] - 1
    for apart in (1, 2, 8, 64):  # neighbours, and units whose numbers differ in one bit
        products = (drawn[:-apart] * drawn[apart:]).mean()
        assert abs(products) < 5 / math.sqrt(drawn[apart:].size)


@pytest.mark.parametrize(("seed", "corpus"), [(1, CORPUS), (0, "f" * 64)])
def test_another_seed_or_corpus_gives_unrelated_rows(weights, seed, corpus):
    other = Resampling(seed, corpus).weights(range(2000))
    mine = weights[:2000]
    assert (other[:, 1:] != mine[:, 1:]).mean() > 0.5
    related = np.corrcoef(other[:, BOOTSTRAP].ravel(), mine[:, BOOTSTRAP].ravel())[0, 1]
    assert abs(related) < 5 / math.sqrt(other[:, BOOTSTRAP].size)


def test_a_unit_has_its_row_whatever_stands_beside_it(weights):
    resampling = Resampling(0, CORPUS)
    assert (resampling.weights([7]) == weights[7]).all()
    assert (resampling.weights([9, 7, 7, 0]) == weights[[9, 7, 7, 0]]).all()
    order = np.random.default_rng(0).permutation(500)
    assert (resampling.weights(order) == weights[order]).all()
    assert (Resampling(0, CORPUS).weights(np.int32(3)) == weights[3]).all()
    assert resampling.weights([]).shape == (0, 211)


def test_only_the_first_sixteen_digits_of_the_fingerprint_count():
    assert (
        Resampling(0, CORPUS[:16] + "f" * 48).weights([5]) == Resampling(0, CORPUS).weights([5])
    ).all()
    assert Resampling(0, "").weights([5]).shape == (1, 211)


GOLDEN_BOOTSTRAP = [
    [1, 1, 1, 1, 1, 1, 0, 1, 2, 2, 1, 1],
    [2, 0, 4, 1, 1, 0, 0, 1, 1, 1, 0, 0],
    [0, 1, 1, 0, 1, 1, 0, 2, 2, 0, 1, 2],
]
GOLDEN_SPLITS = [
    [1, 1, 0, 0, 1, 1, 1, 0, 1, 0],
    [0, 1, 1, 0, 1, 1, 0, 1, 0, 0],
    [0, 0, 1, 1, 1, 0, 0, 0, 1, 0],
]
GOLDEN_SUMS = [199, 185, 184]
GOLDEN_OTHER = [1, 1, 2, 2, 2, 0, 1, 0, 2, 1, 1, 1]
GOLDEN_RANKS = [6903397638542957392, 3510466172856665627, 11923120698105650014]


def test_the_generator_is_splitmix64():
    # First five outputs for seed 1234567, as published with many implementations of it.
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    gamma = 0x9E3779B97F4A7C15
    states = [(1234567 + i * gamma) % 2**64 for i in range(5)]
    assert _mix(np.array(states, dtype=np.uint64)).tolist() == expected


def test_weights_do_not_change_between_versions():
    # Pinned: whoever changes these changes every published interval.
    found = Resampling(0, CORPUS).weights([0, 1, 12_345])
    assert found[:, 1:13].astype(int).tolist() == GOLDEN_BOOTSTRAP
    assert found[:, SPLITS].astype(int).tolist() == GOLDEN_SPLITS
    assert found[:, BOOTSTRAP].sum(1).tolist() == GOLDEN_SUMS
    other = Resampling(7, "f" * 64).weights([3])
    assert other[0, 1:13].astype(int).tolist() == GOLDEN_OTHER
    ranks = [Resampling(0, CORPUS).rank(i) for i in range(3)]
    assert ranks == GOLDEN_RANKS


def test_ranks_are_a_random_order():
    resampling = Resampling(0, CORPUS)
    ranks = np.array([resampling.rank(i) for i in range(5000)], dtype=np.float64) / 2.0**64
    assert len(set(ranks)) == 5000
    assert scipy.stats.kstest(ranks, "uniform").pvalue > 0.001
    assert abs(scipy.stats.spearmanr(ranks, np.arange(5000)).statistic) < 0.06
    others = [Resampling(1, CORPUS).rank(i) for i in range(5000)]
    assert abs(scipy.stats.spearmanr(ranks, others).statistic) < 0.06
    assert resampling.rank(17) == Resampling(0, CORPUS).rank(17)


def test_ranks_have_nothing_to_do_with_weights(weights):
    ranks = [Resampling(0, CORPUS).rank(i) for i in range(2000)]
    for column in (1, 2, -1):
        assert abs(scipy.stats.spearmanr(ranks, weights[:2000, column]).statistic) < 0.1


def test_percentile_interval_is_numpys():
    replicates = np.random.default_rng(0).normal(size=(200, 3, 4))
    low, high = percentile_interval(replicates)
    assert low.shape == high.shape == (3, 4)
    assert low == pytest.approx(np.percentile(replicates, 2.5, axis=0))
    assert high == pytest.approx(np.percentile(replicates, 97.5, axis=0))
    for single in (replicates[:, 0, 0], replicates[:, :1, :1]):
        assert percentile_interval(single)[0] == pytest.approx(low[0, 0])


def test_replicates_without_a_case_do_not_count():
    replicates = np.random.default_rng(0).normal(size=(200, 2))
    holed = np.concatenate([replicates, np.full((50, 2), np.nan)])
    expected = percentile_interval(replicates)
    for found, right in zip(percentile_interval(holed[::-1]), expected, strict=True):
        assert found == pytest.approx(right)


def test_no_replicate_at_all_gives_no_interval():
    low, high = percentile_interval(np.full((200, 2, 3), np.nan))
    assert low.shape == high.shape == (2, 3)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_the_bootstrap_covers_a_mean_about_as_often_as_it_says():
    rng, hits = np.random.default_rng(1), 0
    for seed in range(200):
        values = rng.normal(size=60)
        weights = Resampling(seed, CORPUS).weights(range(60))[:, BOOTSTRAP]
        low, high = percentile_interval(weights.T @ values / weights.sum(0))
        hits += low < 0 < high
    assert 0.88 <= hits / 200 <= 0.98
