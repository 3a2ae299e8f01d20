"""The shell of a page."""

import base64
import hashlib
import re

from headscope.report.document import asset, page, policy

STYLES = ("base.css", "figures.css", "report.css", "table.css", "explorer.css", "print.css")
SCRIPTS = ("theme.js", "figures.js", "table.js", "sentences.js", "arcs.js", "explorer.js")
EMPTY = {"body": "", "styles": (), "scripts": ()}


def test_plotly_is_embedded_once_and_only_on_demand():
    with_figures = page(title="t", plotly=True, **EMPTY)
    assert with_figures.count("* plotly.js v") == 1
    assert "plotly.js v" not in page(title="t", plotly=False, **EMPTY)


def test_the_title_is_escaped():
    assert "<title>&lt;img src=x&gt;</title>" in page(title="<img src=x>", plotly=False, **EMPTY)


def test_the_policy_allows_exactly_the_scripts_of_the_page():
    whole = page(title="t", body="", styles=("base.css",), scripts=("theme.js",), plotly=False)
    (script,) = re.findall(r"<script>(.*?)</script>", whole, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (meta,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', whole)
    assert f"script-src 'sha256-{digest}';" in meta
    assert meta.startswith("default-src 'none';")
    script_rule = meta.split("script-src")[1].split(";")[0]
    assert "unsafe" not in script_rule
    assert "http" not in meta


def test_no_script_is_no_permission():
    assert "script-src ;" in policy([])


def test_assets_are_self_contained():
    for name in STYLES:
        assert not re.search(r"url\(|@import|https?:", asset(name)), name
    for name in SCRIPTS:
        found = re.sub(r'"http://www\.w3\.org/2000/svg"', "", asset(name))
        assert not re.search(r"https?:|fetch\(|XMLHttpRequest|\beval\b|import ", found), name
        assert "</script" not in found, name


def test_text_is_never_written_as_markup_by_scripts():
    for name in set(SCRIPTS) - {"figures.js"}:
        assert "innerHTML" not in asset(name), name


def test_scripts_and_files_stay_short():
    for name in (*SCRIPTS, *STYLES):
        assert len(asset(name).splitlines()) <= 400, name
