"""The card of a checkpoint says what it is."""

from huggingface_hub import ModelCard

from headscope.finetune.card import write_card

RESULT = {
    "start": "demo", "task": "stsb", "method": "r3f",
    "scores": {"pearson": 0.51234, "spearman": None}, "nulls": {"spearman": "constant"},
    "data": {"train": {"file": "t.tsv", "n_examples": 2000, "note": "the first 2,000"},
             "dev": {"file": "d.tsv", "n_examples": 10, "note": ""}},
    "settings": {"versions": {"headscope": "0.1.0"}, "training": {"seed": 3},
                 "methods": {"r3f": {"eps": 1e-5}}},
    "warnings": ["labels may be permuted"],
}  # fmt: skip


def test_the_card_has_metadata_scores_data_and_settings(tmp_path):
    write_card(tmp_path, RESULT)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.base_model == "demo"
    assert card.data.tags == ["headscope", "stsb", "r3f"]
    for line in (
        "| pearson | 0.5123 |", "| spearman | undefined: constant |",
        "| train | t.tsv | 2,000 | the first 2,000 |", "| dev | d.tsv | 10 | whole file |",
        "| seed | 3 |", "| r3f.eps | 1e-05 |", "Warning: labels may be permuted",
    ):  # fmt: skip
        assert line in card.text, line
