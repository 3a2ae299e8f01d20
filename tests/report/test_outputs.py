"""Files: every ending, whole or not there, errors in one line."""

import json
import os
import stat
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pytest
from plotly.graph_objects import Figure

from headscope.errors import HeadscopeError
from headscope.report import (
    PAGE_ENDINGS,
    RESULT_ENDINGS,
    check_writable,
    outputs,
    write_report,
    write_result,
)
from headscope.results import DependencyResult, Result, SurfaceResult
from tests.synthetic import dependency, provenance, surface

SMALL = provenance(n_layers=2, n_heads=3)
RESULTS = [surface(SMALL), dependency(SMALL, labels=("nsubj", "obj", "det", "é:x", "case"))]


@pytest.fixture(params=RESULTS, ids=lambda result: result.kind)
def result(request):
    return request.param


def test_json_is_the_result(result, tmp_path):
    write_result(result, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == result.to_json()


def test_frames_come_back(result, tmp_path):
    write_result(result, tmp_path / "out.csv")
    write_result(result, tmp_path / "out.parquet")
    frame = result.to_frame()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame)
    again = pd.read_csv(tmp_path / "out.csv", encoding="utf-8")
    assert list(again.columns) == list(frame.columns)
    assert len(again) == len(frame)
    assert b"\r" not in (tmp_path / "out.csv").read_bytes()


def test_html_is_a_page_of_figures(result, tmp_path):
    write_result(result, tmp_path / "out.HTML")
    page = (tmp_path / "out.HTML").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("* plotly.js v") == 1


def test_nothing_but_the_file_is_left_and_others_may_read_it(tmp_path):
    before = os.umask(0o022)
    try:
        write_result(RESULTS[0], str(tmp_path / "out.json"))
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["out.json"]
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o644


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "file.json")
    write_result(RESULTS[0], tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real" / "file.json").read_text())["kind"] == "surface"


@pytest.mark.parametrize(
    ("failure", "seen"),
    [
        (OSError(28, "No space left"), HeadscopeError),
        (KeyboardInterrupt("No space"), KeyboardInterrupt),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_no_other(failure, seen, tmp_path, monkeypatch):
    def broken(source, target):
        raise failure

    target = tmp_path / "out.json"
    target.write_text("old")
    monkeypatch.setattr(outputs.os, "replace", broken)
    with pytest.raises(seen, match="No space"):
        write_result(RESULTS[0], target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_check_writable_leaves_nothing(tmp_path):
    check_writable(tmp_path / "out.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["out.txt", "out", "out.json.gz", ".json"])
def test_an_unknown_ending_lists_the_known_ones(name, tmp_path):
    for use in (check_writable, lambda path: write_result(RESULTS[0], path)):
        with pytest.raises(HeadscopeError, match=r"known endings: \.json, \.csv, .*\.pdf$"):
            use(tmp_path / name)


def test_a_report_is_html(tmp_path):
    write_report("<!doctype html>ß", tmp_path / "out.html")
    assert (tmp_path / "out.html").read_bytes() == "<!doctype html>ß".encode()
    with pytest.raises(HeadscopeError, match=r"ending '.json'; known endings: \.html$"):
        write_report("", tmp_path / "out.json")
    with pytest.raises(HeadscopeError, match=r"known endings: \.html$"):
        check_writable(tmp_path / "out.json", endings=PAGE_ENDINGS)


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(HeadscopeError, match="there is no folder .*nowhere$"):
        write_result(RESULTS[0], tmp_path / "nowhere" / "out.json")


def test_a_folder_of_that_name_is_told(tmp_path):
    (tmp_path / "out.json").mkdir()
    with pytest.raises(HeadscopeError, match="is there already and is not a file"):
        check_writable(tmp_path / "out.json")


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    def refused(self, **_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(outputs.Path, "touch", refused)
    with pytest.raises(HeadscopeError, match="cannot write .*out.json: Permission denied"):
        check_writable(tmp_path / "out.json")


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_pictures_without_kaleido_name_the_extra(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HeadscopeError, match=r'pip install "headscope\[images\]"'):
        write_result(RESULTS[0], tmp_path / f"out{ending}")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def with_kaleido(monkeypatch):
    monkeypatch.setattr(outputs.importlib.util, "find_spec", lambda name: name)


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_pictures_are_on_white_and_without_selector(
    ending, result, tmp_path, monkeypatch, with_kaleido
):
    drawn = []

    def draw(figure, *, format, **_):
        drawn.append((figure, format))
        return b"picture"

    monkeypatch.setattr(Figure, "to_image", draw)
    write_result(result, tmp_path / f"out{ending}")
    assert (tmp_path / f"out{ending}").read_bytes() == b"picture"
    ((figure, kind),) = drawn
    assert kind == ending.removeprefix(".")
    assert figure.layout.paper_bgcolor == "white"
    assert not figure.layout.updatemenus


@pytest.mark.parametrize(
    "empty", [SurfaceResult(SMALL, None, {}), DependencyResult(SMALL, None, {}, {})]
)
def test_nothing_to_score_is_a_picture_that_says_so(empty, tmp_path, monkeypatch, with_kaleido):
    monkeypatch.setattr(Figure, "to_image", lambda self, **_: self.layout.title.text.encode())
    write_result(empty, tmp_path / "out.svg")
    assert (tmp_path / "out.svg").read_bytes() == b"There was nothing to score."


def test_a_picture_that_cannot_be_drawn_is_told_in_one_line(tmp_path, monkeypatch, with_kaleido):
    def draw(figure, **_):
        raise RuntimeError("no browser\nand more")

    monkeypatch.setattr(Figure, "to_image", draw)
    with pytest.raises(HeadscopeError, match="svg picture: no browser; pictures need") as caught:
        write_result(RESULTS[0], tmp_path / "out.svg")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@dataclass(frozen=True)
class Other(Result):
    kind: ClassVar[str] = "other"
    definition: ClassVar[str] = ""

    def values(self):
        return {}

    intervals = nulls = to_frame = values


def test_other_kinds_have_no_picture(tmp_path, with_kaleido):
    with pytest.raises(HeadscopeError, match="no picture of a result of kind 'other'"):
        write_result(Other(SMALL, None), tmp_path / "out.svg")


def test_every_ending_has_a_writer():
    assert set(RESULT_ENDINGS) == set(outputs._MAKERS)
