"""Surface patterns: reference numbers, a plain re-implementation, merging, padding, intervals."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from headscope.datasets import open_corpus
from headscope.errors import MergeError
from headscope.extraction.batches import batches
from headscope.extraction.calibration import observe
from headscope.extraction.hook import attention_set_to, inputs
from headscope.extraction.measures import MEASURES
from headscope.extraction.observers import BOOTSTRAP, MIN_UNITS, Resampling
from headscope.extraction.run import run
from headscope.probing.surface import Surface

EXPECTED = Path(__file__).resolve().parents[1] / "data" / "expected" / "surface.json"
RESAMPLING = Resampling(0, "ef" * 32)
NAMES = {
    "previous": "prev", "next": "next", "self": "self", "first": "cls", "cls": "cls",
    "separator": "sep", "punctuation": "punct", "entropy": "entropy",
    "entropy_from_first": "entropy_from_cls", "entropy_from_cls": "entropy_from_cls",
}  # fmt: skip


def observed(encoder, sentences, *, batch_tokens=1024, resampling=RESAMPLING):
    observer = Surface(encoder, resampling)
    with observe(encoder, [observer]) as seen:
        for batch in batches(encoder, sentences, batch_tokens=batch_tokens):
            seen.forward(batch)
    return observer


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
                    for name, where in keys.items():
                        sums[name][at] += a[i, np.array(where)].sum()
                for name in ("entropy_from_first", "entropy_from_cls"):
                    sums[name][at] += scipy.stats.entropy(a[0])
    return {name: (sums[name] / rows[name], rows[name]) for name in MEASURES}


def test_equals_plain_loops_over_the_models_own_attention(encoder, sentences):
    some = [s for s in sentences if len(s.words) < 16][:4]
    result = observed(encoder, some, batch_tokens=200).result()
    for name, (values, rows) in plain(encoder, some).items():
        assert result[name].n == rows, name
        np.testing.assert_allclose(result[name].values, values, atol=2e-6, err_msg=name)


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
    sums = np.stack([o.sums[0, 2, 8, at] for o in alone.values()])
    rows = np.stack([o.counts[0, at] for o in alone.values()])
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
    from dataclasses import replace

    bare = [replace(s, upos=("_",) * len(s.words)) for s in sentences[:3]]
    result = observed(encoder, bare).result()
    assert "no parts of speech" in result["punctuation_all"].why_null
    assert np.isnan(result["punctuation_all"].values).all()
    assert result["punctuation"].why_null is None


def test_other_settings_do_not_merge(encoder):
    with pytest.raises(MergeError, match="cannot add surface sums"):
        Surface(encoder, RESAMPLING) + Surface(encoder, Resampling(1, "ef" * 32))
