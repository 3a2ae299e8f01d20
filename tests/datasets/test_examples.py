"""Examples of tasks: real files, hostile ones, and what is said of each fault."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from headscope.datasets.examples import (
    Example,
    find_file,
    fingerprint_of,
    read_split,
    refuse_other_labels,
)  # fmt: skip
from headscope.datasets.tasks import task_of
from headscope.errors import InputError, ParseError

HOSTILE = Path(__file__).resolve().parents[1] / "data" / "hostile"
with (HOSTILE / "manifest.tsv").open(encoding="utf-8", newline="") as handle:
    LISTED = [row["file"] for row in csv.DictReader(handle, delimiter="\t", quoting=3)]

READ = {  # task, labels
    "glue-bom-header.tsv": ("mrpc", [1]),
    "glue-crlf.tsv": ("sst2", [1, 0]),
    "glue-no-header.tsv": ("cola", [1, 0]),
    "glue-quotes.tsv": ("sst2", [1, 0, 0, 1]),
    "glue-special-tokens.tsv": ("sst2", [0, 1]),
    "sts-constant.tsv": ("stsb", [2.5] * 4),
}
REFUSED = {  # task, line, what is said
    "glue-embedded-tab.tsv": ("sst2", 3, "3 tab-separated columns; expected 2"),
    "glue-empty-sentence.tsv": ("sst2", 2, "an empty 'sentence'; expected at least one word"),
    "glue-header-only.tsv": ("sst2", 1, "no example"),
    "glue-missing-column.tsv": ("rte", 1, "no column 'sentence2' among 'index', 'sentence1'"),
    "glue-short-row.tsv": ("rte", 3, "3 tab-separated columns; expected 4"),
    "glue-unknown-label.tsv": (
        "rte", 3, "label 'contradiction'; expected one of entailment, not_entailment"
    ),
    "sts-bad-score.tsv": ("stsb", 2, "score 'nan'; expected a number from 0 to 5"),
}  # fmt: skip


def test_every_hostile_file_of_tasks_is_tried():
    listed = {name for name in LISTED if name.startswith(("glue-", "sts-"))}
    assert listed == READ.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", READ)
def test_odd_files_are_read(name):
    task, labels = READ[name]
    assert [e.label for e in read_split(task_of(task), HOSTILE / name).examples] == labels


@pytest.mark.parametrize("name", REFUSED)
def test_broken_files_are_told_with_their_line(name):
    task, line, said = REFUSED[name]
    with pytest.raises(ParseError) as caught:
        read_split(task_of(task), HOSTILE / name)
    assert f"{name}:{line}: found {said}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_header_is_told_by_the_column_that_is_missing():
    with pytest.raises(ParseError, match="no column 'sentence' among 'gj04'"):
        read_split(task_of("sst2"), HOSTILE / "glue-no-header.tsv")


def table(tmp_path, name, *lines):
    path = tmp_path / name
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(
        gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    )
    return path


@pytest.mark.parametrize("score", ["6.5", "", "3,5", "-0.1", "inf", "x"])
def test_scores_out_of_bounds_never_get_near_a_loss(tmp_path, score):
    path = table(
        tmp_path, "s.tsv", "sentence1\tsentence2\tscore", "a cat\ta dog\t2", f"a\tb\t{score}"
    )
    with pytest.raises(ParseError, match=f"s.tsv:3: found score .*{score}.*from 0 to 5"):
        read_split(task_of("stsb"), path)


def test_c098_labels_by_name_with_known_aliases(tmp_path):
    header = "premise\thypothesis\tgold_label"
    names = ("contradictory", "neutral", "entailment")
    path = table(tmp_path, "n.tsv", header, *(f"a\tb\t{name}" for name in names))
    found = read_split(task_of("snli"), path)
    assert [found.labels[e.label] for e in found.examples] == ["contradiction", *names[1:]]
    path = table(tmp_path, "m.tsv", header, "a\tb\t0")
    with pytest.raises(ParseError, match="label '0'; expected one of entailment, neutral"):
        read_split(task_of("mnli"), path)


def test_c096_rows_without_a_label_are_no_examples_to_learn_from(tmp_path):
    path = table(tmp_path, "t.tsv", "sentence\tlabel", "good\t-1", "bad\t0")
    found = read_split(task_of("sst2"), path)
    assert (len(found.examples), found.n_unlabelled) == (2, 1)
    assert [e.text for e in found.labelled] == ["bad"]


def test_rows_of_snli_have_a_label_for_each_annotator_the_gold_one_last(tmp_path):
    header = "index\tsentence1\tsentence2\tlabel1\tgold_label"
    rows = ("0\ta\tb\tneutral\tentailment", "1\ta\tb\tneutral\tneutral\tneutral\tcontradiction")
    found = read_split(task_of("snli"), table(tmp_path, "s.tsv", header, *rows))
    assert [found.labels[e.label] for e in found.examples] == ["entailment", "contradiction"]


def test_json_lines_arrays_and_gzip_are_the_same(tmp_path):
    rows = [{"premise": "a", "hypothesis": "b", "gold_label": "neutral"},
            {"premise": "c", "hypothesis": "d", "gold_label": "entailment"}]  # fmt: skip
    array = tmp_path / "a.json"
    array.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    lines = table(tmp_path, "l.jsonl", *(json.dumps(row) for row in rows))
    zipped = table(tmp_path, "l.jsonl.gz", *(json.dumps(row) for row in rows))
    texts = []
    for path in (array, lines, zipped):
        found = read_split(task_of("klue-nli"), path)
        texts.append([(e.text, e.text_pair, e.label) for e in found.examples])
    assert texts == [[("a", "b", 1), ("c", "d", 0)]] * 3
    array.write_text("[1]", encoding="utf-8")
    with pytest.raises(ParseError, match="item 1, '1'; expected a JSON array of objects"):
        read_split(task_of("klue-nli"), array)
    array.write_text("[\n{]", encoding="utf-8")
    with pytest.raises(ParseError, match=r"a\.json:2: found broken JSON"):
        read_split(task_of("klue-nli"), array)


def test_tables_of_ones_own_tell_their_labels(tmp_path):
    task = task_of("classification")
    train = read_split(task, table(tmp_path, "a.tsv", "review\tstars", "x y\tgood", "z\tbad"),
                       columns={"text": "review", "label": "stars"})  # fmt: skip
    assert train.labels == ("bad", "good")
    assert train.examples[0] == Example("x y", None, 1, 2)
    dev = table(tmp_path, "b.tsv", "text\tlabel", "u\tgood", "v\tfair")
    with pytest.raises(
        ParseError, match=r"b\.tsv:3: found label 'fair'; expected one of bad, good"
    ):
        read_split(task, dev, labels=train.labels)
    dev = read_split(task, table(tmp_path, "c.tsv", "text\tlabel", "u\tgood"), labels=train.labels)
    with pytest.raises(
        InputError, match=r"c\.tsv: found no example of bad; expected the labels of a"
    ):
        refuse_other_labels(train, dev)
    refuse_other_labels(train, train)
    with pytest.raises(ParseError, match="1 label in column 'label'"):
        read_split(task, table(tmp_path, "d.tsv", "text\tlabel", "u\tgood"))


def test_numbers_of_ones_own_have_no_bounds(tmp_path):
    path = table(tmp_path, "r.tsv", "text\ttext_pair\tlabel", "a\tb\t-1", "a\tb\t1e3")
    found = read_split(task_of("regression"), path)
    assert [e.label for e in found.examples] == [-1.0, 1000.0]
    assert found.labels == ()


def test_cuts_are_told_and_change_the_fingerprint():
    whole = read_split(task_of("sst2"), HOSTILE / "glue-quotes.tsv")
    part = whole.cut(2)
    assert part.note == "the first 2 of 4 examples"
    assert whole.cut(None) is whole
    assert whole.cut(4) is whole
    assert fingerprint_of([whole]) != fingerprint_of([part])


def test_files_are_found_by_the_names_that_they_have(tmp_path):
    (tmp_path / "train.tsv").touch()
    (tmp_path / "dev_matched.tsv.gz").touch()
    assert find_file(task_of("mnli"), tmp_path, "train").name == "train.tsv"
    assert find_file(task_of("mnli"), tmp_path, "dev").name == "dev_matched.tsv.gz"
    with pytest.raises(
        InputError, match=r"found dev_matched\.tsv\.gz, train\.tsv; expected test_m"
    ):
        find_file(task_of("mnli"), tmp_path, "test")
    with pytest.raises(InputError, match="no such folder"):
        find_file(task_of("mnli"), tmp_path / "nowhere", "train")


COUNTS = {  # facts of the folders' SOURCE.md
    "glue-qnli/dev.tsv": ("qnli", {"entailment": 2702, "not_entailment": 2761}),
    "glue-wnli/train.rebuilt.tsv": ("wnli", {"entailment": 312, "not_entailment": 323}),
    "klue/klue-nli-v1.1_dev.json": ("klue-nli", dict.fromkeys(task_of("mnli").labels, 1000)),
    "nli-mnli/train.kshot.tsv": ("mnli", dict.fromkeys(task_of("mnli").labels, 160)),
    "nli-snli/train.kshot.tsv": ("snli", dict.fromkeys(task_of("mnli").labels, 160)),
    "nli-snli/dev.900.tsv": ("snli", dict.fromkeys(task_of("mnli").labels, 300)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_files_have_the_labels_that_their_source_counts(shared, name):
    task, expected = COUNTS[name]
    split = read_split(task_of(task), shared / "data" / name)
    found = {label: 0 for label in split.labels}
    for example in split.examples:
        found[split.labels[example.label]] += 1
    assert found == expected
