"""Text that goes into a page: everything a file, a model or a person named is inert in it."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from headscope.visualize.labels import head_name

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


def head_link(layer: int, head: int, *, linked: bool, **more: object) -> str:
    """The name of an attention head; where the page has an explorer, a button that opens it there.

    >>> head_link(3, 10, linked=False)
    '<span class="head">3.10</span>'
    """
    name = head_name(layer, head)
    if not linked:
        return element("span", name, class_="head")
    label = f"look at attention head {name} in a sentence"
    places = {"data_layer": layer, "data_head": head, "title": label}
    return element("button", name, type="button", class_="head", **places, **more)


def bar(
    value: float | None,
    ends: tuple[float, float] | None = None,
    *,
    baseline: float | None = None,
    significant: bool = False,
) -> str:
    """A small bar from 0 to 1 with its interval as a line and a baseline as a tick."""
    if value is None:
        return ""
    style = f"--value:{value:.4f}"
    if ends is not None:
        style += f";--low:{ends[0]:.4f};--high:{ends[1]:.4f}"
    marks = element("i", "", class_="fill")
    marks += element("i", "", class_="spread") if ends is not None else ""
    if baseline is not None:
        style += f";--baseline-at:{baseline:.4f}"
        marks += element("i", "", class_="tick")
    kind = "bar clear" if significant else "bar"
    return element("span", marks, class_=kind, style=style, aria_hidden="true")
