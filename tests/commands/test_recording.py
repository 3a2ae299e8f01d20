"""What `headscope record` does around the call of the library."""

import pytest

from headscope.cli import Interrupted, Options
from headscope.commands import recording
from headscope.errors import HeadscopeError
from headscope.extraction.record import writing
from headscope.extraction.record.identity import RecordSettings

PLAIN = {"level": "subword", "rows": "mean", "precision": "float32"}


@pytest.mark.parametrize(("text", "numbers"), [("", ()), ("6", (6,)), ("6, 0", (6, 0))])
def test_hidden_states_are_numbers_between_commas(text, numbers):
    settings = recording.settings_of(Options(batch_tokens=9), **PLAIN, hidden_states=text)
    assert settings == RecordSettings(hidden_states=numbers, batch_tokens=9)


@pytest.mark.parametrize("text", ["x", "1,", "1 2"])
def test_other_text_is_refused(text):
    with pytest.raises(HeadscopeError, match="expected numbers such as 0,6"):
        recording.settings_of(Options(), **PLAIN, hidden_states=text)


def test_ctrl_c_says_what_is_kept(monkeypatch, tmp_path, ewt):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "record", stop)
    out = tmp_path / "r"
    with pytest.raises(Interrupted, match="whole shards in .*r are kept, and the same command"):
        recording.record("demo", str(ewt), out, RecordSettings(), Options(quiet=True))
