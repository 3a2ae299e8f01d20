"""What makes the heads of a sentence a tree: one root, and every word below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreeFault:
    """Why heads are no tree.

    Attributes:
        found: the fault in words.
        words: 1-based numbers of the words at fault, in order.
    """

    found: str
    words: tuple[int, ...]


def tree_fault(heads: Sequence[int]) -> TreeFault | None:
    """The first fault of heads in 0..n (0 is the root), or None where they make a tree.

    >>> tree_fault([2, 0, 2]) is None
    True
    >>> tree_fault([0, 0, 2])
    TreeFault(found='2 roots', words=(1, 2))
    >>> tree_fault([0, 3, 2])
    TreeFault(found='a cycle of heads', words=(2, 3))
    """
    roots = tuple(word for word, head in enumerate(heads, 1) if head == 0)
    if not roots:
        return TreeFault("no root", tuple(range(1, len(heads) + 1)))
    if len(roots) > 1:
        return TreeFault(f"{len(roots)} roots", roots)
    cycle = _first_cycle(heads)
    return TreeFault("a cycle of heads", cycle) if cycle else None


def _first_cycle(heads: Sequence[int]) -> tuple[int, ...]:
    seen = [0] * (len(heads) + 1)  # 0: not visited, else the number of the walk that came by
    seen[0] = -1
    for start in range(1, len(heads) + 1):
        word = start
        while not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if seen[word] == start:  # this very walk has been here before
            cycle = [word]
            while heads[cycle[-1] - 1] != word:
                cycle.append(heads[cycle[-1] - 1])
            return tuple(sorted(cycle))
    return ()
