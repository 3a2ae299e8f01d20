"""The part of a record that is data: manifest and sentences, read without any model."""

import hashlib
import json
from dataclasses import fields, replace

import pytest

from headscope.datasets import Sentence, open_corpus
from headscope.datasets.records import (
    MANIFEST,
    SENTENCES,
    Manifest,
    Part,
    check_size,
    is_record,
    open_record,
    read_manifest,
    read_sentences,
    refuse_other,
    sentence_line,
    write_manifest,
)
from headscope.errors import InputError, ParseError

DATA = {"name": "t.conllu", "sha256": "ab" * 32, "format": "conllu", "unit": "document"}
DATA |= {"annotation": "gold", "note": "only two"}


def put(folder, sentences, **changes):
    """A record without shards."""
    content = b"".join(map(sentence_line, sentences))
    (folder / SENTENCES).write_bytes(content)
    part = Part(SENTENCES, len(content), hashlib.sha256(content).hexdigest(), len(sentences))
    manifest = Manifest("finished", {"level": "word"}, {}, DATA, (), ("bad one",), part)
    write_manifest(folder, replace(manifest, **changes))
    return folder


@pytest.fixture
def sentences(ewt):
    return list(open_corpus(ewt, limit=5).read())


def test_sentences_come_back_with_every_field(tmp_path, sentences):
    target = replace(sentences[1], label="x")
    odd = replace(
        sentences[0],
        target=target,
        n_first=2,
        words=("\ud800", "a\u2028b", '"\\', "\u200b"),
        sent_id="é",
    )
    path = tmp_path / "s"
    path.write_bytes(b"".join(map(sentence_line, [odd, *sentences])))
    assert list(read_sentences(path)) == [odd, *sentences]
    assert json.loads(sentence_line(odd)).keys() == {item.name for item in fields(Sentence)}


def test_a_line_that_is_no_sentence_is_told(tmp_path, sentences):
    path = tmp_path / "s"
    for line in (b"[1]", b"{", b'{"words": ["a"]}'):
        path.write_bytes(sentence_line(sentences[0]) + line + b"\n")
        with pytest.raises(ParseError, match=f"{path}:2: found no sentence"):
            list(read_sentences(path))


def test_a_record_opens_as_the_data_it_was_made_of(tmp_path, sentences):
    corpus = open_corpus(put(tmp_path, sentences))
    assert list(corpus.read()) == sentences
    for name, value in DATA.items():
        assert getattr(corpus, name) == value
    assert (corpus.record, corpus.n_sentences, corpus.skipped) == (tmp_path, 5, ["bad one"])
    assert list(open_corpus(tmp_path, limit=2).read()) == sentences[:2]
    assert open_corpus(tmp_path, limit=2).note == "only two; only the first 2 sentences"


def test_a_record_has_a_format_of_its_own(tmp_path, sentences):
    put(tmp_path, sentences)
    with pytest.raises(InputError, match="found a record; expected neither --format"):
        open_corpus(tmp_path, format="conllu")


def test_the_manifest_comes_back_and_does_not_depend_on_the_clock(tmp_path, sentences):
    manifest = read_manifest(put(tmp_path, sentences))
    before = (tmp_path / MANIFEST).read_bytes()
    write_manifest(tmp_path, manifest)
    assert (tmp_path / MANIFEST).read_bytes() == before
    assert read_manifest(tmp_path) == manifest


def test_a_folder_without_manifest_is_no_record(tmp_path):
    assert not is_record(tmp_path)
    with pytest.raises(ParseError, match="found a folder"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('{\n "broken"', '{{\n "broken"', "found no JSON"),
        ('"kind": "record"', '"kind": "surface"', "found another kind of file"),
        ('"version": 2', '"version": 1', "found a record of version 1; expected version 2"),
        ('"shards"', '"shard"', "found wrong entries"),
        ('"level": "word"', '"level": "subword"', "over an identity of"),
    ],
)
def test_a_broken_manifest_is_one_line(tmp_path, sentences, old, new, found):
    path = put(tmp_path, sentences) / MANIFEST
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ParseError, match=found) as caught:
        open_corpus(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_unfinished_record_is_no_data(tmp_path, sentences):
    put(tmp_path, sentences, status="unfinished")
    with pytest.raises(
        ParseError, match="found an unfinished record of 0 shards; expected a whole"
    ):
        open_record(tmp_path)


def test_files_must_have_the_size_that_the_manifest_says(tmp_path):
    part = Part("s", 3, "", 1)
    with pytest.raises(ParseError, match="s: found no file; expected 3 bytes, as the manifest"):
        check_size(tmp_path, part)
    (tmp_path / "s").write_bytes(b"12")
    with pytest.raises(ParseError, match="s: found 2 bytes; expected 3 bytes"):
        check_size(tmp_path, part)
    (tmp_path / "s").write_bytes(b"123")
    check_size(tmp_path, part)


def test_everything_that_differs_is_named(tmp_path):
    before = {"a": 1, "b": "x", "c": "0" * 64, "gone": True}
    refuse_other(tmp_path, before, dict(before))
    with pytest.raises(InputError) as caught:
        refuse_other(tmp_path, before, {"a": 2, "b": "x", "c": "1" * 64})
    assert (
        "a 1 there, 2 now; c 000000000000 there, 111111111111 now; gone true there, null now"
        in str(caught.value)
    )
