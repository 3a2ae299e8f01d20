"""The documentation names everything there is, and what it shows exists."""

import ast
import re
from pathlib import Path

import pytest
import typer

from headscope import __version__, commands
from headscope.cli import app
from headscope.extraction.checkpoint import REFUSED
from headscope.extraction.measures import MEASURES
from headscope.report.outputs import RESULT_ENDINGS
from tests.extraction.families import FAMILY

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
COMMANDS = {name: typer.main.get_command(app).commands[name] for name in commands.__all__}


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def prose(name):
    """A page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", text_of(name), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_and_help(name):
    assert re.search(rf"^headscope {name} ", text_of("README.md"), re.MULTILINE)
    assert COMMANDS[name].help


def options():
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from ((name, option) for option in parameter.opts)


@pytest.mark.parametrize(("command", "option"), sorted(options()))
def test_every_option_is_documented(command, option):
    found = re.search(rf"(?<![\w-]){option}(?![\w-])", text_of("README.md"))
    assert found is not None, f"{command} {option}"


def test_every_documented_option_exists():
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", prose("README.md")))
    assert named <= {option for _, option in options()} | {"--version", "--help"}


@pytest.mark.parametrize("name", list(MEASURES))
def test_every_measure_is_in_the_glossary_with_its_unit(name):
    (row,) = re.findall(rf"^\| `{name}` \|.*$", text_of("docs/glossary.md"), re.MULTILINE)
    assert f"| {MEASURES[name].units} |" in row


def test_the_glossary_has_no_measure_that_is_not_there():
    table = text_of("docs/glossary.md").split("\n## ")[1]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(MEASURES)


@pytest.mark.parametrize("ending", RESULT_ENDINGS)
def test_every_kind_of_output_is_documented(ending):
    assert f"`{ending}`" in text_of("README.md")


def test_every_family_is_documented():
    table = text_of("docs/models.md")
    assert [name for name in FAMILY if f"| `{name}` |" not in table] == []
    refused = table.split("## What is refused")[1].lower().replace("ö", "o")
    assert [name for name in REFUSED if name not in refused] == []


def anchors(text):
    """GitHub's anchors of the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_exist(page):
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page.relative_to(ROOT)))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, page.name, "exec"), {})
    assert blocks or page.name != "README.md"


def test_output_is_shown_where_it_is_promised():
    empty = re.findall(r"<!-- output: \w+ -->(?!\n+(?:```|!\[))", text_of("README.md"))
    assert empty == []


def test_version_is_the_same_everywhere():
    assert f"\nversion: {__version__}\n" in text_of("CITATION.cff")
    assert f"## [{__version__}]" in text_of("CHANGELOG.md")


def skip_reasons(source):
    """The fixed beginning of the reason of every skip in a test file."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", None)
        named = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
        if name in ("skip", "skipif", "importorskip", "xfail"):
            given = named or (node.args[:1] if name == "skip" else [])
            yield given[0] if given else None


def words_of(reason):
    if isinstance(reason, ast.JoinedStr):
        reason = reason.values[0]
    return str(reason.value).strip() if isinstance(reason, ast.Constant) else ""


def test_every_skip_is_listed_with_what_lifts_it():
    listed = re.findall(r'^\| [^|]*"([^"|]+)" \|', text_of("CONTRIBUTING.md"), re.MULTILINE)
    paths = [path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)]
    found = [
        (path.name, words_of(reason))
        for path in paths
        for reason in skip_reasons(path.read_text(encoding="utf-8"))
    ]
    assert [item for item in found if not item[1].startswith(tuple(listed))] == []
    assert [text for text in listed if not any(words.startswith(text) for _, words in found)] == []
