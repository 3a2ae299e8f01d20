"""Surface measures once more, in plain loops over one sequence and one head, from their text."""

import math
from dataclasses import dataclass, field


@dataclass
class Sequence:
    """One sequence without padding.

    Attributes:
        attention: [T][T] from query to key.
        cls, separator, special, punctuation, punctuation_words, punctuation_all: places of tokens.
        annotated: whether it has parts of speech.
        causal: whether no query sees a later key.
    """

    attention: list
    cls: set = field(default_factory=set)
    separator: set = field(default_factory=set)
    special: set = field(default_factory=set)
    punctuation: set = field(default_factory=set)
    punctuation_words: set = field(default_factory=set)
    punctuation_all: set = field(default_factory=set)
    annotated: bool = True
    causal: bool = False


def plain_surface(sequence):
    """{measure: (sum over rows, number of rows)} of one head."""
    rows = [[float(p) for p in row] for row in sequence.attention]
    n = len(rows)

    def mass(places, exists=True):
        if not exists:
            return 0.0, 0
        return sum(row[j] for row in rows for j in places), n

    def entropy(row):
        return -sum(p * math.log(p) for p in row if p > 0)

    def entropies(places):
        return sum(entropy(rows[i]) for i in places), len(places)

    before = sum(rows[i][i - 1] for i in range(1, n))
    after = sum(rows[i][i + 1] for i in range(n - 1))
    return {
        "previous": (before, n - 1),
        "next": (0.0, 0) if sequence.causal else (after, n - 1),
        "self": (sum(rows[i][i] for i in range(n)), n),
        "first": mass({0}),
        "cls": mass(sequence.cls, bool(sequence.cls)),
        "separator": mass(sequence.separator, bool(sequence.separator)),
        "special": mass(sequence.special, bool(sequence.special)),
        "punctuation": mass(sequence.punctuation),
        "punctuation_words": mass(sequence.punctuation_words),
        "punctuation_all": mass(sequence.punctuation_all, sequence.annotated),
        "entropy": entropies(range(n)),
        "entropy_from_first": entropies([0]),
        "entropy_from_cls": entropies(sorted(sequence.cls)),
        "distance": (sum(rows[i][j] * abs(i - j) for i in range(n) for j in range(n)), n),
    }


def uniform_attention(n, causal):
    """[T][T] attention that is the same for every key that the query may see."""
    return [
        [(1 / (i + 1) if j <= i else 0.0) if causal else 1 / n for j in range(n)] for i in range(n)
    ]


def pooled(parts):
    """Sums and counts of many sequences added up."""
    parts = list(parts)
    return {
        name: (sum(part[name][0] for part in parts), sum(part[name][1] for part in parts))
        for name in parts[0]
    }
