"""What commands do around their analysis."""

import os
import signal
import subprocess
import sys

import pytest

from headscope.cli import Options
from headscope.commands import session
from headscope.errors import HeadscopeError
from headscope.extraction.launch import Launch


def test_settings_come_from_the_options():
    given = Options(seed=3, control="shuffled-words", batch_tokens=64, target="copy")
    settings = session.settings_of(given)
    assert (settings.seed, settings.control, settings.batch_tokens) == (3, "shuffled-words", 64)
    assert settings.target == "copy"


def test_outputs_are_checked_before_anything_runs(tmp_path):
    with pytest.raises(HeadscopeError, match="there is no folder"):
        session.check_outputs([tmp_path / "no" / "x.json"])
    session.check_outputs([tmp_path / "x.json"])
    assert list(tmp_path.iterdir()) == []


def test_quiet_notes_say_nothing(capsys):
    session.note("hello [b]", Options(quiet=True))
    assert capsys.readouterr().err == ""
    session.note("hello [b] :100: :cat:", Options())
    assert capsys.readouterr().err == "hello [b] :100: :cat:\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with session.progress(10, Options()) as progress:
        assert (progress is not None) is terminal
        if progress is not None:
            progress(4, 100)
            progress(6, 100)


def test_ranks_but_the_first_print_and_write_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(session, "launch", lambda: Launch(1, 2))
    path = tmp_path / "no" / "x.html"
    session.check_outputs([path])
    session.only_html(path)
    session.deliver(None, [path], Options())
    session.deliver(None, None, Options())
    session.write_page(None, path, Options())
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_gone_ends_the_command_as_the_signal_would(ewt):
    command = [sys.executable, "-m", "headscope", "surface", "demo", str(ewt), "--limit", "2"]
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert ran.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in ran.stderr


def test_progress_counts_what_the_data_hold(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    (column,) = [c for c in session._bar("rows").columns if "rate" in getattr(c, "text_format", "")]
    assert column.text_format.startswith("rows, ")
