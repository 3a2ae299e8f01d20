"""Metrics: numbers of METHODS.md section E, undefined ones, labels that were mixed up."""

import numpy as np
import pytest

from headscope.finetune.metrics import METRICS, permuted, score

GOLD = np.array([1.0, 1, 0, 0, 1, 0, 1, 1])
FOUND = np.array([1.0, 0, 0, 1, 1, 0, 1, 1])


def test_e21_numbers():
    scores = score(("accuracy", "f1", "matthews"), GOLD, FOUND)
    assert scores.values == pytest.approx(
        {"accuracy": 0.75, "f1": 0.8, "matthews": 0.466667}, abs=1e-6
    )
    assert score(("matthews",), GOLD, np.ones(8)).values == {"matthews": 0.0}
    gold, found = np.array([0.0, 1, 2, 3, 5]), np.array([0.1, 0.3, 0.2, 0.8, 0.7])
    scores = score(("spearman", "pearson"), gold, found)
    assert scores.values == pytest.approx({"spearman": 0.8, "pearson": 0.826263}, abs=1e-6)


def test_c097_a_correlation_with_constants_is_null_with_its_reason():
    scores = score(("pearson", "spearman"), np.array([1.0, 2, 3]), np.full(3, 2.0))
    assert scores.values == {"pearson": None, "spearman": None}
    assert set(scores.nulls) == {"pearson", "spearman"}
    assert score(("accuracy",), np.array([1.0]), np.array([np.nan])).values == {"accuracy": None}


def test_macro_f1_is_the_mean_over_classes():
    gold, found = np.array([0.0, 0, 1, 2]), np.array([0.0, 1, 1, 1])
    assert METRICS["f1_macro"](gold, found) == pytest.approx((2 / 3 + 0.5 + 0) / 3)


def test_c099_far_below_chance_is_told_with_the_permutation_that_explains_it():
    labels = ("entailment", "neutral", "contradiction")
    gold = np.tile([0.0, 1, 2], 50)
    found = np.array([2.0, 0, 1])[gold.astype(int)]
    found[:9] = gold[:9]
    told = permuted(labels, gold, found)
    assert told.startswith(
        "accuracy 0.060 is far below chance (0.333): labels may be permuted; with"
    )
    assert "it would be 0.940" in told
    assert permuted(labels, gold, gold) is None
    assert permuted(labels, gold[:12], found[:12]) is None
    assert permuted(labels, gold, np.roll(np.repeat([0.0, 1, 2], 50), 7)) is None
