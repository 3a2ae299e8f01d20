"""`headscope cost`, called as a user would."""

from tests.extraction.toys import bert_config, random_model, save


def test_a_table_of_costs(headscope, tmp_path):
    save(tmp_path / "m", random_model(bert_config()))
    options = ("--batch-size", 4, "--length", 8, "--repeats", 1)
    ran = headscope("cost", "./m", "--methods", "r3f,llrd", *options)
    assert (ran.code, ran.err) == (0, "")
    for name in ("standard", "r3f", "llrd", "transformers Trainer", "/ standard"):
        assert name in ran.out
    assert headscope("cost", "./m", "--methods", "x").code == 2
