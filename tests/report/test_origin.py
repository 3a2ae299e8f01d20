"""The head of a report."""

from dataclasses import replace

from headscope.report.origin import header, page_title
from tests.synthetic import dependency, provenance, surface

HOSTILE = "<img src=x onerror=alert(1)>"


def test_everything_needed_to_make_it_again_is_there():
    found = header([surface(), dependency()], None)
    for part in (
        "Attention heads of <em><bdi>demo</bdi></em> on",
        "72 attention heads (6 layers × 12 heads, encoder attention)",
        "named layer.head, both counted from 0",
        "53aa51172d14…",
        'title="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"',
        "0b5a5f0b64bd…",
        "<dd>bert</dd>",
        "<dd>float32</dd>",
        "<dd>conllu</dd>",
        "<dd>gold</dd>",
        "<dt>intervals resample</dt><dd>12 documents</dd>",
        "<dd>5,224</dd>",
        "<dd>6,586</dd>",
        "0.04 % of tokens",
        "<dt>seed</dt><dd>0</dd>",
        "<dt>torch</dt><dd>2.9.0</dd>",
        "the first 300 of 1,250 sentences (--limit 300)",
    ):
        assert part in found, part


def test_warnings_come_once_and_before_the_facts():
    found = header([surface(), dependency()], None)
    warning = "the packaged model is distilled and was tuned on sentence pairs"
    assert found.count(warning) == 1
    assert found.index(warning) < found.index("<h2>Model</h2>")


def test_without_warnings_and_note_there_is_no_box():
    origin = replace(provenance(note=""), warnings=())
    found = header([surface(origin)], None)
    assert "Keep in mind" not in found
    assert "About the data" not in found


def test_settings_read_as_words():
    settings = {"coarse": True, "measures": ("a", "b"), "none": None, "map": {"k": 1}, "empty": []}
    found = header([surface(provenance(settings=settings))], None)
    for part in ("<dd>yes</dd>", "<dd>a, b</dd>", "<dd>k: 1</dd>", "<dt>none</dt><dd>–</dd>"):
        assert part in found, part
    assert "<dt>empty</dt><dd>–</dd>" in found


def test_one_is_singular():
    found = header([surface(provenance(n_sentences=1, n_words=1, n_units=1))], None)
    assert "over 1 sentence, 1 word with gold annotation" in found
    assert "<dd>1 document</dd>" in found


def test_only_what_was_skipped_is_listed():
    assert "<dt>skipped</dt><dd>nothing</dd>" in header([surface()], None)
    origin = provenance(skipped={"too_long": 3, "broken": 0})
    assert "<dd>too long: 3</dd>" in header([surface(origin)], None)


def test_controls_are_named():
    control = surface(provenance(settings={"control": "shuffled-words"}))
    assert "<dt>control shown</dt><dd>shuffled-words</dd>" in header(
        [surface(control=control)], None
    )


def test_a_title_of_ones_own():
    assert "<h1>Mine &amp; yours</h1>" in header([surface()], "Mine & yours")
    assert page_title([surface()], "Mine") == "Mine"
    assert page_title([surface()], None) == "Attention heads of demo on demo"


def test_hostile_names_and_missing_digests():
    origin = provenance(
        name=HOSTILE,
        revision=HOSTILE,
        family=HOSTILE,
        weights_sha256="",
        format=HOSTILE,
        note=HOSTILE,
    )
    origin = replace(origin, warnings=(HOSTILE,), versions={HOSTILE: HOSTILE})
    found = header([surface(origin)], HOSTILE)
    assert "<img" not in found
    assert "<dt>weights sha256</dt><dd>–</dd>" in found


def test_a_decoder_beside_an_encoder_is_named_with_what_it_reads():
    origin = provenance(attention="decoder", settings={"target": "copy"})
    found = header([surface(origin)], None)
    assert "<h1>Decoder attention heads of <em>" in found
    assert "12 heads, decoder attention) over" in found
    assert "The decoder reads a copy of the source text." in found
    cross = surface(provenance(attention="cross", settings={"target": "column"}))
    assert page_title([cross], None) == "Cross-attention heads of demo on demo"
    assert "The decoder reads the target of each row." in header([cross], None)


def test_tables_of_texts_have_rows():
    found = header([surface(provenance(format="pairs", unit="sentence", n_units=30))], None)
    assert "over 300 rows, 5,224 words" in found
    assert "<dt>rows</dt><dd>300</dd>" in found
    assert "<dd>30 rows</dd>" in found
