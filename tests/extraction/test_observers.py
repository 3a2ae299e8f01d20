"""Resampling weights: fixed by seed, corpus and place, with the moments they should have."""

import numpy as np
import pytest
from scipy import stats

from headscope.extraction.observers import (
    BOOTSTRAP,
    N_BOOTSTRAP,
    N_SPLITS,
    SPLITS,
    Resampling,
    percentile_interval,
)

CORPUS = "0123456789abcdef" * 4
N_UNITS = 20_000
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


@pytest.fixture(scope="module")
def weights():
    return Resampling(0, CORPUS).weights(range(N_UNITS))


def test_first_column_is_ones(weights):
    assert weights.shape == (N_UNITS, 1 + N_BOOTSTRAP + N_SPLITS)
    assert (weights[:, 0] == 1).all()


def test_bootstrap_columns_are_poisson_1(weights):
    drawn = weights[:, BOOTSTRAP]
    assert abs(drawn.mean() - 1) < 0.003
    assert abs(drawn.var() - 1) < 0.005
    counts = np.array([(drawn == k).sum() for k in range(6)] + [(drawn > 5).sum()])
    expected = np.append(stats.poisson.pmf(range(6), 1), stats.poisson.sf(5, 1)) * drawn.size
    assert stats.chisquare(counts, expected).pvalue > 1e-4


def test_columns_and_units_are_independent(weights):
    drawn = weights[:, 1:]
    between_columns = np.corrcoef(drawn.T)
    np.fill_diagonal(between_columns, 0)
    assert np.abs(between_columns).max() < 5 / np.sqrt(N_UNITS)
    neighbours = np.corrcoef(drawn[:-1, :5].ravel(), drawn[1:, :5].ravel())[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(5 * N_UNITS)


def test_splits_are_halves(weights):
    halves = weights[:, SPLITS]
    assert set(np.unique(halves)) == {0.0, 1.0}
    assert np.abs(halves.mean(0) - 0.5).max() < 0.02


def test_a_unit_has_the_same_row_whatever_comes_with_it():
    resampling = Resampling(4, CORPUS)
    whole = resampling.weights(range(50))
    np.testing.assert_array_equal(resampling.weights([31, 7]), whole[[31, 7]])
    np.testing.assert_array_equal(Resampling(4, CORPUS).weights([7]), whole[[7]])


@pytest.mark.parametrize("other", [Resampling(5, CORPUS), Resampling(4, "f" * 64)])
def test_other_seed_or_corpus_gives_other_rows(other):
    assert not np.array_equal(Resampling(4, CORPUS).weights(range(9)), other.weights(range(9)))


def test_golden_values():
    """Intervals of published numbers must not change silently from one version to the next."""
    rows = Resampling(0, CORPUS).weights([0, 1, 12345]).astype(int)
    assert rows[:, 1:13].tolist() == GOLDEN_BOOTSTRAP
    assert rows[:, SPLITS].tolist() == GOLDEN_SPLITS


def test_percentile_interval_equals_numpy_and_leaves_out_empty_replicates():
    replicates = np.random.default_rng(0).normal(size=(200, 3))
    low, high = percentile_interval(replicates)
    np.testing.assert_allclose(low, np.percentile(replicates, 2.5, axis=0))
    np.testing.assert_allclose(high, np.percentile(replicates, 97.5, axis=0))
    holed = np.insert(replicates, [3, 90], np.nan, axis=0)
    np.testing.assert_array_equal(percentile_interval(holed), percentile_interval(replicates))


def test_ranks_are_a_random_order():
    resampling = Resampling(0, CORPUS)
    ranks = [resampling.rank(i) for i in range(2000)]
    assert len(set(ranks)) == 2000
    assert abs(stats.spearmanr(range(2000), ranks).statistic) < 0.1
    uniform = stats.kstest(np.array(ranks, dtype=float) / 2.0**64, "uniform")
    assert uniform.pvalue > 1e-4
    assert ranks[:20] != [Resampling(1, CORPUS).rank(i) for i in range(20)]
