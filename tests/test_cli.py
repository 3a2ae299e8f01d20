"""The application around the commands: help, version, shared options, how errors are told."""

import sys
from dataclasses import fields

import pytest

import headscope
from headscope import cli
from headscope.errors import HeadscopeError


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["headscope", *arguments])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code or 0, capsys.readouterr()

    return call


def test_help_names_the_commands(run):
    code, told = run("--help")
    assert code == 0
    for command in ("report", "surface", "dependency"):
        assert command in told.out


@pytest.mark.parametrize("command", ["report", "surface", "dependency"])
def test_help_of_a_command_has_examples_and_every_shared_option(run, command):
    code, told = run(command, "--help")
    assert code == 0
    assert f"headscope {command} demo demo" in told.out
    for item in fields(cli.Options):
        assert f"--{item.name.replace('_', '-')}" in told.out


def test_version(run):
    code, told = run("--version")
    assert (code, told.out.strip()) == (0, f"headscope {headscope.__version__}")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (HeadscopeError("what to do [b]"), 2, "headscope: what to do [b]\n"),
        (cli.Interrupted(), 130, "headscope: interrupted; nothing was written\n"),
        (KeyboardInterrupt(), 130, "headscope: interrupted; nothing was written\n"),
        (OSError(28, "No space left on device", "x.json"), 2, "headscope: x.json: No space left"),
        (MemoryError(), 2, "headscope: memory ran out; lower --batch-tokens"),
        (RuntimeError("two\nlines"), 1, "headscope: RuntimeError: two lines (a fault of headscope"),
    ],
)
def test_errors_are_one_line(run, monkeypatch, error, code, message):
    def fail(**_):
        raise error

    monkeypatch.delenv("HEADSCOPE_DEBUG", raising=False)
    monkeypatch.setattr(cli, "app", fail)
    found, told = run()
    assert found == code
    assert told.err.startswith(message)
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["surface", "demo"], "Missing argument 'DATA'; headscope surface --help tells"),
        (["surface", "demo", "demo", "--limit", "abc"], "Invalid value for '--limit': "),
        (["surface", "demo", "demo", "--quite"], "No such option: --quite (Possible options: --qu"),
        (["surfac", "demo", "demo"], "No such command 'surfac'. Did you mean 'surface'?"),
    ],
)
def test_a_wrong_command_line_is_one_line(run, arguments, message):
    code, told = run(*arguments)
    assert code == 2
    assert told.err.startswith(f"headscope: {message}")
    assert told.err.count("\n") == 1
    assert not told.out


def test_nothing_at_all_shows_the_help(run):
    code, told = run()
    assert code == 2
    assert "dependency" in told.out + told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.conllu", "--device", "gpu"], "unknown device 'gpu'"),
        (["missing.conllu", "--dtype", "float23"], "unknown dtype 'float23'"),
        ([""], "DATA: found an empty name; expected a data file or demo"),
    ],
)
def test_settings_are_checked_before_the_data(run, arguments, message):
    code, told = run("surface", "demo", *arguments)
    assert (code, told.err.startswith(f"headscope: {message}")) == (2, True)


def test_debugging_shows_the_traceback(monkeypatch):
    def fail(**_):
        raise RuntimeError("inside")

    monkeypatch.setenv("HEADSCOPE_DEBUG", "1")
    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(RuntimeError, match="inside"):
        cli.main()
