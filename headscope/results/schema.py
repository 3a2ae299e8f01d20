"""The JSON Schema of each kind of result, as shipped with the package."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from headscope.errors import unknown


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that `Result.to_dict()` of this kind conforms to.

    >>> schema("surface")["title"]
    'surface'
    """
    folder = files("headscope") / "schemas"
    known = {entry.name.removesuffix(".json"): entry for entry in folder.iterdir()}
    if kind not in known:
        raise unknown("kind of result", kind, known)
    loaded: dict[str, Any] = json.loads(known[kind].read_text(encoding="utf-8"))
    return loaded
