"""Surface measures once more, in plain loops over one sequence and one head, from their text."""

import math
from dataclasses import dataclass, field

TEXTS = {"first_text": 0, "second_text": 1}


@dataclass
class Sequence:
    """One sequence without padding.

    Attributes:
        attention: [T][T] from query to key.
        cls, separator, special, punctuation, punctuation_words, punctuation_all: places of tokens.
        segment: of each token 0 or 1.
        text: of each token 0 or 1, -1 for special ones.
        annotated: whether it has parts of speech.
        causal: whether no query sees a later key.
        window: how many keys a query sees at most, itself the last.
        sinks: whether what a row lacks to 1 is on a sink.
    """

    attention: list
    cls: set = field(default_factory=set)
    separator: set = field(default_factory=set)
    special: set = field(default_factory=set)
    punctuation: set = field(default_factory=set)
    punctuation_words: set = field(default_factory=set)
    punctuation_all: set = field(default_factory=set)
    segment: list = field(default_factory=list)
    text: list = field(default_factory=list)
    annotated: bool = True
    causal: bool = False
    window: int | None = None
    sinks: bool = False

    def seen(self, i):
        """Keys that query i may see."""
        last = i if self.causal else len(self.attention) - 1
        first = 0 if self.window is None else max(0, i - self.window + 1)
        return list(range(first, last + 1))


NAMES = (
    "previous", "next", "self", "first", "cls", "separator", "special", "punctuation",
    "punctuation_words", "punctuation_all", "other_segment", "other_text", "sink", "entropy",
    "entropy_relative", "entropy_from_first", "entropy_from_cls", "distance",
)  # fmt: skip


def plain_surface(sequence, way="all"):
    """{measure: (sum over rows, rows for which it exists, undefined ones)} of one head."""
    totals = {name: [0.0, 0, 0] for name in NAMES}
    for i, given in enumerate(sequence.attention):
        if way in TEXTS and (1 not in sequence.text or sequence.text[i] != TEXTS[way]):
            continue
        row, undefined = [float(p) for p in given], False
        if way == "without_first":
            rest = sum(row[1:])
            undefined = rest < 1e-9
            row = [0.0] + [0.0 if undefined else p / rest for p in row[1:]]
        for name, value in _values(sequence, i, row, way == "without_first").items():
            totals[name][1] += 1
            totals[name][2] += undefined
            totals[name][0] += 0.0 if undefined else value
    return {name: tuple(total) for name, total in totals.items()}


def _values(sequence, i, row, without_first):
    """The measures that exist for row i."""
    start = 1 if without_first else 0
    seen = [j for j in sequence.seen(i) if j >= start]

    def mass(places):
        return sum(row[j] for j in places)

    spread = -sum(p * math.log(p) for p in row if p > 0)
    found = {
        "punctuation": mass(sequence.punctuation),
        "punctuation_words": mass(sequence.punctuation_words),
        "entropy": spread,
        "distance": sum(p * abs(i - j) for j, p in enumerate(row)),
    }
    for name, offset in (("previous", -1), ("next", 1), ("self", 0)):
        if i + offset in seen:
            found[name] = row[i + offset]
    for name in ("cls", "separator", "special"):
        if any(j >= start for j in getattr(sequence, name)):
            found[name] = mass(getattr(sequence, name))
    if sequence.annotated:
        found["punctuation_all"] = mass(sequence.punctuation_all)
    for name, side in (("other_segment", sequence.segment), ("other_text", sequence.text)):
        if 1 in side and side[i] in (0, 1):
            found[name] = mass(j for j, other in enumerate(side) if other == 1 - side[i])
    if not without_first:
        found["first"] = row[0]
    if sequence.sinks and not without_first:
        found["sink"] = 1 - sum(row)
    if len(seen) >= 2:
        found["entropy_relative"] = spread / math.log(len(seen))
    if i == 0:
        found["entropy_from_first"] = spread
    if i in sequence.cls:
        found["entropy_from_cls"] = spread
    return found


def uniform_attention(sequence):
    """[T][T] attention that is the same for every key that the query may see."""
    n = len(sequence.attention)
    rows = [sequence.seen(i) for i in range(n)]
    return [[1 / len(seen) if j in seen else 0.0 for j in range(n)] for seen in rows]


def pooled(parts):
    """Sums and counts of many sequences added up."""
    parts = list(parts)
    return {name: tuple(map(sum, zip(*(p[name] for p in parts), strict=True))) for name in parts[0]}
