"""The command line, called in this process as a user would call it."""

import sys

import pytest

from headscope import cli


class Ran:
    """Exit code and what was printed."""

    def __init__(self, code, captured):
        self.code, self.out, self.err = code, captured.out, captured.err


@pytest.fixture
def headscope(monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder and returns what it left; never a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADSCOPE_DEBUG", raising=False)

    def run(*arguments):
        capsys.readouterr()  # what preparing the test printed
        monkeypatch.setattr(sys, "argv", ["headscope", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        ran = Ran(code, capsys.readouterr())
        assert "Traceback" not in ran.out + ran.err
        return ran

    return run
