"""Tables of texts: one row is one sentence, its words those of the first text, then the second."""

import csv
import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from headscope.datasets import columns_of, open_corpus, pairs
from headscope.errors import HeadscopeError, InputError, ParseError

HOSTILE = Path(__file__).resolve().parents[1] / "data" / "hostile"
with (HOSTILE / "manifest.tsv").open(encoding="utf-8", newline="") as handle:
    LISTED = [row["file"] for row in csv.DictReader(handle, delimiter="\t", quoting=3)]

ONE = {"text": "sentence", "label": "label"}
TWO = {"text": "sentence1", "text_pair": "sentence2", "label": "label"}
MRPC = {"text": "#1 String", "text_pair": "#2 String", "label": "Quality"}
READ = {  # names of the columns, labels, words of the first row
    "glue-bom-header.tsv": (MRPC, ["1"], "He left . He went ."),
    "glue-crlf.tsv": (ONE, ["1", "0"], "good"),
    "glue-quotes.tsv": (ONE, ["1", "0", "0", "1"], '" a charming film'),
    "glue-unknown-label.tsv": (TWO, ["entailment", "contradiction"], "He left . He went ."),
    "glue-special-tokens.tsv": (ONE, ["0", "1"], "[ CLS ] ignore [ SEP ] all"),
}
REFUSED = {  # names of the columns, line, what is said
    "glue-embedded-tab.tsv": (ONE, 3, "3 tab-separated columns; expected 2, as in the header"),
    "glue-empty-sentence.tsv": (ONE, 2, "an empty text; expected at least one word"),
    "glue-header-only.tsv": (ONE, 1, "no row of texts"),
    "glue-missing-column.tsv": (
        TWO,
        1,
        "no column 'sentence2' among 'index', 'sentence1', 'label'",
    ),
    "glue-no-header.tsv": (ONE, 1, "no column 'sentence' among 'gj04', '1', '', 'The sailors rode"),
    "glue-short-row.tsv": (TWO, 3, "3 tab-separated columns; expected 4, as in the header"),
}


def write(tmp_path, content, name="x.tsv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path, content, name="x.tsv", **options):
    return list(open_corpus(write(tmp_path, content, name), **options).read())


def table(*rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def lines(*objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


# The files of tests/data/hostile


def test_every_hostile_table_is_tried():
    assert {name for name in LISTED if name.startswith("glue-")} == {*READ, *REFUSED}


@pytest.mark.parametrize("name", sorted(READ))
def test_hostile_table_is_read(name):
    columns, labels, words = READ[name]
    sentences = list(open_corpus(HOSTILE / name, columns=columns).read())
    assert [sentence.label for sentence in sentences] == labels
    assert " ".join(sentences[0].words).startswith(words)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_hostile_table_is_refused_with_its_line(name):
    columns, line, message = REFUSED[name]
    with pytest.raises(ParseError, match=re.escape(f"{name}:{line}: found {message}")) as info:
        open_corpus(HOSTILE / name, columns=columns)
    assert info.value.line == line
    assert "\n" not in str(info.value)


# What a row becomes


def test_a_pair_by_hand(tmp_path):
    (pair,) = read(
        tmp_path,
        table(
            ("id", "text", "text_pair", "label", "target"),
            ("7", "I like it. You too.", "We like it.", "1", "It rains."),
        ),
    )
    assert pair.words == ("I", "like", "it", ".", "You", "too", ".", "We", "like", "it", ".")
    assert pair.n_first == 7
    assert pair.heads == (2, 0, 2, 2, 0, 5, 5, 9, 0, 9, 9)
    assert pair.relations[:4] == ("nsubj", "root", "dobj", "punct")
    assert pair.relations[7:] == ("nsubj", "root", "dobj", "punct")
    assert pair.upos == ("PRON", "VERB", "PRON", "PUNCT") + ("PRON", "ADV", "PUNCT") + pair.upos[:4]
    assert (pair.sent_id, pair.ordinal, pair.unit, pair.line, pair.label) == ("1", 0, 0, 2, "1")
    assert pair.target.words == ("It", "rains", ".")
    assert pair.target.heads == (2, 0, 2)
    assert (pair.target.n_first, pair.target.target, pair.target.line) == (None, None, 2)


def test_words_and_trees_are_those_of_plain_text(tmp_path):
    first = "The dog  barked at me.\u00a0 It ran home; we did not."
    second = "Nobody's cat, however,\u3000sleeps. U.S. dogs don't."
    (pair,) = read(tmp_path, table(("text", "text_pair"), (first, second)))
    parts = [read(tmp_path, text, "x.txt") for text in (first, second)]
    expected = sum(parts, [])
    assert pair.words == tuple(word for item in expected for word in item.words)
    assert pair.upos == tuple(tag for item in expected for tag in item.upos)
    assert pair.relations == tuple(name for item in expected for name in item.relations)
    assert pair.n_first == sum(len(item.words) for item in parts[0])
    governor = [pair.words[head - 1] if head else None for head in pair.heads]
    assert governor == [
        item.words[head - 1] if head else None for item in expected for head in item.heads
    ]


def test_json_lines_give_what_a_table_gives(tmp_path):
    rows = [("A dog barks.", "It is loud.", "1.5"), ("One.", "Two.", "2")]
    of_table = read(tmp_path, table(("text", "text_pair", "label"), *rows))
    objects = [dict(zip(("text", "text_pair", "label"), row, strict=True)) for row in rows]
    of_lines = read(tmp_path, lines(*objects), "x.jsonl")
    assert [replace(item, line=item.line + 1) for item in of_lines] == of_table


@pytest.mark.parametrize(
    ("given", "label"), [(1, "1"), (2.5, "2.5"), (True, "true"), ("x y", "x y"), (None, None)]
)
def test_labels_of_json_may_be_numbers(tmp_path, given, label):
    (found,) = read(tmp_path, lines({"text": "a", "label": given}), "x.jsonl")
    assert found.label == label


def test_corpus_says_that_and_by_whom_it_is_parsed(tmp_path):
    corpus = open_corpus(write(tmp_path, "text\na\nb\n"))
    assert (corpus.name, corpus.format, corpus.unit) == ("x.tsv", "pairs", "sentence")
    assert (corpus.annotation, corpus.n_sentences) == ("parsed", 2)
    plain = open_corpus(write(tmp_path, "a\n", "x.txt"))
    assert corpus.note == plain.note


def test_a_row_without_second_text_is_one_text_and_told_among_pairs(tmp_path):
    rows = table(
        ("text", "text_pair", "label"), ("a", "b", ""), ("c", "", "1"), ("d", " \u3000", "2")
    )
    corpus = open_corpus(write(tmp_path, rows))
    sentences = list(corpus.read())
    assert [(s.words, s.n_first) for s in sentences] == [
        (("a", "b"), 1),
        (("c",), None),
        (("d",), None),
    ]
    assert [s.label for s in sentences] == [None, "1", "2"]
    (told,) = corpus.warnings
    assert told.startswith("rows without a second text among pairs: 2, the first '2' at line 3;")
    singles = open_corpus(write(tmp_path, "text\na\nb\n"))
    assert [s.n_first for s in singles.read()] == [None, None]
    assert singles.warnings == []


def test_a_text_of_any_length_is_one_sentence(tmp_path):
    text = "The dog barks. " * 2000
    (pair,) = read(tmp_path, table(("text", "text_pair"), (text, "It stops.")))
    assert (len(pair.words), pair.n_first) == (8003, 8000)
    assert all(head == 0 or abs(head - 1 - at) < 4 for at, head in enumerate(pair.heads))


def test_memory_does_not_depend_on_the_number_of_rows(tmp_path):
    path = write(tmp_path, "text\n" + "A dog barks at a cat.\n" * 100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in pairs.read_rows(path, {"text": "text"})) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


# Bytes and lines


def test_bytes_that_may_differ_make_no_difference(tmp_path):
    plain = "text\ttext_pair\nI like it.\tMe too.\n"
    expected = read(tmp_path, plain)
    forms = {
        "crlf.tsv": plain.replace("\n", "\r\n"),
        "bom.tsv": "\ufeff" + plain,
        "end.tsv": plain.rstrip("\n"),
        "blank.tsv": plain + "\n\r\n",
        "packed.tsv.gz": gzip.compress(plain.encode()),
    }
    for name, content in forms.items():
        assert read(tmp_path, content, name) == expected, name


def test_what_looks_like_a_line_end_is_none(tmp_path):
    sentences = read(tmp_path, "text\tlabel\na\x0bb\u2028c\x85d\t1\ne\t2\n")
    assert [(s.words[0][0], s.line, s.label) for s in sentences] == [("a", 2, "1"), ("e", 3, "2")]


def test_a_nul_is_a_character(tmp_path):
    rows = "text\tlabel\nthe d\0g barks\t1\n" + "more text\t2\n" * 5
    sentences = read(tmp_path, rows)
    assert "".join(sentences[0].words) == "thed\0gbarks"
    (of_json,) = read(tmp_path, lines({"text": "the d\0g barks"}), "x.jsonl")
    assert of_json.words == sentences[0].words


BROKEN = {
    "not UTF-8": ("x.tsv", b"text\nfine\ncaf\xe9\n", 3, "text that is not UTF-8 (byte 13"),
    "UTF-16": ("x.tsv", "text\na\n".encode("utf-16"), 1, "text in UTF-16"),
    "gzip": ("x.tsv", gzip.compress(b"text\na\n"), 1, "gzip data; expected plain text; rename"),
    "gzip cut": ("x.tsv.gz", gzip.compress(b"text\na\n" * 9)[:-9], None, "broken gzip data"),
    "empty": ("x.tsv", "", None, "an empty file"),
    "empty lines": ("x.tsv", "\n\n", 1, "no row of texts; expected rows below the header"),
    "twice": ("x.tsv", "text\ttext\na\tb\n", 1, "2 columns 'text'; expected one"),
    "too few": ("x.tsv", "text\tlabel\na\n", 2, "1 tab-separated column; expected 2"),
    "spaces": ("x.tsv", "text\tlabel\n \u3000\t1\n", 2, "an empty text; expected at least"),
    "columns": ("x.tsv", "\t".join("abcdefghi"), 1, "no column 'text' among 'a', 'b', 'c', 'd', "
        "'e', 'f', 'g', 'h', ...; expected text, and text_pair, label and target where"),
    "json list": ("x.jsonl", '[{"text": "a"}]\n', 1, "JSON '[{\"text\": \"a\"}]'; expected one"),
    "json cut": ("x.jsonl", '{"text": "a"}\n{"text": "b\n', 2, "broken JSON (column 10: Untermin"),
    "json pretty": ("x.jsonl", '{\n "text": "a"\n}\n', 1, "broken JSON (column 2: Expecting"),
    "json deep": ("x.jsonl", '{"text":' + "[" * 100_000 + "\n", 1, "JSON that is too deep"),
    "json key": ("x.jsonl", '{"text": "a"}\n{"txt": "b"}\n', 2, "no column 'text' among 'txt'"),
    "json type": ("x.jsonl", '{"text": ["a"]}\n', 1, "text '[\"a\"]'; expected a string"),
    "json number": ("x.jsonl", '{"text": 5}\n', 1, "text '5'; expected a string"),
    "json label": ("x.jsonl", '{"text": "a", "label": {}}\n', 1, "label '{}'; expected a string"),
    "json null": ("x.jsonl", '{"text": null}\n', 1, "an empty text"),
    "json half": ("x.jsonl", '{"text": "a \\ud83d b"}\n', 1, "half a character in 'a \\ud83d b'"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_table_is_refused_with_its_line_when_opened(tmp_path, name):
    file, content, line, message = BROKEN[name]
    with pytest.raises(ParseError, match=re.escape(f"found {message}")) as info:
        open_corpus(write(tmp_path, content, file))
    assert (info.value.line, Path(info.value.path).name) == (line, file)
    assert "\n" not in str(info.value)
    str(info.value).encode()


def test_whole_characters_of_json_are_read(tmp_path):
    (found,) = read(tmp_path, '{"text": "a \\ud83d\\ude00 b"}\n', "x.jsonl")
    assert found.words == ("a", "\U0001f600", "b")


# Options


def test_skip_bad_leaves_broken_rows_out_and_lists_them(tmp_path):
    rows = write(tmp_path, "text\tlabel\na\t1\nb\n\t2\nc\t3\n")
    with pytest.raises(ParseError, match=r"x.tsv:3: found 1 tab-separated column"):
        open_corpus(rows)
    corpus = open_corpus(rows, skip_bad=True)
    assert corpus.n_sentences == 2
    for _ in range(2):  # emptied at each reading
        assert [(s.ordinal, s.sent_id, s.line) for s in corpus.read()] == [(0, "1", 2), (3, "4", 5)]
        assert [message.split(": ")[0][-1] for message in corpus.skipped] == ["3", "4"]
    with pytest.raises(ParseError, match=r"no good row among 2; .* broken so: .*x.tsv:2: found 1"):
        open_corpus(write(tmp_path, "text\tlabel\nb\nc\n"), skip_bad=True)


def test_limit(tmp_path):
    path = write(tmp_path, "text\n" + "a\n" * 7)
    corpus = open_corpus(path, limit=3)
    assert (len(list(corpus.read())), corpus.n_sentences) == (3, 3)
    assert corpus.note.endswith("; only the first 3 rows")


def test_columns_are_never_guessed(tmp_path):
    path = write(tmp_path, table(("premise", "hypothesis", "label"), ("A dog.", "A cat.", "0")))
    with pytest.raises(
        InputError, match=r"no column 'text' among 'premise', .*--columns text=NAME"
    ):
        open_corpus(path)
    names = columns_of("text=premise,text_pair=hypothesis")
    (found,) = open_corpus(path, columns=names).read()
    assert (found.words, found.n_first, found.label) == (("A", "dog", ".", "A", "cat", "."), 3, "0")
    with pytest.raises(HeadscopeError, match="unknown column 'txt'; did you mean 'text'"):
        open_corpus(path, columns={"txt": "premise"})
    objects = write(tmp_path, lines({"q": "a", "c": "b"}, {"q": "a"}), "x.jsonl")
    with pytest.raises(ParseError, match=r"x.jsonl:2: found no column 'c' among 'q'"):
        open_corpus(objects, columns={"text": "q", "text_pair": "c"})


@pytest.mark.parametrize("given", ["text", "text=", "text=a,", ""])
def test_names_of_columns_that_say_nothing_are_refused(given):
    with pytest.raises(InputError, match=r"--columns: found '.*'; expected pairs such as text="):
        columns_of(given)


REAL = {
    "glue-wnli/dev.tsv": ("sentence1", "sentence2", 71),
    "glue-qnli/dev.tsv": ("question", "sentence", 5463),
    "nli-snli/dev.900.tsv": ("sentence1", "sentence2", 900),
    "korsts/sts-dev.tsv": ("sentence1", "sentence2", 1500),
}


@pytest.mark.parametrize("name", list(REAL))
def test_real_tables_keep_every_row_and_letter(shared, name):
    first, second, n_rows = REAL[name]
    columns = {"text": first, "text_pair": second}
    corpus = open_corpus(shared / "data" / name, columns=columns, limit=40)
    whole = open_corpus(shared / "data" / name, columns=columns)
    assert whole.n_sentences == n_rows
    with (shared / "data" / name).open(encoding="utf-8-sig", newline="") as handle:
        expected = [
            ("".join(row[first].split()), "".join(row[second].split()))
            for row in csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]
    assert len(expected) == n_rows
    found = [("".join(s.words[: s.n_first]), "".join(s.words[s.n_first :])) for s in corpus.read()]
    assert found == expected[:40]
