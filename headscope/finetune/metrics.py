"""Metrics of tasks, and what is said where one is undefined."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn import metrics as sk

Numbers = npt.NDArray[np.float64]

CONSTANT = "a correlation with constant numbers is undefined"


def _pearson(gold: Numbers, found: Numbers) -> float:
    return float(stats.pearsonr(gold, found).statistic)


def _spearman(gold: Numbers, found: Numbers) -> float:
    return float(stats.spearmanr(gold, found).statistic)


def _f1(gold: Numbers, found: Numbers) -> float:
    return float(sk.f1_score(gold, found, zero_division=0))


def _f1_macro(gold: Numbers, found: Numbers) -> float:
    return float(sk.f1_score(gold, found, average="macro", zero_division=0))


METRICS: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": lambda gold, found: float(sk.accuracy_score(gold, found)),
    "f1": _f1,
    "f1_macro": _f1_macro,
    "matthews": lambda gold, found: float(sk.matthews_corrcoef(gold, found)),
    "pearson": _pearson,
    "spearman": _spearman,
}
"""By name, of gold and found [N]; F1 is that of class 1, Matthews of constant answers is 0."""

CORRELATIONS = ("pearson", "spearman")


@dataclass(frozen=True)
class Scores:
    """Metrics of one set of answers.

    Attributes:
        values: by name; None where undefined.
        nulls: name -> why it is undefined.
        n: number of answers.
    """

    values: dict[str, float | None]
    nulls: dict[str, str]
    n: int


def score(names: Sequence[str], gold: Numbers, found: Numbers) -> Scores:
    """Metrics of found against gold, [N] places of labels or numbers."""
    values: dict[str, float | None] = {}
    nulls: dict[str, str] = {}
    for name in names:
        constant = name in CORRELATIONS and (np.ptp(gold) == 0 or np.ptp(found) == 0)
        if not len(gold) or constant or not np.isfinite(found).all():
            values[name] = None
            nulls[name] = CONSTANT if constant else "no finite answer to score"
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly constant input
            value = METRICS[name](gold, found)
        values[name] = value if np.isfinite(value) else None
        if values[name] is None:
            nulls[name] = CONSTANT
    return Scores(values, nulls, len(gold))


def permuted(labels: Sequence[str], gold: Numbers, found: Numbers) -> str | None:
    """A warning where answers are far below chance, as they are when labels were mixed up.

    It names the permutation of labels under which accuracy is best. Up to six labels.
    """
    n_labels, n = len(labels), len(gold)
    if not 2 <= n_labels <= 6 or n < 30:
        return None
    accuracy = float((gold == found).mean())
    chance = 1 / n_labels
    if accuracy >= chance - 3 * np.sqrt(chance * (1 - chance) / n):
        return None
    orders = list(itertools.permutations(range(n_labels)))
    scores = [float((gold == np.array(order)[found.astype(int)]).mean()) for order in orders]
    best = orders[int(np.argmax(scores))]
    named = ", ".join(f"{labels[i]} for {labels[j]}" for i, j in enumerate(best) if i != j)
    return (
        f"accuracy {accuracy:.3f} is far below chance ({chance:.3f}): labels may be permuted; "
        f"with {named} it would be {max(scores):.3f}"
    )
