"""What a record keeps, and what must be equal for its bytes to be."""

from dataclasses import fields, replace

import pytest

from headscope.errors import HeadscopeError, InputError
from headscope.extraction.record.identity import (
    RecordSettings,
    identity_of,
    model_identity,
    refuse_other_model,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level": "words"}, "unknown level 'words'; did you mean 'word'"),
        ({"rows": "last"}, "unknown rows 'last'"),
        ({"precision": "float64"}, "unknown precision 'float64'"),
        ({"batch_tokens": 0}, "batch_tokens is 0; expected at least 1"),
        ({"max_map_tokens": -1}, "max_map_tokens is -1; expected at least 1"),
        ({"shard_bytes": 0}, "shard_bytes is 0; expected at least 1"),
        ({"hidden_states": (1, 1)}, "one is named twice"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(HeadscopeError, match=message):
        RecordSettings(**changes)


def test_c104_the_identity_holds_every_setting(model, corpus):
    identity = identity_of(model, corpus, RecordSettings())
    assert {item.name for item in fields(RecordSettings)} <= identity.keys()
    assert model_identity(model).items() <= identity.items()


@pytest.mark.parametrize("changed", ["weights_sha256", "dtype", "attention", "n_layers", "n_heads"])
def test_c104_any_change_of_the_model_changes_the_identity(model, changed):
    value = {"n_layers": 9, "n_heads": 9}.get(changed, "other")
    other = replace(model, info=replace(model.info, **{changed: value}))
    assert model_identity(other) != model_identity(model)


def test_c104_using_the_tokenizer_does_not_change_the_identity(model):
    before = model_identity(model)
    model.tokenizer.encode_batch([["the", "cat"]], is_pretokenized=True)
    assert model_identity(model) == before


def test_a_name_is_no_part_of_the_identity(model, corpus):
    moved = replace(model, info=replace(model.info, name="elsewhere", revision="main"))
    renamed = replace(corpus, name="other.conllu")
    settings = RecordSettings()
    assert identity_of(moved, renamed, settings) == identity_of(model, corpus, settings)


def test_both_models_and_what_differs_are_named(model, tmp_path):
    known = model_identity(model)
    refuse_other_model(tmp_path, "it", known, model)
    with pytest.raises(InputError, match=r"attention of it \(dtype float16\); expected that of"):
        refuse_other_model(tmp_path, "it", known | {"dtype": "float16"}, model)
