"""`headscope surface` as a user calls it."""

import json

import jsonschema
import pandas as pd
import pytest
from transformers import BartConfig, BartModel

from headscope.extraction.measures import MEASURES
from headscope.results.schema import schema
from tests.extraction.toys import byte_level, random_model, save

PAIRS = "text\ttext_pair\ttarget\nThe dog ran.\tA cat.\tA dog ran off.\nIt sat.\tIt ate.\tHe.\n"


def test_prints_every_measure_with_its_uniform_baseline(headscope, ewt):
    ran = headscope("surface", "demo", ewt, "--limit", 20)
    assert ran.code == 0
    assert "uniform" in ran.out
    missing = ("other_segment", "other_text", "sink")
    assert f"not there (the JSON file says why): {', '.join(missing)}" in ran.out
    for name in MEASURES:
        assert (f"\n {name} " in ran.out) != (name in missing)


def test_writes_json_and_csv(headscope, ewt, tmp_path):
    ran = headscope("surface", "demo", ewt, "--limit", 20, "-o", "s.json", "-o", "s.csv")
    assert ran.code == 0
    assert "wrote s.json" in ran.err
    document = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("surface"))
    found = pd.read_csv(tmp_path / "s.csv").groupby("way")["measure"].unique()
    absent = {"other_segment", "other_text", "sink"}
    assert set(found["all"]) == MEASURES.keys() - absent
    # The demo model's first token is its classification token.
    assert set(found["without_first"]) == MEASURES.keys() - absent - {"first", "cls"}


def test_control_is_a_column(headscope, ewt):
    ran = headscope("surface", "demo", ewt, "--limit", 5, "--control", "random-weights")
    assert ran.code == 0
    assert "random-weights" in ran.out


def test_seed_is_kept(headscope, ewt, tmp_path):
    headscope("surface", "demo", ewt, "--limit", 5, "--seed", 7, "-o", "s.json")
    assert json.loads((tmp_path / "s.json").read_text())["seed"] == 7


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    """A folder with an encoder-decoder of 3 + 2 layers and 2 heads."""
    tokenizer = byte_level("\u0120dog")
    config = BartConfig(
        d_model=8, encoder_layers=3, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12,
        max_position_embeddings=60, vocab_size=tokenizer.get_vocab_size(), pad_token_id=1,
        bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>"}
    folder = tmp_path_factory.mktemp("bart")
    tokens = {f"{name}_token": text for name, text in names.items()}
    return save(folder, random_model(config, BartModel), tokenizer, **tokens)


def document_of(ran, path):
    assert ran.code == 0, ran.err
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("surface"))
    return document


def test_pairs_are_data(headscope, tmp_path):
    (tmp_path / "x.tsv").write_text(PAIRS)
    document = document_of(
        headscope("surface", "demo", "x.tsv", "-o", "s.json"), tmp_path / "s.json"
    )
    data = document["data"]
    assert (data["format"], data["unit"], data["annotation"]) == ("pairs", "sentence", "parsed")
    # [CLS] the dog ran . [SEP] a cat . [SEP] and [CLS] it sat . [SEP] it ate . [SEP]
    assert (data["n_sentences"], data["n_words"], data["n_tokens"]) == (2, 13, 19)
    assert document["settings"]["target"] is None
    for layer in document["values"]["separator"]:
        assert all(0 < share < 1 for share in layer)
    # 4 + 3 and 3 + 3 tokens are of one of the texts, and all 19 of one of the segments.
    assert (document["counts"]["other_text"], document["counts"]["other_segment"]) == (13, 19)
    counts = {way: part["counts"]["self"] for way, part in document["variants"].items()}
    # [CLS] is the token left out of each of the two.
    assert counts == {"first_text": 7, "second_text": 6, "without_first": 17}


def test_columns_of_another_name_are_named(headscope, tmp_path):
    (tmp_path / "x.tsv").write_text(PAIRS.replace("text", "sentence"))
    ran = headscope("surface", "demo", "x.tsv")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "x.tsv:1: found no column 'text' among 'sentence', 'sentence_pair', 'targe" in ran.err
    names = "text=sentence,text_pair=sentence_pair"
    ran = headscope("surface", "demo", "x.tsv", "--columns", names)
    assert "on x.tsv: 2 rows, 13 words" in ran.out


def test_a_decoder_reads_the_target_of_the_data_or_a_copy(headscope, tmp_path, bart):
    (tmp_path / "x.tsv").write_text(PAIRS)
    found = {}
    for target in ("column", "copy"):
        options = ("--attention", "decoder", "--target", target, "-o", "s.json")
        ran = headscope("surface", bart, "x.tsv", *options)
        found[target] = document_of(ran, tmp_path / "s.json")
        assert found[target]["settings"]["target"] == target
        assert found[target]["model"]["attention"] == "decoder"
        assert len(found[target]["values"]["first"]) == 2
    assert found["column"]["data"]["n_words"] == 7
    assert found["copy"]["data"]["n_words"] == 13
    ran = headscope("surface", bart, "demo", "--attention", "decoder")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "(line 1): found no target" in ran.err
    ran = headscope("surface", bart, "x.tsv", "--attention", "encoder", "-o", "s.json")
    assert len(document_of(ran, tmp_path / "s.json")["values"]["first"]) == 3


CROSS = ("--attention", "cross", "--target", "copy")


def test_cross_attention_says_why_places_are_not_compared(headscope, tmp_path, bart):
    document = document_of(
        headscope("surface", bart, "demo", "--limit", 3, *CROSS, "-o", "s.json"),
        tmp_path / "s.json",
    )
    values, nulls = document["values"], document["nulls"]
    for name in ("previous", "next", "self", "distance", "other_segment", "other_text"):
        assert values[name] is None
        told = "in cross-attention queries and keys are different texts"
        assert nulls[f"/values/{name}"] == nulls[f"/variants/without_first/values/{name}"] == told
    for name in ("first", "separator", "punctuation", "entropy", "entropy_relative"):
        assert len(values[name]) == 2
    table = headscope("surface", bart, "demo", "--limit", 3, *CROSS)
    assert "not there (the JSON file says why): previous, next, self" in table.out


def test_cross_attention_has_no_arcs_and_a_report_does_without(headscope, tmp_path, bart):
    ran = headscope("dependency", bart, "demo", "--limit", 3, *CROSS)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "cross-attention goes from one text to another" in ran.err
    assert "observe the encoder or the decoder for dependency" in ran.err
    ran = headscope("report", bart, "demo", "--limit", 3, *CROSS, "-o", "r.html")
    assert ran.code == 0
    note = "dependency accuracy and sentences to look at are left out"
    assert note in ran.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert note in page
    assert "Which attention head carries which relation" not in page
    assert "What each attention head attends to" in page
    assert 'href="#sentences"' not in page
    assert "Tokens of the target, which the decoder reads, attend to tokens of the source" in page
    assert "the first token of the source" in page
    assert "Cross-attention heads of" in page


def test_a_target_that_nobody_reads_is_refused(headscope, bart, ewt):
    ran = headscope("surface", "demo", ewt, "--limit", 2, "--target", "copy")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert (
        "demo: found --target copy, and its encoder attention reads no target; expected" in ran.err
    )
    ran = headscope("surface", bart, ewt, "--limit", 2, "--target", "copy")
    assert (ran.code, "expected --attention decoder or cross, or no --target" in ran.err) == (
        2,
        True,
    )


def test_whose_attention_it_is_stands_in_the_header(headscope, bart):
    of_decoder = ("--attention", "decoder", "--target", "copy")
    found = {}
    for name, given in (("encoder", ()), ("decoder", of_decoder), ("cross", CROSS)):
        found[name] = headscope("surface", bart, "demo", "--limit", 3, *given).out
    assert "(3 layers x 2 heads, encoder attention) on demo: " in found["encoder"]
    assert "(2 layers x 2 heads, decoder attention, target: copy) on demo" in found["decoder"]
    assert "(2 layers x 2 heads, cross-attention, target: copy) on demo" in found["cross"]


def test_windows_that_are_shorter_than_asked_for_are_told(headscope, ewt):
    given = ("surface", "demo", ewt, "--limit", 3, "--windows", "--window-tokens")
    assert "note: windows hold up to 512 tokens, not 5,000 as asked for: the model takes" in (
        headscope(*given, 5000).err
    )
    assert "as asked for" not in headscope(*given, 40).err
