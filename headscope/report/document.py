"""The shell of a page: one HTML file with its styles, scripts and data inside, nothing to fetch."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from plotly.offline import get_plotlyjs

from headscope.report.markup import text


def page(
    *, title: str, body: str, styles: Sequence[str], scripts: Sequence[str], plotly: bool
) -> str:
    """A whole HTML document.

    Args:
        title: plain text for the browser's tab.
        body: markup, everything in it escaped already.
        styles: asset files, in order.
        scripts: asset files, in order, run once the body is there.
        plotly: whether the page draws figures and needs Plotly's library, which is embedded once.
    """
    sources = [asset(name) for name in scripts]
    if plotly:
        sources.insert(0, get_plotlyjs())
    style = "\n".join(asset(name) for name in styles)
    run = "\n".join(f"<script>{source}</script>" for source in sources)
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(sources)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{text(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n{body}\n{run}\n</body>\n</html>\n"
    )


def asset(name: str) -> str:
    """The text of a style sheet or script that comes with this package."""
    return files("headscope.report").joinpath("assets", name).read_text(encoding="utf-8")


def policy(sources: Sequence[str]) -> str:
    """Content security policy: no network at all, and of scripts only these very texts.

    Should a name ever slip through unescaped, the browser still would not run it. `blob:` is what
    Plotly's button for saving a picture draws from.
    """
    digests = " ".join(f"'sha256-{_digest(source)}'" for source in sources)
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
