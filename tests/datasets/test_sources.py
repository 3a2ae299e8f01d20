import csv
import gzip
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from headscope.datasets import open_corpus, read_conllu, write_conllu
from headscope.errors import HeadscopeError, InputError, ParseError

HOSTILE = Path(__file__).resolve().parents[1] / "data" / "hostile"
with (HOSTILE / "manifest.tsv").open(encoding="utf-8", newline="") as handle:
    MANIFEST = {line["file"]: line for line in csv.DictReader(handle, delimiter="\t", quoting=3)}

# Good trees: only the reader of mentions refuses them.
MENTIONS_ONLY = {"corefud-unbalanced.conllu", "corefud-no-global.conllu"}
TRIED = {name: row for name, row in MANIFEST.items() if row["kind"] in ("conllu", "text")}
REFUSED = sorted(
    name for name, row in TRIED.items() if row["expect"] == "error" and name not in MENTIONS_ONLY
)
READ = sorted(set(TRIED) - set(REFUSED))

SAYS = {
    "comments-only.conllu": "no sentence",
    "cycle.conllu": "a cycle of heads (lines 12-13) in sentence 'cycle'",
    "gzip-without-suffix.conllu": "gzip",
    "head-negative.conllu": "HEAD -1",
    "head-out-of-range.conllu": "HEAD 9",
    "head-self.conllu": "word 3 as its own head",
    "head-underscore.conllu": "no dependency annotation",
    "head-word.conllu": "HEAD 'root', which is not a number",
    "id-gap.conllu": "expected ID 3",
    "latin-1.conllu": "not UTF-8 (byte 33 of the file)",
    "nine-columns.conllu": "9 tab-separated columns",
    "no-root.conllu": "no root (lines 10-12) in sentence 'noroot'",
    "not-conllu.conllu": "no CoNLL-U line: '<!DOCTYPE html>'",
    "range-backwards.conllu": "the range 3-2",
    "range-past-end.conllu": "a range that runs to word 6",
    "spaces-for-tabs.conllu": "1 tab-separated column,",
    "text-whitespace-only.txt": "no text",
    "truncated.conllu": "3 tab-separated columns",
    "two-roots.conllu": "2 roots (lines 10 and 12) in sentence 'tworoots'",
    "utf-16.conllu": "UTF-16",
    "zero-length.conllu": "an empty file",
}

COUNTS = {  # sentences, words
    "blank-lines.conllu": (2, 7),
    "bom.conllu": (2, 7),
    "combining-accents.conllu": (3, 7),
    "control-chars.conllu": (1, 7),
    "corefud-discontinuous.conllu": (1, 4),
    "corefud-nested.conllu": (2, 6),
    "corefud-no-global.conllu": (1, 2),
    "corefud-unbalanced.conllu": (1, 3),
    "crlf.conllu": (2, 7),
    "deprel-odd.conllu": (1, 5),
    "duplicate-sent-id.conllu": (2, 8),
    "emoji-zwj.conllu": (1, 5),
    "empty-node.conllu": (2, 7),
    "form-with-space.conllu": (2, 5),
    "hangul-compat-jamo.conllu": (1, 3),
    "hangul-nfc.conllu": (1, 4),
    "hangul-nfd.conllu": (1, 4),
    "homoglyph-turkish.conllu": (1, 5),
    "long-1000.conllu": (1, 1000),
    "long-word.conllu": (1, 2),
    "multiword.conllu": (2, 10),
    "no-final-newline.conllu": (2, 7),
    "no-sent-id.conllu": (2, 7),
    "nonprojective.conllu": (1, 8),
    "nul-byte.conllu": (1, 4),
    "one-word.conllu": (2, 2),
    "rtl.conllu": (2, 7),
    "sample.conllu.gz": (2, 7),
    "soft-hyphen.conllu": (1, 3),
    "text-mismatch.conllu": (1, 2),
    "text-one-long-line.txt": (None, 6000),
    "underscore-form.conllu": (1, 3),
    "unk-words.conllu": (1, 7),
    "zero-width.conllu": (1, 5),
}

TREE = "1\tGo\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
BROKEN = TREE.replace("\t0\t", "\t1\t")
DUMMY = "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def write(tmp_path, text, name="x.conllu"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


# The files of tests/data/hostile


def test_every_hostile_file_is_tried():
    assert set(SAYS) == set(REFUSED)
    assert set(COUNTS) == set(READ)
    assert {path.name for path in HOSTILE.iterdir()} == {*MANIFEST, "manifest.tsv", "README.md"}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_file_is_refused_with_its_line(name):
    with pytest.raises(ParseError, match=re.escape(SAYS[name])) as info:
        list(open_corpus(HOSTILE / name).read())
    first_line = re.match(r"\d+", MANIFEST[name]["where"])
    assert info.value.line == (int(first_line[0]) if first_line else None)
    assert Path(info.value.path).name == name
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("name", READ)
def test_hostile_file_is_read(name):
    corpus = open_corpus(HOSTILE / name)
    sentences = list(corpus.read())
    n_sentences, n_words = COUNTS[name]
    assert len(sentences) == n_sentences or n_sentences is None
    assert sum(len(sentence.words) for sentence in sentences) == n_words
    assert corpus.skipped == []


@pytest.mark.parametrize("name", [name for name in READ if name.endswith(".conllu")])
def test_hostile_file_comes_back_byte_for_byte(name, tmp_path):
    write_conllu(read_conllu(HOSTILE / name), tmp_path / name)
    assert (tmp_path / name).read_bytes() == (HOSTILE / name).read_bytes()


def test_what_surprises_is_told():
    def warnings(name):
        corpus = open_corpus(HOSTILE / name)
        list(corpus.read())
        list(corpus.read())  # emptied at each reading
        return corpus.warnings

    assert "'good-1' at line 8" in warnings("duplicate-sent-id.conllu")[0]
    assert "NFC: 1, the first 'ko'" in warnings("hangul-nfd.conllu")[0]
    assert warnings("hangul-nfc.conllu") == []
    assert len(warnings("combining-accents.conllu")) == 1


def test_forms_are_kept_unchanged():
    def words(name):
        return [word for sentence in open_corpus(HOSTILE / name).read() for word in sentence.words]

    assert "\u200b" in words("zero-width.conllu")
    assert "10 000" in words("form-with-space.conllu")
    assert words("underscore-form.conllu")[0] == "_"
    assert len(words("long-word.conllu")[1]) == 3019
    assert "d\0g" in words("nul-byte.conllu")
    assert words("crlf.conllu") == words("bom.conllu") == words("sample.conllu.gz")


# The bundled sample


def test_demo_is_fourteen_documents_of_open_genres():
    corpus = open_corpus("demo")
    sentences = list(corpus.read())
    assert (corpus.name, corpus.format, corpus.unit) == ("demo", "conllu", "document")
    assert corpus.annotation == "gold"
    assert "14 documents of GUM's openly licensed genres" in corpus.note
    assert len(sentences) == 559
    assert sum(len(sentence.words) for sentence in sentences) == 12_559
    assert [sentence.unit for sentence in sentences] == sorted(s.unit for s in sentences)
    assert {sentence.unit for sentence in sentences} == set(range(14))
    assert corpus.warnings == corpus.skipped == []
    genres = {sentence.sent_id.split("_")[1] for sentence in sentences}
    assert genres == {"academic", "court", "interview", "news"}  # none is share-alike


def test_demo_has_its_licences_and_attribution():
    folder = resources.files("headscope.datasets") / "sample"
    assert "CC-BY" in (folder / "LICENSE-GUM.txt").read_text(encoding="utf-8")
    assert (folder / "LICENSE-UD.txt").is_file()
    told = (folder / "README.md").read_text(encoding="utf-8")
    with resources.as_file(folder / "gum_sample.conllu") as path:
        assert open_corpus(path).sha256 == open_corpus("demo").sha256
        assert open_corpus("demo").sha256 in told
        comments = [comment for sentence in read_conllu(path) for comment in sentence.comments]
    for comment in comments:
        key, _, value = comment.partition(" = ")
        if key in ("# newdoc id", "# meta::author", "# meta::sourceURL", "# meta::title"):
            assert value in told


def test_demo_equals_its_source(shared):
    whole = b"".join(
        (shared / "data" / "ud-english-gum-open" / f"en_gum-open-{part}.conllu").read_bytes()
        for part in ("dev", "test")
    )
    sample = resources.files("headscope.datasets") / "sample" / "gum_sample.conllu"
    documents = sample.read_bytes().split(b"# newdoc id = ")
    assert documents.pop(0) == b""
    assert all(b"# newdoc id = " + document in whole for document in documents)


def test_a_file_named_demo_is_reached_by_its_path(tmp_path, monkeypatch):
    write(tmp_path, TREE, "demo")
    monkeypatch.chdir(tmp_path)
    assert open_corpus("demo").note
    assert open_corpus("./demo").format == "conllu"
    assert open_corpus(Path("demo")).note == ""
    with pytest.raises(InputError, match="demo: found format text; expected conllu"):
        open_corpus("demo", format="text")


# Opening


def test_units_are_documents_where_marked(ewt, tmp_path):
    corpus = open_corpus(ewt)
    sentences = list(corpus.read())
    assert corpus.unit == "document"
    assert len({sentence.unit for sentence in sentences}) == 10
    assert [sentence.ordinal for sentence in sentences] == list(range(100))
    plain = open_corpus(write(tmp_path, TREE * 3))
    assert plain.unit == "sentence"
    assert [sentence.unit for sentence in plain.read()] == [0, 1, 2]


def test_can_be_read_again_and_twice_at_once(ewt):
    corpus = open_corpus(ewt)
    first, second = corpus.read(), corpus.read()
    assert next(first) == next(second)
    assert list(first) == list(second)
    assert len(list(corpus.read())) == 100


def test_name_fingerprint_and_gzip(ewt, tmp_path):
    path = tmp_path / "packed.conllu.gz"
    path.write_bytes(gzip.compress(ewt.read_bytes()))
    packed, plain = open_corpus(str(path)), open_corpus(ewt)
    assert packed.name == "packed.conllu.gz"
    assert packed.sha256 != plain.sha256
    assert list(packed.read()) == list(plain.read())


def test_limit(ewt):
    corpus = open_corpus(ewt, limit=3)
    assert list(corpus.read()) == list(open_corpus(ewt).read())[:3]
    assert corpus.note == "only the first 3 sentences"
    assert open_corpus("demo", limit=1).note.endswith("; only the first 1 sentence")
    assert len(list(open_corpus(ewt, limit=1000).read())) == 100
    for limit in (0, -1):
        with pytest.raises(InputError, match=f"limit: found {limit}; expected 1 or more"):
            open_corpus(ewt, limit=limit)


def test_skip_bad(tmp_path):
    path = write(tmp_path, TREE + BROKEN + TREE + BROKEN)
    with pytest.raises(ParseError, match=":3: found word 1 as its own head"):
        list(open_corpus(path).read())
    corpus = open_corpus(path, skip_bad=True)
    for _ in range(2):  # emptied at each reading
        assert [sentence.ordinal for sentence in corpus.read()] == [0, 2]
        assert len(corpus.skipped) == 2
    limited = open_corpus(path, skip_bad=True, limit=2)
    assert len(list(limited.read())) == 2
    with pytest.raises(ParseError, match="no good sentence among 2; .*its own head"):
        list(open_corpus(write(tmp_path, BROKEN * 2), skip_bad=True).read())


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_file_of_zeros_is_not_annotated(tmp_path, skip_bad):
    with pytest.raises(InputError, match="HEAD 0 on every one of 4 words: .* not annotated"):
        open_corpus(write(tmp_path, DUMMY * 2), skip_bad=skip_bad)


@pytest.mark.parametrize("name", ["x.txt", "x.conll", "x.tsv", "x", "x.CONLLU"])
def test_a_treebank_is_recognised_by_content(tmp_path, name):
    assert open_corpus(write(tmp_path, f"# newdoc\n{TREE}", name)).format == "conllu"


@pytest.mark.parametrize(
    ("text", "name", "match"),
    [
        ("a\tb\n", "x.tsv", r"x.tsv:1: found no column 'text' among 'a', 'b'; .*--columns text="),
        ("{}\n", "x.jsonl", "x.jsonl:1: found no column 'text' among none; expected text"),
        ("a b\n", "x.conll", "coreference in CoNLL-2012 columns, which a later version"),
        ("a b\n", "x.v4_auto_conll", "coreference in CoNLL-2012 columns, which a later"),
        ("#begin document (a); part 0\n", "x.txt", "coreference in CoNLL-2012 columns"),
        ("Hello.\n", "x.md", "a name ending in '.md'; .*--format conllu|text|pairs"),
        ("Hello.\n", "x", "a name without an ending; .*--format conllu|text"),
    ],
)
def test_other_formats(tmp_path, text, name, match):
    with pytest.raises(InputError, match=match):
        open_corpus(write(tmp_path, text, name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("text\tlabel\na\t1\n", "x.txt"),
        ("\ufeffid\ttext\r\n1\ta\r\n", "x"),
        ('{"text": "a"}\n', "x.conll"),
        ("text\na\n", "x.tsv"),
        ("text\na\n", "x.TSV"),
    ],
)
def test_a_table_is_recognised_by_content_or_ending(tmp_path, text, name):
    corpus = open_corpus(write(tmp_path, text, name))
    assert (corpus.format, [s.words for s in corpus.read()]) == ("pairs", [("a",)])


def test_a_line_that_says_text_is_no_table(tmp_path):
    assert open_corpus(write(tmp_path, "text\nand more text\n", "x.txt")).format == "text"


def test_names_of_columns_are_for_tables(tmp_path):
    path = write(tmp_path, TREE)
    for data in (path, "demo"):
        with pytest.raises(InputError, match="found names of columns for format conllu; expected"):
            open_corpus(data, columns={"text": "FORM"})


def test_format_is_forced(tmp_path):
    path = write(tmp_path, "Hello there.\n", "x.txt")
    with pytest.raises(ParseError, match=r"x.txt:1: .*no CoNLL-U line.*--format text"):
        list(open_corpus(path, format="conllu").read())
    assert open_corpus(write(tmp_path, "Hi.\n", "x.md"), format="text").format == "text"
    with pytest.raises(HeadscopeError, match="unknown format 'conlu'; did you mean 'conllu'"):
        open_corpus(path, format="conlu")


def test_files_that_are_no_data(tmp_path):
    write(tmp_path, TREE, "dev.conllu")
    with pytest.raises(InputError, match=r"no such file; .*did you mean 'dev.conllu'\?"):
        open_corpus(tmp_path / "dev.conlu")
    with pytest.raises(InputError, match="found a folder"):
        open_corpus(tmp_path)


def test_nothing_heavy_is_imported():
    code = (
        "import sys; from headscope.datasets import open_corpus; list(open_corpus('demo').read());"
        "sys.exit(bool({'spacy', 'torch', 'transformers', 'pandas'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
