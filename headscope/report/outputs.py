"""Results and pages on disk: the ending says what is written, and a file is whole or not there."""

from __future__ import annotations

import importlib.util
import io
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from plotly.graph_objects import Figure

from headscope.errors import HeadscopeError
from headscope.report.figures import figure_page
from headscope.results import DependencyResult, Result, SurfaceResult
from headscope.visualize import best_heads, surface_maps

PICTURES = (".svg", ".png", ".pdf")
RESULT_ENDINGS = (".json", ".csv", ".parquet", ".html", *PICTURES)
PAGE_ENDINGS = (".html",)


def write_result(result: Result, path: str | Path) -> None:
    """Write a result as its file's ending says, replacing the file in one step.

    `.json` the result; `.csv`, `.parquet` its frame; `.html` its figures as a page that needs no
    network; `.svg`, `.png`, `.pdf` a picture of its main figure (extra `images`).

    Raises:
        HeadscopeError: unknown ending, a folder that is not there or cannot be written, a picture
            without kaleido or without a browser.
    """
    target = Path(path)
    ending = _ending(target, RESULT_ENDINGS)
    check_writable(target)
    _replace(target, _MAKERS[ending](result))


def write_report(html: str, path: str | Path) -> None:
    """Write a page, replacing the file in one step.

    Raises:
        HeadscopeError: another ending than `.html`, or a folder that cannot be written.
    """
    target = Path(path)
    check_writable(target, endings=PAGE_ENDINGS)
    _replace(target, html.encode())


def check_writable(path: str | Path, *, endings: tuple[str, ...] = RESULT_ENDINGS) -> None:
    """Fail now rather than after a long analysis; leaves nothing behind.

    Args:
        path: the file that will be written.
        endings: those that are known for what will be written, such as PAGE_ENDINGS.

    Raises:
        HeadscopeError: whatever `write_result` would raise about the path.
    """
    target = Path(path)
    ending = _ending(target, endings)
    if ending in PICTURES and importlib.util.find_spec("kaleido") is None:
        raise HeadscopeError(
            f'cannot write {target}: pictures need kaleido; pip install "headscope[images]"'
        )
    folder = target.parent
    if not folder.is_dir():
        raise HeadscopeError(f"cannot write {target}: there is no folder {folder}")
    if target.exists() and not target.is_file():
        raise HeadscopeError(f"cannot write {target}: it is there already and is not a file")
    # Permission bits say too little (root, read-only file systems), so a file is tried.
    trial = _temporary(target)
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise HeadscopeError(f"cannot write {target}: {error.strerror or error}") from error


def _ending(target: Path, endings: tuple[str, ...]) -> str:
    ending = target.suffix.lower()
    if ending not in endings:
        found = f"ending '{ending}'" if ending else "no ending"
        raise HeadscopeError(f"cannot write {target}: {found}; known endings: {', '.join(endings)}")
    return ending


def _replace(target: Path, content: bytes) -> None:
    """Write beside the target, then put it in its place; a link stays a link."""
    place = target.resolve()
    temporary = _temporary(place)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise HeadscopeError(f"cannot write {target}: {error.strerror or error}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _temporary(target: Path) -> Path:
    return target.parent / f".headscope-{secrets.token_hex(6)}.part"


def _json(result: Result) -> bytes:
    return result.to_json().encode()


def _csv(result: Result) -> bytes:
    return result.to_frame().to_csv(index=False, lineterminator="\n").encode()


def _parquet(result: Result) -> bytes:
    buffer = io.BytesIO()
    result.to_frame().to_parquet(buffer, index=False)
    return buffer.getvalue()


def _html(result: Result) -> bytes:
    return figure_page(result).encode()


def _picture(kind: str) -> Callable[[Result], bytes]:
    def draw(result: Result) -> bytes:
        figure = _main_figure(result)
        figure.update_layout(paper_bgcolor="white", font_color="#24272d")
        figure.layout.updatemenus = None
        try:
            picture: bytes = figure.to_image(format=kind, width=1200, scale=2)
        # Kaleido drives a browser, whose failures come as errors of many kinds.
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise HeadscopeError(
                f"cannot draw the {kind} picture: {reason}; pictures need kaleido and an "
                'installed Chromium or Chrome; pip install "headscope[images]"'
            ) from error
        return picture

    return draw


def _main_figure(result: Result) -> Figure:
    if isinstance(result, SurfaceResult) and result.measures:
        return surface_maps(result)
    if isinstance(result, DependencyResult) and result.relations:
        return best_heads(result)
    if isinstance(result, SurfaceResult | DependencyResult):
        return Figure(layout={"title": "There was nothing to score.", "height": 200})
    raise HeadscopeError(f"there is no picture of a result of kind '{result.kind}'")


_MAKERS: Mapping[str, Callable[[Result], bytes]] = {
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
    ".html": _html,
    ".svg": _picture("svg"),
    ".png": _picture("png"),
    ".pdf": _picture("pdf"),
}
