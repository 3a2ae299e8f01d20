"""Surface patterns: reference numbers, a plain re-implementation, merging, padding, intervals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from headscope.datasets import Sentence, open_corpus
from headscope.extraction.batches import batches
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.measures import MEASURES, NOT_SQUARE
from headscope.extraction.observers import BOOTSTRAP, MIN_UNITS, Resampling
from headscope.extraction.run import run
from headscope.probing.surface import Surface
from tests import models
from tests.loops import Sequence, plain_surface, pooled, uniform_attention

NOWHERE = {"other_segment", "other_text", "sink"}

EXPECTED = Path(__file__).resolve().parents[1] / "data" / "expected" / "surface.json"
RESAMPLING = Resampling(0, "ef" * 32)
NAMES = {
    "previous": "prev", "next": "next", "self": "self", "first": "cls", "cls": "cls",
    "separator": "sep", "punctuation": "punct", "entropy": "entropy",
    "entropy_from_first": "entropy_from_cls", "entropy_from_cls": "entropy_from_cls",
}  # fmt: skip


def observed(encoder, sentences, *, batch_tokens=1024, resampling=RESAMPLING):
    return models.shown(Surface(encoder, resampling), sentences, batch_tokens=batch_tokens)


@pytest.fixture(scope="module")
def tiny():
    return models.encoder("bert")


@pytest.fixture(scope="module")
def sentences():
    return list(open_corpus("demo", limit=24).read())


@pytest.fixture(scope="module")
def on_ewt(encoder):
    path = Path(__file__).resolve().parents[1] / "data" / "ewt" / "en_ewt-dev.first100.conllu"
    observer = Surface(encoder, RESAMPLING)
    run(encoder, open_corpus(path), [observer])
    return observer.result()


@pytest.mark.parametrize("name", list(NAMES))
def test_equals_the_reference_numbers(on_ewt, name):
    expected = np.array(json.loads(EXPECTED.read_text())["micro"][NAMES[name]])
    np.testing.assert_allclose(on_ewt[name].values, expected, atol=2e-5)


def plain(encoder, sentences):
    """Sum and number of rows of every measure by loops over the model's own eager maps."""
    shape = (encoder.n_layers, encoder.n_heads)
    sums = {name: np.zeros(shape) for name in MEASURES}
    rows = dict.fromkeys(MEASURES, 0)
    for sentence in sentences:
        (batch,) = batches(encoder, [sentence])
        with torch.no_grad(), attention_set_to(encoder.model, "eager"):
            maps = encoder.model(**inputs(encoder, batch), output_attentions=True).attentions
        pieces = batch.pieces[0]
        n = len(pieces.ids)
        tokens = [encoder.tokenizer.id_to_token(int(i)) for i in pieces.ids]
        of_word = [sentence.words[w] if w >= 0 else None for w in pieces.word_of]
        of_tag = [sentence.upos[w] if w >= 0 else None for w in pieces.word_of]
        keys = {
            "first": [i == 0 for i in range(n)],
            "cls": [t == "[CLS]" for t in tokens],
            "separator": [t == "[SEP]" for t in tokens],
            "special": [t in ("[CLS]", "[SEP]") for t in tokens],
            "punctuation": [t in (".", ",") for t in tokens],
            "punctuation_words": [w in (".", ",") for w in of_word],
            "punctuation_all": [t == "PUNCT" for t in of_tag],
        }
        for name in MEASURES:
            rows[name] += {"previous": n - 1, "next": n - 1}.get(name, n)
            if name.startswith("entropy_from"):
                rows[name] += 1 - n
            if name in NOWHERE:
                rows[name] = 0
        for layer in range(encoder.n_layers):
            for head in range(encoder.n_heads):
                a = maps[layer][0, head].double().numpy()
                at = (layer, head)
                for i in range(n):
                    sums["self"][at] += a[i, i]
                    sums["previous"][at] += a[i, i - 1] if i else 0
                    sums["next"][at] += a[i, i + 1] if i + 1 < n else 0
                    sums["distance"][at] += sum(a[i, j] * abs(i - j) for j in range(n))
                    sums["entropy"][at] += scipy.stats.entropy(a[i])
                    sums["entropy_relative"][at] += scipy.stats.entropy(a[i]) / np.log(n)
                    for name, where in keys.items():
                        sums[name][at] += a[i, np.array(where)].sum()
                for name in ("entropy_from_first", "entropy_from_cls"):
                    sums[name][at] += scipy.stats.entropy(a[0])
    there = [name for name in MEASURES if rows[name]]
    return {name: (sums[name] / rows[name], rows[name]) for name in there}


def test_equals_plain_loops_over_the_models_own_attention(encoder):
    some = [s for s in open_corpus("demo", limit=150).read() if 3 < len(s.words) < 13][:10]
    assert len(some) == 10
    result = observed(encoder, some, batch_tokens=200).result()
    expected = plain(encoder, some)
    assert {name for name, item in result.items() if item.why_null} == MEASURES.keys() - expected
    for name, (values, rows) in expected.items():
        assert result[name].n == rows, name
        np.testing.assert_allclose(result[name].values, values, atol=2e-6, err_msg=name)


WORDS = ("the cat .", "the U.S. , cat", ". , .", "cat", "a b , c d")


def tiny_sentences(encoder):
    """Short sentences, of which the first has no parts of speech; one unit each."""
    made = []
    for number, text in enumerate(WORDS):
        words = tuple(text.split())
        tags = ["PUNCT" if w in (".", ",") else "X" for w in words] if number else ["_"] * 3
        heads, relations = tuple(range(len(words))), ("dep",) * len(words)
        made.append(Sentence(words, heads, relations, tuple(tags), "s", number, number, 1))
    return made


def in_loops(encoder, batch, attention, layer, head):
    """The sequence of a batch of one, for plain loops over one of its heads."""
    pieces, (sentence,) = batch.pieces[0], batch.sentences
    names = [encoder.tokenizer.id_to_token(int(i)).strip("Ġ▁#") for i in pieces.ids]
    places = {i for i, special in enumerate(pieces.special) if special}
    text = [i for i in range(len(names)) if i not in places]
    at_word = {i: (sentence.words[w], sentence.upos[w]) for i in text for w in [pieces.word_of[i]]}
    return Sequence(
        attention=attention[layer][0, head].tolist(),
        cls={i for i in places if names[i] in ("[CLS]", "<s>")},
        separator={i for i in places if names[i] in ("[SEP]", "</s>")},
        special=places,
        punctuation={i for i in text if names[i] in (".", ",")},
        punctuation_words={i for i in text if at_word[i][0] in (".", ",")},
        punctuation_all={i for i in text if at_word[i][1] == "PUNCT"},
        annotated=sentence.upos[0] != "_",
        causal=encoder.causal,
    )


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "albert", "gpt2"])
def test_every_family_equals_plain_loops_and_what_cannot_exist_is_null(kind):
    model = models.encoder(kind)
    some = tiny_sentences(model)
    observer = observed(model, some, batch_tokens=40)
    ways = {"all": observer.result(), **observer.variants()}
    assert list(ways) == ["all", "without_first"]
    batch_of_each = [next(batches(model, [sentence])) for sentence in some]
    attention_of_each = [models.own_attention(model, batch)[0] for batch in batch_of_each]
    for layer, head in np.ndindex(model.n_layers, model.n_heads):
        sequences = [
            in_loops(model, batch, attention, layer, head)
            for batch, attention in zip(batch_of_each, attention_of_each, strict=True)
        ]
        uniform = [replace(s, attention=uniform_attention(s)) for s in sequences]
        for way, result in ways.items():
            flat = pooled(plain_surface(sequence, way) for sequence in uniform)
            found = pooled(plain_surface(sequence, way) for sequence in sequences)
            for name, expected in found.items():
                assert_equals(result[name], (layer, head), expected, flat[name])
    nulls = {name for name, item in ways["all"].items() if item.why_null}
    gone = {"next", "cls", "separator", "special", "entropy_from_cls"} | NOWHERE
    assert nulls == (gone if kind == "gpt2" else NOWHERE)
    nulls = {name for name, item in ways["without_first"].items() if item.why_null}
    assert nulls == (gone | {"first", "entropy_from_first"} if kind == "gpt2" else
                     NOWHERE | {"first", "cls"})  # fmt: skip


def assert_equals(item, place, expected, flat):
    """A map has, for one head, the mean of plain loops, and its uniform value."""
    total, n_rows, undefined = expected
    if n_rows == undefined:
        assert item.why_null
        assert item.uniform is item.uniform_by_layer is item.undefined is None
        assert np.isnan(item.values).all()
        return
    assert item.n == n_rows, item.name
    assert item.undefined is None or item.undefined[place] == undefined, item.name
    assert item.values[place] == pytest.approx(total / (n_rows - undefined), abs=5e-6), item.name
    even = flat[0] / (flat[1] - flat[2])
    assert item.uniform == pytest.approx(even, abs=1e-9), item.name
    assert item.uniform_by_layer == pytest.approx([even] * len(item.values), abs=1e-9)


def test_reasons_say_why_a_measure_is_gone(tiny):
    observer = observed(tiny, tiny_sentences(tiny))
    assert observer.result()["sink"].why_null == MEASURES["sink"].why_none
    without = observer.variants()["without_first"]
    assert without["sink"].why_null == MEASURES["sink"].why_none
    for name in ("first", "cls"):
        assert without[name].why_null == "it does not exist once the first token is left out"


def test_cross_attention_says_why_places_are_not_compared(tiny):
    info = replace(tiny.info, attention="cross")
    result = Surface(replace(tiny, info=info), RESAMPLING).result()
    told = {name for name, item in result.items() if item.why_null == NOT_SQUARE}
    assert told == {"previous", "next", "self", "other_segment", "other_text", "distance"}


def test_uniform_baseline_by_hand(encoder, sentences):
    one = next(s for s in sentences if len(s.words) == 1 or s.words[-1] == ".")
    result = observed(encoder, [one]).result()
    (batch,) = batches(encoder, [one])
    n = len(batch.pieces[0].ids)
    assert result["cls"].uniform == pytest.approx(1 / n)
    assert result["special"].uniform == pytest.approx(2 / n)
    assert result["entropy"].uniform == pytest.approx(np.log(n))
    distances = [abs(i - j) for i in range(n) for j in range(n)]
    assert result["distance"].uniform == pytest.approx(np.mean(distances))


def test_batch_size_and_padding_do_not_matter(encoder, sentences):
    alone, together = (observed(encoder, sentences, batch_tokens=n).result() for n in (1, 4000))
    for name in MEASURES:
        assert alone[name].n == together[name].n
        np.testing.assert_allclose(alone[name].values, together[name].values, atol=1e-5)


def test_halves_added_equal_the_whole(encoder, sentences):
    whole = observed(encoder, sentences, batch_tokens=1)
    both = observed(encoder, sentences[:9], batch_tokens=1) + observed(
        encoder, sentences[9:], batch_tokens=1
    )
    np.testing.assert_allclose(both.sums, whole.sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(both.counts, whole.counts)
    assert both.units == whole.units
    for name in MEASURES:
        np.testing.assert_allclose(
            both.result()[name].values, whole.result()[name].values, rtol=1e-9
        )


def test_result_changes_nothing(encoder, sentences):
    observer = observed(encoder, sentences[:5])
    before = observer.sums.copy()
    observer.result()
    np.testing.assert_array_equal(observer.sums, before)


def test_intervals_equal_a_plain_bootstrap_loop(encoder, ewt):
    per_unit: dict[int, list] = {}
    for sentence in open_corpus(ewt).read():
        per_unit.setdefault(sentence.unit, []).append(sentence)
    alone = {u: observed(encoder, group) for u, group in per_unit.items()}
    weights = RESAMPLING.weights(list(alone))[:, BOOTSTRAP]
    at = list(MEASURES).index("previous")
    sums = np.stack([o.sums[0, 2, 8, 0, at] for o in alone.values()])
    rows = np.stack([o.counts[0, 2, 0, at] for o in alone.values()])
    drawn = [(w * sums).sum() / (w * rows).sum() for w in weights.T]
    item = observed(encoder, [s for group in per_unit.values() for s in group]).result()["previous"]
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert item.low[2, 8] == pytest.approx(low, abs=1e-6)
    assert item.high[2, 8] == pytest.approx(high, abs=1e-6)
    assert low < item.values[2, 8] < high


def test_few_units_give_no_interval_but_a_reason(encoder, sentences):
    item = observed(encoder, sentences).result()["entropy"]
    assert item.low is item.high is None
    assert item.why_no_interval == f"fewer than {MIN_UNITS} units to resample"


def test_data_without_parts_of_speech_have_no_punctuation_all(encoder, sentences):
    bare = [replace(s, upos=("_",) * len(s.words)) for s in sentences[:3]]
    result = observed(encoder, bare).result()
    assert "no parts of speech" in result["punctuation_all"].why_null
    assert np.isnan(result["punctuation_all"].values).all()
    assert result["punctuation"].why_null is None


def test_a_measure_that_few_units_have_gets_no_interval(encoder):
    """Enough sentences, but parts of speech in two of them only."""
    sentences = [s for s in open_corpus("demo", limit=60).read() if len(s.words) < 25][:14]
    assert len(sentences) >= MIN_UNITS
    mixed = [
        replace(s, unit=i, upos=s.upos if i < 2 else ("_",) * len(s.words))
        for i, s in enumerate(sentences)
    ]
    result = observed(encoder, mixed).result()
    assert result["entropy"].low is not None
    assert result["punctuation_all"].low is None
    assert "fewer than 10 units" in result["punctuation_all"].why_no_interval
