"""The tokenizer of a checkpoint: never another one, and nothing cut off."""

import json
from unittest.mock import Mock

import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import (
    AlbertConfig,
    AutoTokenizer,
    BertTokenizer,
    CLIPTokenizer,
    GPT2Config,
    GPT2Tokenizer,
    HerbertTokenizer,
    OpenAIGPTTokenizer,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from headscope.errors import ModelError
from headscope.extraction.checkpoint import locate, quiet
from headscope.extraction.tokenizer import read_tokenizer
from headscope.extraction.words import Aligner
from tests.extraction.toys import (
    BERT_SPECIALS,
    NAMES,
    bert_config,
    byte_level,
    edit_json,
    unigram,
    word_ends,
    wordpiece,
)

PIECES = ["the", "The", "cat", "'", "s", "."]


def folder_of(folder, tokenizer, config=None, **names):
    """A folder with a config and a tokenizer; a bare Rust tokenizer leaves its own file alone."""
    (config or bert_config()).save_pretrained(folder)
    if isinstance(tokenizer, Tokenizer):
        tokenizer.save(str(folder / "tokenizer.json"))
    else:
        tokenizer.save_pretrained(folder)
    if names:
        edit_json(folder / "tokenizer_config.json", **names)
    return folder


def wrapped(tokenizer, **names):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def read(folder, **options):
    with quiet():
        return read_tokenizer(locate(folder, **options))


def cut(vocabulary, words):
    return vocabulary.tokenizer.encode(words.split(), is_pretokenized=True).tokens


def refused(folder, match):
    with pytest.raises(ModelError, match=match) as caught:
        read(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder))


def test_the_demo_tokenizer_cuts_nothing_off_and_adds_no_padding():
    """Its file asks for truncation and padding to 128 tokens."""
    path = locate("demo").file("tokenizer.json")
    asked = json.loads(path.read_text(encoding="utf-8"))
    assert asked["truncation"]["max_length"] == asked["padding"]["strategy"]["Fixed"] == 128
    vocabulary = read("demo")
    assert (vocabulary.tokenizer.truncation, vocabulary.tokenizer.padding) == (None, None)
    long, short = (cut(vocabulary, " ".join(["the"] * n)) for n in (300, 1))
    assert (len(long), len(short)) == (302, 3)


def test_the_demo_tokenizer_names_its_tokens():
    vocabulary = read("demo")
    ids = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.separator_id)
    assert ids == (0, 100, 101, 102)
    assert vocabulary.has_type_ids
    assert vocabulary.notes == ()
    assert vocabulary.last == ("##～", 30521)


def test_names_that_were_not_saved_are_none_but_the_unknown_piece_is_known(tmp_path):
    vocabulary = read(folder_of(tmp_path, wrapped(wordpiece(PIECES))))
    assert (vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id) == (None, None, None)
    assert vocabulary.unk_id == 1
    assert cut(vocabulary, "the dog") == ["[CLS]", "the", "[UNK]", "[SEP]"]


def test_gpt2_has_no_unknown_piece_and_no_special_tokens(tmp_path):
    own = byte_level("Ġdog", specials=("<|endoftext|>",))
    merges = [("Ġ", "d"), ("Ġd", "o"), ("Ġdo", "g")]
    saved = GPT2Tokenizer(vocab=own.get_vocab(), merges=merges)
    vocabulary = read(folder_of(tmp_path, saved, GPT2Config(n_layer=2)))
    assert (vocabulary.unk_id, vocabulary.cls_id, vocabulary.separator_id) == (None, None, None)
    assert vocabulary.pad_id is None
    assert cut(vocabulary, "dog dog") == ["Ġdog", "Ġdog"]
    assert not Aligner(vocabulary.tokenizer).by_offsets


def test_byte_level_pieces_are_all_known(tmp_path):
    assert read(folder_of(tmp_path, wrapped(byte_level()))).unk_id is None


def test_random_cuts_are_switched_off(tmp_path):
    own = byte_level("Ġdog", "Ġthe")
    own.model.dropout = 0.9
    vocabulary = read(folder_of(tmp_path, wrapped(own)))
    assert {tuple(cut(vocabulary, "dog the")) for _ in range(20)} == {
        ("<s>", "Ġdog", "Ġthe", "</s>")
    }


class TestComparedWithItsFile:
    """Classes of the library build a tokenizer anew, whatever tokenizer.json says."""

    def test_a_cased_vocabulary_is_not_lower_cased(self, tmp_path):
        folder = folder_of(tmp_path, wordpiece(PIECES, lowercase=False))
        refused(folder, r"BertTokenizer gives \[CLS\] the \[SEP\], and tokenizer.json \[CLS\] The "
                        r"\[SEP\]; if .*PreTrainedTokenizerFast")  # fmt: skip

    def test_what_the_message_asks_for_helps(self, tmp_path):
        own = wordpiece(PIECES, lowercase=False)
        names = {"tokenizer_class": "PreTrainedTokenizerFast", **NAMES}
        vocabulary = read(folder_of(tmp_path, own, **names))
        assert cut(vocabulary, "The cat") == ["[CLS]", "The", "cat", "[SEP]"]
        assert (vocabulary.cls_id, vocabulary.separator_id, vocabulary.unk_id) == (2, 3, 1)

    def test_case_that_the_config_asks_for_is_no_difference(self, tmp_path):
        own = wordpiece(PIECES, lowercase=False)
        vocabulary = read(folder_of(tmp_path, own, do_lower_case=False))
        assert cut(vocabulary, "The cat")[1] == "The"
        assert vocabulary.notes == ()

    def test_a_contradiction_is_noted(self, tmp_path):
        own = wordpiece(PIECES, lowercase=False)
        vocabulary = read(folder_of(tmp_path, own, do_lower_case=True))
        assert cut(vocabulary, "The cat")[1] == "the"
        (note,) = vocabulary.notes
        assert note == (
            "tokenizer_config.json and tokenizer.json contradict each other: [CLS] the [SEP] by "
            "the first, which is followed, and [CLS] The [SEP] by the second"
        )

    @pytest.mark.parametrize("lowercase", [False, True])
    def test_what_the_library_saves_agrees(self, tmp_path, lowercase):
        own = wordpiece(PIECES, letters=True).get_vocab()
        vocabulary = read(folder_of(tmp_path, BertTokenizer(vocab=own, do_lower_case=lowercase)))
        assert cut(vocabulary, "The")[1] == ("the" if lowercase else "The")
        assert vocabulary.notes == ()

    def test_a_normalizer_of_its_own_is_not_lost(self, tmp_path):
        own = wordpiece(["the", "cat", "dog"], letters=True)
        own.normalizer = normalizers.Sequence([own.normalizer, normalizers.Replace("cat", "dog")])
        refused(folder_of(tmp_path, own), r"gives \[CLS\] cat \[SEP\], .* \[CLS\] dog \[SEP\]")

    def test_a_pre_tokenizer_of_its_own_is_not_lost(self, tmp_path):
        own = wordpiece(["the", "u.s."], letters=True)
        own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        refused(
            folder_of(tmp_path, own), r"BertTokenizer gives .* tokenizer.json \[CLS\] u.s. \[SEP\]"
        )

    @pytest.mark.parametrize("single", ["[CLS] $A", "$A", None])
    def test_a_template_of_its_own_is_not_lost(self, tmp_path, single):
        own = wordpiece(PIECES, letters=True, single=single)
        refused(folder_of(tmp_path, own), "BertTokenizer gives .*, and tokenizer.json")

    def test_another_kind_of_vocabulary_is_not_taken_for_bytes(self, tmp_path):
        folder = folder_of(tmp_path, unigram("▁the"), GPT2Config(n_layer=2))
        refused(folder, "GPT2Tokenizer gives .*, and tokenizer.json <s> ▁ T h e </s>")

    def test_an_added_token_is_not_lost(self, tmp_path):
        own = wordpiece(PIECES, letters=True)
        own.add_tokens(["[e1]"])
        assert cut(read(folder_of(tmp_path, own)), "the [e1]") == ["[CLS]", "the", "[e1]", "[SEP]"]

    def test_the_space_before_a_word_is_asked_for_and_no_difference(self, tmp_path):
        folder = folder_of(tmp_path, byte_level("Ġdog", prefix=False), RobertaConfig())
        assert cut(read(folder), "dog dog") == ["<s>", "Ġdog", "Ġdog", "</s>"]

    @pytest.mark.parametrize("make", [CLIPTokenizer, HerbertTokenizer, OpenAIGPTTokenizer])
    def test_the_marked_ends_of_words_are_no_difference(self, tmp_path, make):
        """CLIP's bytes have no space before them, asked for or not."""
        pieces = word_ends("the", "cat").get_vocab()
        merges = [("h", "e</w>"), ("t", "he</w>"), ("a", "t</w>"), ("c", "at</w>")]
        vocabulary = read(folder_of(tmp_path, make(vocab=pieces, merges=merges, unk_token="<unk>")))
        assert vocabulary.notes == ()
        words = [piece for piece in cut(vocabulary, "the cat .") if piece.endswith("</w>")]
        assert words == ["the</w>", "cat</w>", ".</w>"]
        assert not Aligner(vocabulary.tokenizer).by_offsets

    def test_metaspace_of_older_files_is_no_difference(self, tmp_path):
        own = unigram("▁the")
        own.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
        saved = json.loads(own.to_str())
        saved["pre_tokenizer"] = {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
            ],
        }
        (tmp_path / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")
        bert_config().save_pretrained(tmp_path)
        edit_json(tmp_path / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
        assert cut(read(tmp_path), "the the") == ["<s>", "▁the", "▁the", "</s>"]


class TestRefused:
    def test_no_tokenizer_at_all(self, tmp_path):
        bert_config().save_pretrained(tmp_path)
        refused(
            tmp_path, "found no tokenizer in the folder; expected one of tokenizer.json, .* save"
        )

    @pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", '{"model": 1}', "\0"])
    def test_a_broken_tokenizer_file(self, tmp_path, text):
        folder = folder_of(tmp_path, wordpiece(PIECES))
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        refused(folder, ": tokenizer: ")

    def test_a_broken_tokenizer_config(self, tmp_path):
        folder = folder_of(tmp_path, wordpiece(PIECES))
        (folder / "tokenizer_config.json").write_text("{,}", encoding="utf-8")
        refused(folder, "tokenizer_config.json is no JSON: .*; save the tokenizer again")

    @pytest.mark.parametrize("config", [RobertaConfig(), GPT2Config(n_layer=2)])
    def test_a_vocabulary_of_another_kind(self, tmp_path, config):
        """The library would build a tokenizer that knows its special tokens alone."""
        config.save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").write_text("\n".join([*BERT_SPECIALS, "the"]), encoding="utf-8")
        refused(tmp_path, "Tokenizer has no vocabulary but special tokens; its vocabulary file is")

    def test_c028_a_slow_tokenizer_is_named(self, tmp_path):
        names = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
        folder = folder_of(tmp_path, wordpiece(PIECES), **names)
        (folder / "vocab.txt").write_text("\n".join([*BERT_SPECIALS, "the"]), encoding="utf-8")
        refused(folder, "BertJapaneseTokenizer is a slow tokenizer and cannot tell which piece")

    def test_a_sentencepiece_model_without_its_packages(self, tmp_path, monkeypatch):
        AlbertConfig(num_hidden_layers=2).save_pretrained(tmp_path)
        (tmp_path / "spiece.model").write_bytes(b"\x0a\x05")
        error = ImportError("`tiktoken` is required to read a `tiktoken` file")
        monkeypatch.setattr(AutoTokenizer, "from_pretrained", Mock(side_effect=error))
        refused(
            tmp_path, "found no tokenizer.json.*two more packages: pip install sentencepiece pro"
        )

    @pytest.mark.parametrize("name", ["Own", "BertTokenizer"])
    def test_c107_code_of_a_tokenizer_is_neither_run_nor_passed_over(self, tmp_path, name):
        auto_map = {"AutoTokenizer": ["own.Own", None]}
        folder = folder_of(tmp_path, wordpiece(PIECES), tokenizer_class=name, auto_map=auto_map)
        marker = tmp_path / "marker"
        (folder / "own.py").write_text(
            f"open({str(marker)!r}, 'w')\nclass Own: pass\n", encoding="utf-8"
        )
        refused(folder, "brings code of its own, which is not run.*pass --trust-remote-code")
        assert not marker.exists()
