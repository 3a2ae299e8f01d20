from dataclasses import replace

import numpy as np
import pytest


def test_json_fits_the_schema(surface_result, check_json):
    document = check_json(surface_result())
    assert document["values"]["previous"] == [[0.0, 0.1], [0.2, 0.3], [0.4, None]]
    assert document["values"]["cls"] is None
    assert document["uniform"] == {"previous": 0.2, "entropy": 1.0, "cls": None}
    assert document["counts"] == {"previous": 90, "entropy": 99, "cls": 0}
    assert document["units"]["entropy"] == "nats"
    assert document["ci95"]["previous"]["low"][0] == [-0.1, 0.0]
    assert document["uniform_by_layer"]["previous"] == [0.1, 0.2, 0.3]
    assert document["ci95"]["entropy"] is document["ci95"]["cls"] is None


def test_every_null_has_its_reason(surface_result):
    reasons = {
        "/values/cls": "the tokenizer has no [CLS]",
        "/uniform/cls": "the tokenizer has no [CLS]",
        "/uniform_by_layer/cls": "the tokenizer has no [CLS]",
        "/ci95/cls": "the tokenizer has no [CLS]",
        "/ci95/entropy": "fewer than 10 units",
    }
    in_variant = {f"/variants/without_first{place}": why for place, why in reasons.items()}
    in_variant["/variants/without_first/undefined/cls"] = "the tokenizer has no [CLS]"
    assert surface_result().to_dict()["nulls"] == reasons | in_variant


def test_every_reason_points_at_a_null(surface_result):
    document = surface_result().to_dict()
    for pointer in document["nulls"]:
        *parents, name = pointer.split("/")[1:]
        held = document
        for part in parents:
            held = held[part]
        assert held[name] is None


def test_the_other_ways_stand_beside_with_undefined_rows_counted(surface_result, check_json):
    ((way, variant),) = check_json(surface_result())["variants"].items()
    assert way == "without_first"
    assert variant["values"]["previous"] == [[0.0, 0.05], [0.1, 0.15], [0.2, None]]
    assert variant["undefined"]["previous"] == [[0, 0], [0, 0], [0, 90]]
    assert variant["counts"] == {"previous": 90, "entropy": 99, "cls": 0}
    assert sorted(variant) == [
        "ci95", "counts", "undefined", "uniform", "uniform_by_layer", "values",
    ]  # fmt: skip


def test_ways_that_leave_no_token_out_have_nothing_undefined(surface_result, check_json):
    result = surface_result()
    both = {"first_text": result.measures, "second_text": result.measures}
    document = check_json(replace(result, variants=both))
    reasons = document["nulls"]
    assert reasons["/variants/first_text/undefined/entropy"] == "no token is left out"


def test_all_ways_have_names_for_people_and_none_that_does_not_exist(surface_result):
    result = surface_result()
    assert list(result.all_ways()) == [
        "previous", "entropy", "previous, first token left out", "entropy, first token left out",
        "cls",
    ]  # fmt: skip
    found = result.all_ways()["previous, first token left out"]
    assert found is result.variants["without_first"]["previous"]


def test_layers_whose_uniform_values_differ(surface_result):
    measures = surface_result().measures
    assert measures["previous"].differs_by_layer
    assert not measures["entropy"].differs_by_layer
    assert not measures["cls"].differs_by_layer


def test_control_stands_beside_with_numbers_only(surface_result, check_json):
    document = check_json(surface_result(control=surface_result(shift=0.3)))
    control = document["control"]
    assert sorted(control) == [
        "ci95", "counts", "nulls", "uniform", "uniform_by_layer", "units", "values", "variants",
    ]  # fmt: skip
    assert control["values"]["previous"][0] == [0.3, 0.4]


def test_frame_has_one_row_a_measure_and_head(surface_result):
    frame = surface_result().to_frame()
    assert list(frame.columns) == [
        "measure", "way", "layer", "head", "value", "low", "high", "uniform", "units", "n",
    ]  # fmt: skip
    assert len(frame) == 2 * 2 * 3 * 2
    assert frame["way"].tolist() == ["all"] * 12 + ["without_first"] * 12
    frame = frame[frame["way"] == "all"]
    assert list(frame["measure"].unique()) == ["previous", "entropy"]
    row = frame.query("measure == 'previous' and layer == 1 and head == 0").iloc[0]
    assert row["value"] == 0.2
    assert row["low"] == pytest.approx(0.1)
    assert row["high"] == pytest.approx(0.3)
    assert (row["uniform"], row["units"], row["n"]) == (0.2, "probability", 90)
    assert frame.query("measure == 'entropy'")["low"].isna().all()


def test_frame_of_a_controlled_result_has_the_control_as_a_column(surface_result):
    frame = surface_result(control=surface_result(shift=0.3)).to_frame()
    rows = frame.query("measure == 'previous' and layer == 2 and head == 0").set_index("way")
    assert list(rows["value"]) == pytest.approx([0.4, 0.2])
    assert list(rows["control"]) == pytest.approx([0.7, 0.35])


def test_nothing_defined_is_an_empty_frame(surface_result):
    result = surface_result()
    only_null = {"cls": result.measures["cls"]}
    empty = type(result)(result.provenance, None, only_null)
    assert empty.to_frame().empty
    assert list(empty.to_frame().columns) == list(result.to_frame().columns)
    assert np.isnan(only_null["cls"].values).all()
