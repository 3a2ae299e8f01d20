"""Text that goes into a page: everything a file, a model or a person named is inert in it."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_IN_SCRIPT = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def text(value: object) -> str:
    """The value as HTML text or as the value of a quoted attribute.

    >>> text('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    return escape(str(value), quote=True)


def json_text(value: Any) -> str:
    r"""JSON that may stand inside a script element: no `<`, no `&`, no line separators.

    >>> json_text("</script>")
    '"\\u003c/script\\u003e"'
    """
    return json_inert(json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True))


def json_inert(document: str) -> str:
    """The same for a JSON document that is already text; these signs stand only within strings."""
    return document.translate(_IN_SCRIPT)


def data_block(name: str, document: str) -> str:
    """A block of JSON data that scripts find by its id and that is never run."""
    return f'<script type="application/json" id="{text(name)}">{document}</script>'


def element(tag: str, content: str, **attributes: object) -> str:
    """One element around markup; a trailing underscore and `_` for `-` as usual, None leaves out.

    >>> element("td", text("a<b"), class_="name", data_key=3)
    '<td class="name" data-key="3">a&lt;b</td>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{content}</{tag}>"
