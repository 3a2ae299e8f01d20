import gzip
import hashlib
import os

import pytest

from headscope.datasets import files
from headscope.errors import HeadscopeError, InputError


def write(tmp_path, content, name="x.txt"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_lines_end_at_line_feeds_only(tmp_path):
    text = "a\x0bb\x0c\x1c\x85\u2028c\rd\r\n\ne"
    path = write(tmp_path, text.encode())
    assert list(files.lines(path)) == ["a\x0bb\x0c\x1c\x85\u2028c\rd\r\n", "\n", "e"]


def test_gzip_is_undone_by_suffix(tmp_path):
    path = write(tmp_path, gzip.compress(b"a\nb\n", mtime=0), "x.txt.gz")
    files.check_file(path)
    assert list(files.lines(path)) == ["a\n", "b\n"]
    assert "".join(files.pieces(path)) == "a\nb\n"


def test_pieces_join_to_the_text_even_where_they_cut_a_character(tmp_path):
    text = "\ufeff" + "가나다 é\n" * 30_000
    pieces = list(files.pieces(write(tmp_path, text.encode())))
    assert len(pieces) > 3
    assert "".join(pieces) == text[1:]


def test_fingerprint_is_of_the_bytes_on_disk(tmp_path):
    packed = gzip.compress(b"a", mtime=0)
    path = write(tmp_path, packed, "x.gz")
    assert files.fingerprint(path) == hashlib.sha256(packed).hexdigest()


def test_shown_escapes_and_cuts():
    assert files.shown("a\tb\n") == r"'a\tb\n'"
    assert files.shown("x" * 41) == f"'{'x' * 40}...'"


@pytest.mark.parametrize(
    ("content", "name", "match"),
    [
        (b"", "x.txt", "x.txt: found an empty file; expected sentences"),
        (b"", "x.txt.gz", "an empty file"),
        (gzip.compress(b"", mtime=0), "x.txt.gz", "an empty file"),
        (
            gzip.compress(b"a", mtime=0),
            "x.txt",
            r"x.txt:1: found gzip data; .* rename it to 'x.txt.gz'",
        ),
        (b"plain", "x.txt.gz", "no gzip data"),
        (gzip.compress(b"a" * 99, mtime=0)[:-5], "x.gz", "broken gzip data"),
        (gzip.compress(b"a" * 99, mtime=0)[:12] + b"\xff" * 30, "x.gz", "broken gzip data"),
        (b"PK\x03\x04\x00\x00\xff\xfe", "x.txt", "binary data"),
        (b"\xff\x00" + b"a" * 4000, "x.txt", "binary data"),
        ("a b".encode("utf-16-le"), "x.txt", "binary data"),
        ("a b".encode("utf-16"), "x.txt", r"x.txt:1: found text in UTF-16 \(byte 0"),
    ],
)
def test_refused(tmp_path, content, name, match):
    with pytest.raises(InputError, match=match) as info:
        files.check_file(write(tmp_path, content, name))
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("read", [files.lines, files.pieces])
def test_not_utf8_is_told_with_line_and_byte(tmp_path, read):
    content = b"abc\n" * 50_000 + "caf\u00e9 x".encode("latin-1")
    path = write(tmp_path, content)
    files.check_file(path)  # the first bytes are good
    with pytest.raises(InputError, match=r"x.txt:50001: .* not UTF-8 \(byte 200003 of the file\)"):
        list(read(path))


@pytest.mark.parametrize("read", [files.lines, files.pieces])
def test_a_character_cut_off_at_the_end_is_not_utf8(tmp_path, read):
    with pytest.raises(InputError, match=r"x.txt:2: .*\(byte 3 of"):
        list(read(write(tmp_path, b"ab\n\xea\xb0")))


def test_missing_file_names_near_ones(tmp_path):
    write(tmp_path, b"a", "en_ewt-dev.conllu")
    with pytest.raises(InputError, match=r"no such file; .*did you mean 'en_ewt-dev.conllu'\?"):
        files.check_file(tmp_path / "en_ewt-dv.conllu")
    with pytest.raises(InputError, match="check the path"):
        files.check_file(tmp_path / "quite-other")
    with pytest.raises(InputError, match="there is no folder"):
        files.check_file(tmp_path / "no" / "x.txt")
    with pytest.raises(InputError, match="there is no folder"):
        files.check_file(tmp_path / "en_ewt-dev.conllu" / "x.txt")


def test_folder_and_pipe_are_refused(tmp_path):
    with pytest.raises(InputError, match="found a folder"):
        files.check_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a device or pipe"):
        files.check_file(tmp_path / "pipe")


def test_unreadable(tmp_path, monkeypatch):
    path = write(tmp_path, b"a")
    with pytest.raises(InputError, match=r"cannot be read \(File name too long\)"):
        files.check_file(tmp_path / ("x" * 300))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        files.check_file(path)
    monkeypatch.setattr(type(path), "iterdir", refuse)
    with pytest.raises(InputError, match="check the path"):
        files.check_file(tmp_path / "y.txt")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "f"
    with files.whole_file(path) as file:
        file.write(b"one")
        assert not path.exists()
        assert [entry.match(files.UNFINISHED) for entry in tmp_path.iterdir()] == [True]
    assert path.read_bytes() == b"one"

    def fail():
        with files.whole_file(path) as file:
            file.write(b"two")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"one", [path])


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    with (
        pytest.raises(HeadscopeError, match="cannot write .*no/f: No such file or directory"),
        files.whole_file(tmp_path / "no" / "f"),
    ):
        pass
