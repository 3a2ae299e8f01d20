import pytest

from headscope.datasets.survey import survey_conllu
from headscope.errors import InputError

WORD = "{}\tx\t_\t_\t_\t_\t{}\tdep\t_\t_\n"


def treebank(tmp_path, *sentences, comment=""):
    path = tmp_path / "x.conllu"
    rows = ("".join(WORD.format(*pair) for pair in enumerate(heads, 1)) for heads in sentences)
    path.write_text(comment + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_counts_words_and_sees_documents(tmp_path):
    assert survey_conllu(treebank(tmp_path, "20", "0")).n_words == 3
    assert not survey_conllu(treebank(tmp_path, "0")).documents
    assert not survey_conllu(treebank(tmp_path, "0", comment="# newdoc_x = 1\n")).documents
    assert survey_conllu(treebank(tmp_path, "0", comment="# newdoc\n")).documents
    assert survey_conllu(treebank(tmp_path, "0", comment="# newdoc id = a\n")).documents


def test_only_zeros_means_not_annotated(tmp_path):
    path = treebank(tmp_path, "000", "00", "0")
    with pytest.raises(InputError, match=r"x.conllu: found HEAD 0 on every one of 6 words") as info:
        survey_conllu(path)
    assert "not annotated" in str(info.value)


def test_one_word_sentences_have_only_roots_by_right(tmp_path):
    assert survey_conllu(treebank(tmp_path, "0", "0")).n_words == 2


def test_a_single_other_head_means_annotated(tmp_path):
    assert survey_conllu(treebank(tmp_path, "000", "20")).n_words == 5
    assert survey_conllu(treebank(tmp_path, "0_")).n_words == 2


def test_no_sentence(tmp_path):
    with pytest.raises(InputError, match="no sentence"):
        survey_conllu(treebank(tmp_path, comment="# newdoc\n\n   \n"))
