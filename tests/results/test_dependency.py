import math
from dataclasses import replace

import numpy as np
import pytest

from headscope.results import DIRECTIONS


def test_json_fits_the_schema(dependency_result, check_json):
    document = check_json(dependency_result())
    values = document["values"]
    nsubj = values["relations"]["nsubj"]
    assert nsubj["accuracy"]["dependent_to_head"] == [[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]]
    assert nsubj["best"]["ci95"] == [0.5, 0.7]
    assert nsubj["gain_ci95"] == [0.1, 0.3]
    assert nsubj["ceiling"]["dependent_to_head"] == [0.5, 1.0, 1.0]
    assert nsubj["best"]["ceiling"] == 0.75
    assert values["overall"]["all_arcs"]["ceiling"] == nsubj["ceiling"]
    assert values["uas"]["head_to_dependent"]["no_punct"][0] == [0.1, 0.2]
    assert "accuracy" not in values["overall"]["all_arcs"]


def test_labels_with_slash_and_tilde_are_told_apart(dependency_result):
    document = dependency_result().to_dict()
    assert document["nulls"]["/values/relations/a~1b~0c/gain"] == "fewer than 10 units"
    assert document["nulls"]["/values/relations/a~1b~0c/best/held_out_ci95"]
    assert document["values"]["relations"]["a/b~c"]["gain"] is None


def test_intervals_of_relations_and_totals(dependency_result):
    intervals = dependency_result().to_dict()["ci95"]
    assert sorted(intervals) == [
        "relations/nsubj/dependent_to_head",
        "relations/nsubj/head_to_dependent",
        "uas/dependent_to_head/all_arcs",
        "uas/dependent_to_head/no_punct",
        "uas/head_to_dependent/all_arcs",
        "uas/head_to_dependent/no_punct",
    ]
    assert intervals["relations/nsubj/dependent_to_head"]["high"][2][1] == 0.51


def test_control_stands_beside_with_numbers_only(dependency_result, check_json):
    document = check_json(dependency_result(control=dependency_result(labels=("nsubj",))))
    assert sorted(document["control"]) == ["ci95", "nulls", "values"]
    assert list(document["control"]["values"]["relations"]) == ["nsubj"]


@pytest.mark.parametrize("control", [False, True])
def test_nothing_scored_is_still_a_result(control, dependency_result, check_json):
    nothing = dependency_result(labels=(), totals=())
    result = dependency_result(labels=(), totals=(), control=nothing if control else None)
    assert check_json(result)["values"]["relations"] == {}
    frame, scored = result.to_frame(), dependency_result().to_frame()
    assert list(frame.columns)[: len(scored.columns)] == list(scored.columns)
    assert frame.empty
    assert list(result.heads_frame().columns) == list(dependency_result().heads_frame().columns)
    assert "0 rows" not in result._repr_html_()


def test_punctuation_only_leaves_one_total_without_scores(dependency_result, check_json):
    result = dependency_result(labels=("punct",), totals=("all_arcs",))
    values = check_json(result)["values"]
    assert values["overall"]["all_arcs"]["count"] > 0
    assert values["overall"]["no_punct"] == {
        "count": 0, "ceiling": None, "best": None, "offset_baseline": None, "gain": None,
        "gain_ci95": None,
    }  # fmt: skip
    assert values["uas"]["dependent_to_head"]["no_punct"] is None
    reasons = result.nulls()
    assert reasons["/values/overall/no_punct/best"] == "there is no arc to score"
    assert list(result.to_frame()["relation"]) == ["punct", "all_arcs"]


def test_frame_has_relations_first_then_totals(dependency_result):
    frame = dependency_result().to_frame()
    assert list(frame["relation"]) == ["nsubj", "a/b~c", "all_arcs", "no_punct"]
    row = frame.iloc[0]
    assert (row["count"], row["layer"], row["head"]) == (7, 2, 1)
    assert (row["held_out_low"], row["held_out_accuracy"], row["held_out_high"]) == (
        0.45, 0.55, 0.65,
    )  # fmt: skip
    assert (row["offset"], row["offset_accuracy"], row["offset_held_out_accuracy"]) == (
        -1, 0.4, 0.35,
    )  # fmt: skip
    assert (row["accuracy"], row["ceiling"]) == (0.6, 0.75)
    assert (row["gain_low"], row["gain"], row["gain_high"]) == (0.1, 0.2, 0.3)
    assert math.isnan(frame.iloc[1]["gain"])


def test_frame_of_a_controlled_result_has_the_control_as_columns(dependency_result):
    frame = dependency_result(control=dependency_result(labels=("nsubj",))).to_frame()
    assert frame.iloc[0]["control_held_out_accuracy"] == 0.55
    assert frame.iloc[0]["control_accuracy"] == 0.6
    assert math.isnan(frame.iloc[1]["control_accuracy"])


def test_ceilings_below_1_are_known_layers_that_are_not_seen_aside(dependency_result):
    result = dependency_result()
    assert result.has_ceilings
    full = {side: np.array([1.0, np.nan, 1.0]) for side in DIRECTIONS}
    scores = {"nsubj": replace(result.relations["nsubj"], ceiling=full)}
    assert not replace(result, relations=scores, overall=scores).has_ceilings
    one_way = full | {"head_to_dependent": np.array([1.0, 0.9, 1.0])}
    low = {"nsubj": replace(result.relations["nsubj"], ceiling=one_way)}
    assert replace(result, relations=low, overall=scores).has_ceilings


def test_heads_frame_has_one_row_a_relation_direction_and_head(dependency_result):
    frame = dependency_result().heads_frame()
    assert list(frame.columns) == [
        "relation", "count", "direction", "layer", "head", "accuracy", "ceiling", "low",
        "high",
    ]  # fmt: skip
    assert len(frame) == 4 * 2 * 3 * 2
    row = frame.query(
        "relation == 'nsubj' and direction == 'head_to_dependent' and layer == 1 and head == 1"
    ).iloc[0]
    assert row["accuracy"] == pytest.approx(0.4)
    assert row["high"] == pytest.approx(0.41)
    ceilings = frame.query("relation == 'nsubj' and head == 1")["ceiling"]
    assert ceilings.tolist() == [0.5, 1.0, 1.0, 1.0, 1.0, 0.75]
    assert frame[frame["relation"] == "a/b~c"]["low"].isna().all()
