"""Errors that a user can act on; the command line prints them as one line and exits with code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class HeadscopeError(Exception):
    """Any failure whose message is written for the user; the message is one line."""


class ModelError(HeadscopeError):
    """A model that cannot be loaded, or whose attention cannot be observed."""


class InputError(HeadscopeError):
    """Data that cannot be used: missing, empty, broken, not annotated."""


class MergeError(HeadscopeError):
    """Two observers that were made with different settings cannot be added."""


class ParseError(InputError):
    """A broken line of a data file: where, what was found, what was expected, what to do.

    Attributes:
        path: the file.
        line: 1-based number of the line, counted by line feeds; None where the whole file is meant.
    """

    def __init__(
        self, path: str | Path, line: int | None, found: str, expected: str, todo: str = ""
    ) -> None:
        self.path = str(path)
        self.line = line
        place = self.path if line is None else f"{self.path}:{line}"
        hint = f"; {todo}" if todo else ""
        super().__init__(f"{place}: found {found}; expected {expected}{hint}")


def unknown(kind: str, name: str, known: Iterable[str]) -> HeadscopeError:
    """The error for a name that does not exist, with near matches and the list of what does.

    >>> str(unknown("measure", "entopy", ["entropy", "distance"]))
    "unknown measure 'entopy'; did you mean 'entropy'? Known: distance, entropy"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{near[0]}'? Known" if near else "known"
    return HeadscopeError(f"unknown {kind} '{name}'; {hint}: {', '.join(names)}")
