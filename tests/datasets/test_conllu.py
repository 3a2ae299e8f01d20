import dataclasses
import gzip
import io
import re
import tracemalloc

import conllu
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.datasets import ConlluSentence, Sentence, read_conllu, write_conllu
from headscope.datasets.conllu import is_row
from headscope.errors import ParseError

EMPTY = ("_",) * 10


def row(number, head, form="x", relation="dep"):
    return f"{number}\t{form}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_"


def treebank(tmp_path, *rows, name="x.conllu"):
    path = tmp_path / name
    path.write_text("\n".join(rows) + "\n\n", encoding="utf-8", newline="")
    return path


def round_trip(path, tmp_path):
    copy = tmp_path / "copy.conllu"
    write_conllu(read_conllu(path), copy)
    return copy.read_bytes()


# What is read


def test_words_ranges_and_empty_nodes(hostile):
    zum, damelo = read_conllu(hostile / "multiword.conllu")
    assert [word[1] for word in zum.words] == ["Er", "geht", "zu", "dem", "Bahnhof", "."]
    assert zum.tokens == ("Er", "geht", "zum", "Bahnhof", ".")
    assert damelo.tokens == ("dámelo", "!")
    gapping, zero = read_conllu(hostile / "empty-node.conllu")
    assert gapping.to_sentence(0, 0).heads == (2, 0, 2, 5, 2, 5)
    assert gapping.tokens == gapping.to_sentence(0, 0).words
    assert [node[0] for node in zero.rows] == ["0.1", "1"]
    assert zero.to_sentence(1, 1).words == ("Llueve",)


def test_to_sentence_takes_basic_heads_and_leaves_deps_alone(tmp_path):
    line = "1\ta\tb\tNOUN\tNN\t_\t0\troot\t5:conj:and|8.1:nsubj\t_"
    (read,) = read_conllu(treebank(tmp_path, "# sent_id =  s1 ", line))
    assert read.to_sentence(4, 7) == Sentence(
        ("a",), (0,), ("root",), ("NOUN",), "s1", ordinal=4, unit=7, line=1
    )


def test_documents_lines_and_names(tmp_path):
    path = treebank(
        tmp_path,
        *("# newdoc id = a", row(1, 0), ""),
        *("#sent_id=two", row(1, 0), "", ""),
        *("# newdoc", "", row(1, 0), ""),  # an empty line between the mark and its words
        *("# newdocument = no", "# sent_id =", row(1, 0)),
    )
    read = list(read_conllu(path))
    assert [sentence.document for sentence in read] == [0, 0, 1, 1]
    assert [sentence.line for sentence in read] == [1, 4, 10, 12]
    assert [sentence.ordinal for sentence in read] == [0, 1, 2, 3]
    assert [sentence.sent_id for sentence in read] == ["1", "two", "3", "4"]
    assert round_trip(path, tmp_path) == path.read_bytes()


def test_words_before_the_first_mark_are_a_document_too(tmp_path):
    path = treebank(tmp_path, row(1, 0), "", "# newdoc", row(1, 0))
    assert [sentence.document for sentence in read_conllu(path)] == [0, 1]


def test_line_ends_are_kept_and_never_part_of_a_column(hostile, tmp_path):
    for sentence in read_conllu(hostile / "crlf.conllu"):
        assert not any("\r" in column for columns in sentence.rows for column in columns)
    mixed = tmp_path / "mixed.conllu"
    mixed.write_bytes(f"# a\r\n{row(1, 2)}\n{row(2, 0)}\r\n\r\n{row(1, 0)}".encode())
    assert round_trip(mixed, tmp_path) == mixed.read_bytes()


def test_agrees_with_an_independent_reader(ewt):
    theirs = conllu.parse(ewt.read_text(encoding="utf-8"))
    ours = list(read_conllu(ewt))
    assert len(ours) == len(theirs) == 100
    for mine, other in zip(ours, theirs, strict=True):
        sentence = mine.to_sentence(0, 0)
        words = [token for token in other if isinstance(token["id"], int)]
        assert sentence.words == tuple(token["form"] for token in words)
        assert sentence.heads == tuple(token["head"] for token in words)
        assert sentence.relations == tuple(token["deprel"] for token in words)
        assert sentence.upos == tuple(token["upos"] for token in words)
        assert sentence.sent_id == other.metadata["sent_id"]


def test_memory_does_not_grow_with_the_file(ewt, tmp_path):
    path = tmp_path / "long.conllu"
    path.write_bytes(ewt.read_bytes() * 10)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_conllu(path)) == 1000
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 3
    finally:
        tracemalloc.stop()


# What is refused (more of it in test_sources.py, by the files of hostile/)


@pytest.mark.parametrize(
    ("rows", "line", "match"),
    [
        ([row(1, 0), "# text = a"], 2, "a comment between words; .*an empty line ends"),
        ([row(1, 0), row(1, 0)], 2, "ID '1'; expected ID 2"),
        ([row(2, 0)], 1, "ID '2'; expected ID 1"),
        ([row("01", 0)], 1, "ID '01'"),
        ([row("²", 0)], 1, "ID '²'"),
        ([row("9" * 5000, 0)], 1, "ID '999"),
        ([row(1, 0, form="")], 1, "an empty FORM of word 1"),
        ([row("1.1", "_")], 1, "a sentence without words"),
        ([row("1-2", "_"), row(1, 0), row("2-2", "_"), row(2, 1)], 3, "the range 2-2"),
        ([row(1, 0), row("1-2", "_"), row(2, 1)], 2, "the range 1-2"),
        ([row(1, 0), row(2, "٣")], 2, "HEAD '٣', which is not a number"),
        ([row(1, 0), row(2, "9" * 5000)], 2, "HEAD 999999999999, which is no word"),
        ([row(1, 0), row(2, "-0")], 2, "HEAD -0, which is no word"),
        ([row(1, 0), row(2, "")], 2, "HEAD '', which is not a number"),
        ([row(1, 0), *(row(i, 0) for i in range(2, 8))], 1, "7 roots .lines 1-7."),
        ([row(i, (i + 1) % 2) for i in range(1, 10)], 1, "5 roots .lines 1, 3, 5 and 2 more."),
        ([row(1, 0) + "\t_"], 1, "11 tab-separated columns"),
    ],
)
def test_broken(tmp_path, rows, line, match):
    path = treebank(tmp_path, *rows)
    with pytest.raises(ParseError, match=match) as info:
        list(read_conllu(path))
    assert info.value.line == line
    assert str(info.value).startswith(f"{path}:{line}: found ")
    assert "\n" not in str(info.value)


def test_good_sentences_come_before_the_error(tmp_path):
    reading = read_conllu(treebank(tmp_path, row(1, 0), "", row(1, 1)))
    assert next(reading).ordinal == 0
    with pytest.raises(ParseError, match=":3: found word 1 as its own head in sentence '2'"):
        next(reading)


def test_skip_bad_leaves_out_counts_and_lists(tmp_path):
    path = treebank(
        tmp_path,
        *(row(1, 0), ""),
        *("# newdoc", "# sent_id = bad", row(1, 1), ""),
        *(row(1, 0), ""),
        *("no columns", row(1, 0)),
    )
    skipped = []
    read = list(read_conllu(path, skip_bad=True, skipped=skipped))
    assert [sentence.ordinal for sentence in read] == [0, 2]
    assert [sentence.document for sentence in read] == [0, 1]  # begun by the one left out
    assert [sentence.sent_id for sentence in read] == ["1", "3"]
    assert len(skipped) == 2
    assert ":5: found word 1 as its own head in sentence 'bad'" in skipped[0]
    assert len(list(read_conllu(path, skip_bad=True))) == 2


def test_a_file_without_a_sentence_stays_an_error_under_skip_bad(hostile):
    with pytest.raises(ParseError, match="no sentence"):
        list(read_conllu(hostile / "comments-only.conllu", skip_bad=True))


def test_recognises_rows():
    assert is_row(row(1, 0))
    assert is_row(row("1-2", "_") + "\r\n")
    assert is_row(row("0.1", "_"))
    assert is_row(row(1, -1))
    assert not is_row(row("a", 0))
    assert not is_row(row(1, "nsubj"))
    assert not is_row("1\tx\n")


# What is written


def test_written_through_a_stream_or_gzip(ewt, tmp_path):
    stream = io.StringIO(newline="")
    write_conllu(read_conllu(ewt), stream)
    assert stream.getvalue().encode() == ewt.read_bytes()
    packed = [tmp_path / "a.conllu.gz", tmp_path / "b.conllu.gz"]
    for path in packed:
        write_conllu(read_conllu(ewt), str(path))
    assert gzip.decompress(packed[0].read_bytes()) == ewt.read_bytes()
    assert packed[0].read_bytes() == packed[1].read_bytes()
    assert list(read_conllu(packed[0])) == list(read_conllu(ewt))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = treebank(tmp_path, row(1, 0), "", row(1, 5))
    before = path.read_bytes()
    with pytest.raises(ParseError, match="HEAD 5"):
        write_conllu(read_conllu(path), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_can_be_written_onto_itself(tmp_path, ewt):
    path = tmp_path / "x.conllu"
    path.write_bytes(ewt.read_bytes())
    write_conllu(read_conllu(path), path)
    assert path.read_bytes() == ewt.read_bytes()


def test_a_sentence_becomes_rows_and_back(tmp_path):
    sentence = Sentence(("Go", "!"), (0, 1), ("root", "punct"), ("VERB", "PUNCT"), "g", 0, 0, 1)
    write_conllu([ConlluSentence.from_sentence(sentence)], tmp_path / "x.conllu")
    (read,) = read_conllu(tmp_path / "x.conllu")
    assert read.to_sentence(0, 0) == sentence


COLUMN = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\t\n\r"), min_size=1
)


@st.composite
def conllu_sentences(draw):
    n_words = draw(st.integers(1, 6))
    order = draw(st.permutations(range(1, n_words + 1)))
    heads = {order[0]: 0}
    for place, word in enumerate(order[1:], 1):
        heads[word] = draw(st.sampled_from(order[:place]))
    rows, covered = [], 0
    for word in range(1, n_words + 1):
        if word > covered and draw(st.booleans()):
            covered = draw(st.integers(word, n_words))
            rows.append((f"{word}-{covered}", draw(COLUMN), *EMPTY[2:]))
        columns = draw(st.lists(COLUMN, min_size=8, max_size=8))
        rows.append((str(word), *columns[:5], str(heads[word]), *columns[5:]))
        if draw(st.booleans()):
            rows.append((f"{word}.1", *EMPTY[1:]))
    comments = tuple(draw(st.lists(COLUMN.map(lambda text: f"# {text}"), max_size=3)))
    n_lines = len(comments) + len(rows)
    ends = draw(st.sampled_from([(), ("\r\n",) * n_lines]))
    after = draw(st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n"]))
    return ConlluSentence(comments, tuple(rows), after=after, ends=ends)


@given(st.lists(conllu_sentences(), min_size=1, max_size=3))
def test_what_is_written_reads_as_itself(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("any") / "x.conllu"
    write_conllu(sentences, path)
    read = list(read_conllu(path))
    assert [dataclasses.replace(one, line=1, ordinal=0, document=0) for one in read] == sentences
    assert round_trip(path, path.parent) == path.read_bytes()


def test_real_treebanks_come_back_byte_for_byte_with_their_counts(shared, tmp_path):
    """Sentences and words are those of each folder's SOURCE.md."""
    checked = 0
    for folder in sorted((shared / "data").glob("ud-*")):
        told = (folder / "SOURCE.md").read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.conllu")):
            counts = re.search(rf"\| {re.escape(path.name)} \|([^\n]*)", told)[1].split("|")
            n_bytes, n_sentences, n_words = (int(cell.replace(",", "")) for cell in counts[:3])
            read = list(read_conllu(path))
            assert len(read) == n_sentences
            assert sum(len(sentence.words) for sentence in read) == n_words
            write_conllu(read, tmp_path / path.name)
            assert (tmp_path / path.name).read_bytes() == path.read_bytes()
            assert path.stat().st_size == n_bytes
            checked += 1
    assert checked == 16
