"""The bytes of a data file: there or not, plain or gzip, UTF-8 or not; files written whole."""

from __future__ import annotations

import codecs
import difflib
import gzip
import hashlib
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from headscope.errors import HeadscopeError, ParseError

_GZIP_MAGIC = b"\x1f\x8b"
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 4096
_PIECE_BYTES = 1 << 16
_NUL_SHARE = 0.05  # text in UTF-16 without a mark has one NUL in two bytes, a stray NUL is rarer


def check_file(path: Path) -> None:
    """Refuses, in one line, what is no data file: missing, a folder, a pipe, empty, binary."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ParseError(path, None, "no such file", "a data file", _near_names(path)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(mode):
        raise ParseError(path, None, "a folder", "a data file", "name a file inside it")
    if not stat.S_ISREG(mode):
        raise ParseError(
            path, None, "a device or pipe", "a regular file, read more than once", "save it first"
        )
    with open_bytes(path) as handle:
        head = handle.read(_HEAD_BYTES)
    if not head:
        raise ParseError(path, None, "an empty file", "sentences", "check the download")
    if head.startswith(_UTF_16_MARKS):
        raise _not_utf8(path, 1, 0, "text in UTF-16")
    if _is_binary(head):
        raise ParseError(path, None, "binary data", "text in UTF-8", "give a text file")


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The content as a binary stream, gzip undone where, and only where, the name ends in `.gz`."""
    try:
        plain = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with plain:
        zipped = plain.read(2) == _GZIP_MAGIC
        plain.seek(0)
        if path.suffix == ".gz":
            if not zipped and path.stat().st_size:
                raise ParseError(path, None, "no gzip data", "gzip, as the name says", "rename it")
            with gzip.open(plain) as stream:
                try:
                    yield cast(IO[bytes], stream)
                except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                    raise ParseError(
                        path, None, f"broken gzip data ({error})", "a whole gzip file",
                        "download it again",
                    ) from None  # fmt: skip
            return
        if zipped:
            raise ParseError(
                path, 1, "gzip data", "plain text", f"rename it to '{path.name}.gz' or gunzip it"
            )
        yield plain


def lines(path: Path) -> Iterator[str]:
    """The lines with their ends, split at line feeds only; raises ParseError where not UTF-8."""
    start = 0
    with open_bytes(path) as handle:
        for number, raw in enumerate(handle, 1):
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, start + error.start) from None
            start += len(raw)
            yield text


def pieces(path: Path) -> Iterator[str]:
    """The text in pieces of at most 64 KiB, however long its lines; no byte-order mark."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    start, line = 0, 1
    with open_bytes(path) as handle:
        while True:
            raw = handle.read(_PIECE_BYTES)
            waiting = len(decoder.getstate()[0])
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise _not_utf8(path, line, start - waiting + error.start) from None
            if text:
                yield text.removeprefix("\ufeff") if start == 0 else text
            if not raw:
                return
            start += len(raw)
            line += text.count("\n")


def fingerprint(path: Path) -> str:
    """SHA-256 of the file as it lies on disk, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


UNFINISHED = ".headscope-*.part"
"""Names of files that are being written, as a pattern."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name, replacing another, once the block has ended well.

    Raises:
        HeadscopeError: it cannot be written.
    """
    temporary = path.parent / UNFINISHED.replace("*", secrets.token_hex(6))
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise HeadscopeError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def shown(text: str, limit: int = 40) -> str:
    """The text quoted for a message: control characters escaped, cut after `limit` characters.

    >>> shown("a" * 50, limit=3)
    "'aaa...'"
    """
    return repr(text if len(text) <= limit else text[:limit] + "...")


def _unreadable(path: Path, error: OSError) -> ParseError:
    reason = error.strerror or str(error)
    return ParseError(path, None, f"a file that cannot be read ({reason})", "a readable file")


def _near_names(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder '{path.parent}'"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    near = difflib.get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else "check the path"


def _is_binary(head: bytes) -> bool:
    n_nul = head.count(0)
    if n_nul > _NUL_SHARE * len(head):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return n_nul > 0
    return False


def _not_utf8(path: Path, line: int, byte: int, what: str = "text that is not UTF-8") -> ParseError:
    found = f"{what} (byte {byte} of the file)"
    return ParseError(path, line, found, "text in UTF-8", "convert it, as with iconv")
