import tracemalloc
from importlib import metadata

import pytest

from headscope.datasets import ConlluSentence, open_corpus, read_conllu, text, write_conllu
from headscope.datasets.trees import tree_fault
from headscope.errors import InputError


def write(tmp_path, content, name="x.txt"):
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


def read(tmp_path, content):
    return list(open_corpus(write(tmp_path, content)).read())


def test_blank_tokens_never_become_words(tmp_path):
    first, second = read(tmp_path, "I like it.\nYou  too.\t")
    assert first.words == ("I", "like", "it", ".")
    assert first.heads == (2, 0, 2, 2)
    assert first.relations == ("nsubj", "root", "dobj", "punct")
    assert first.upos == ("PRON", "VERB", "PRON", "PUNCT")
    assert second.words == ("You", "too", ".")
    assert (second.sent_id, second.ordinal, second.unit, second.line) == ("2", 1, 1, 2)


def test_parsed_sentences_read_back_from_conllu(tmp_path):
    sentences = read(tmp_path, "I like it.\n\n\tYou too.\x0b\u2028 We don't.\u3000Ok\u00a0!\r\n")
    path = tmp_path / "x.conllu"
    write_conllu(map(ConlluSentence.from_sentence, sentences), path)
    again = [sentence.to_sentence(0, 0).words for sentence in read_conllu(path)]
    assert again == [sentence.words for sentence in sentences]


def test_corpus_says_that_and_by_whom_it_is_parsed(tmp_path):
    corpus = open_corpus(write(tmp_path, "\ufeffIt rains.\n"), limit=5)
    assert (corpus.format, corpus.unit, corpus.annotation) == ("text", "sentence", "parsed")
    assert f"{text.PARSER} {metadata.version(text.PARSER)}" in corpus.note
    assert "not UD's (dobj, pobj, prep)" in corpus.note
    assert "English pipeline" in corpus.note
    assert corpus.note.endswith("; only the first 5 sentences")
    assert next(corpus.read()).words == ("It", "rains", ".")


def test_hard_line_breaks_are_spaces_and_empty_lines_end_a_paragraph(tmp_path):
    path = write(tmp_path, "\n\nA hard\r\nline  break\n \t\r\nA title\n\nThe end.")
    blocks = list(text.blocks(path))
    assert [block.text.strip() for block in blocks] == ["A hard line break", "A title", "The end."]
    assert [block.lines for block in blocks] == [[3, 4], [6], [8]]
    assert [block.line_at(0) for block in blocks] == [3, 6, 8]
    assert blocks[0].line_at(blocks[0].text.index("line")) == 4


def test_lines_of_sentences(tmp_path):
    sentences = read(tmp_path, "It rains. We\nstay here. They\nleft.\n\nIt snows.\n")
    assert [sentence.line for sentence in sentences] == [1, 1, 2, 5]


@pytest.mark.parametrize("size", [7, 20, 64])
def test_long_paragraphs_are_cut_and_nothing_is_lost(tmp_path, size):
    content = "One two. Three four five six! Seven\neight nine? " * 9 + "ten" * 30 + " end"
    blocks = list(text.blocks(write(tmp_path, content), size))
    assert "".join(block.text for block in blocks) == content.replace("\n", " ")
    assert max(len(block.text) for block in blocks) <= size
    if size == 20:
        assert blocks[0].text == "One two. "
    starts = {number: content.split("\n")[number - 1][:5] for number in range(1, 11)}
    for block in blocks:
        assert block.offsets == sorted(block.offsets)
        for offset, line in zip(block.offsets[1:], block.lines[1:], strict=True):
            assert block.text[offset:].startswith(starts[line][: len(block.text) - offset])


def test_one_long_line_takes_little_memory(tmp_path):
    path = write(tmp_path, "token " * 500_000)
    tracemalloc.start()
    try:
        assert sum(block.text.count("token") for block in text.blocks(path)) == 500_000
        assert tracemalloc.get_traced_memory()[1] < 1_500_000  # half the file
    finally:
        tracemalloc.stop()


def test_without_blanks_renumbers_heads():
    words = [" ", "a", "\n", "b", "\t", "c"]
    assert text.without_blanks(words, [2, 4, 2, 0, 4, 5]) == ((1, 3, 5), (2, 0, 2))
    assert text.without_blanks(["a", " ", "b"], [2, 0, 2]) == ((0, 2), (0, 1))
    assert text.without_blanks([" "], [0]) == ((), ())


def test_only_white_space_is_no_text(tmp_path):
    with pytest.raises(InputError, match=r"x.txt: found no text \(white space only\)"):
        open_corpus(write(tmp_path, "\ufeff \n\t\u3000\u2028\n"))


def test_bytes_that_are_not_utf8_show_when_opening(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"Fine.\n" * 20_000 + b"caf\xe9\n")
    with pytest.raises(InputError, match=r"x.txt:20001: .*not UTF-8"):
        open_corpus(path)


def test_without_the_extra_it_names_it(tmp_path, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(InputError, match=r'no package spacy; .*pip install "headscope\[text\]"'):
        open_corpus(write(tmp_path, "Hello."))


@pytest.mark.parametrize("name", ["poe-masque-of-the-red-death.en.txt", "kaist-M2TA_070.ko.txt"])
def test_real_texts_become_trees(shared, name):
    path = shared / "data" / "texts" / name
    sentences = list(open_corpus(path).read())
    letters = "".join(path.read_text(encoding="utf-8").split())
    assert "".join(word for sentence in sentences for word in sentence.words) == letters
    for sentence in sentences:
        assert tree_fault(sentence.heads) is None
        assert [head == 0 for head in sentence.heads] == [r == "root" for r in sentence.relations]
