"""`import headscope` and the command line's help stay light; public names still resolve."""

import ast
import inspect
import subprocess
import sys

import pytest

import headscope

HEAVY = ("torch", "transformers", "pandas", "plotly", "spacy", "numpy")


def loaded_by(code):
    """Which heavy packages a fresh interpreter has loaded after running the code."""
    report = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()


def test_the_check_sees_what_is_loaded():
    assert "numpy" in loaded_by("import numpy")


def test_import_headscope_loads_nothing_heavy():
    assert loaded_by("import headscope; dir(headscope); headscope.__version__") == []


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_command_line_answers_without_loading_models(option):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['headscope', {option!r}]\n"
        "try:\n"
        "    runpy.run_module('headscope', run_name='__main__')\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code"
    )
    assert not {"torch", "transformers", "plotly", "spacy"} & set(loaded_by(code))


@pytest.mark.parametrize("name", headscope.__all__)
def test_every_public_name_resolves(name):
    assert getattr(headscope, name) is not None
    assert name in dir(headscope)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'headscope' has no attribute 'nope'"):
        _ = headscope.nope


def test_type_checkers_are_told_the_same_names_from_the_same_modules():
    tree = ast.parse(inspect.getsource(headscope))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {alias.asname: node.module for node in guarded.body for alias in node.names}
    assert told == headscope._HOMES
