"""Scores from weighted hits: ties, baselines, held-out choices and intervals, by plain loops."""

import numpy as np
import pytest

from headscope.extraction.observers import BOOTSTRAP, MIN_UNITS, N_SPLITS, SPLITS, Resampling
from headscope.probing.relations import OFFSETS, Tallies, score, totals_of

N_LAYERS, N_HEADS = 3, 4
N_MAPS = 2 * N_LAYERS * N_HEADS


def columns(per_unit, cases, visible=None):
    """Weighted sums [C, K] of per-unit hits [units, maps + offsets] and cases [units].

    visible: [units, 2 * L] arcs that can be seen; by default all.
    """
    count = np.asarray(cases).reshape(-1, 1)
    seen = np.repeat(count, 2 * N_LAYERS, axis=1) if visible is None else visible
    table = np.concatenate([per_unit, seen, count], axis=1)
    return Resampling(3, "cd" * 32).weights(range(len(cases))).T @ table


def random_hits(seed, n_units=40, n_cases=12, rates=None):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 0.7, N_MAPS + len(OFFSETS)) if rates is None else rates
    return rng.binomial(n_cases, rates, (n_units, len(rates))), np.full(n_units, n_cases)


def scored(per_unit, cases, few_units=False):
    sums = columns(per_unit, cases)
    return score(Tallies.of("x", sums, (N_LAYERS, N_HEADS), few_units))


def hits_with(heads=(), offsets=(), n_units=20, n_cases=10):
    """Units in which the given (direction, layer, head) and offsets are right so often."""
    table = np.zeros((n_units, N_MAPS + len(OFFSETS)))
    for (direction, layer, head), right in heads:
        table[:, np.ravel_multi_index((direction, layer, head), (2, N_LAYERS, N_HEADS))] = right
    for offset, right in offsets:
        table[:, N_MAPS + OFFSETS.index(offset)] = right
    return table, np.full(n_units, n_cases)


def test_best_head_by_hand():
    result = scored(*hits_with([((1, 2, 3), 7), ((0, 1, 1), 6)], [(-2, 4)]))
    assert (result.count, result.best.layer, result.best.head) == (200, 2, 3)
    assert result.best.direction == "head_to_dependent"
    assert result.best.accuracy == pytest.approx(0.7)
    assert result.best.n_tied == 1
    assert (result.offset_baseline.offset, result.offset_baseline.accuracy) == (-2, 0.4)
    assert result.accuracy["dependent_to_head"][1, 1] == pytest.approx(0.6)
    assert result.accuracy["head_to_dependent"].shape == (N_LAYERS, N_HEADS)


def test_ties_go_to_dependent_to_head_then_lowest_layer_then_lowest_head():
    tied = [((1, 0, 0), 5), ((0, 2, 0), 5), ((0, 1, 3), 5), ((0, 1, 2), 5)]
    best = scored(*hits_with(tied)).best
    assert (best.direction, best.layer, best.head, best.n_tied) == ("dependent_to_head", 1, 2, 4)


def test_offset_ties_go_to_the_smallest_then_the_positive_one():
    assert scored(*hits_with(offsets=[(-3, 5), (4, 5), (3, 5)])).offset_baseline.offset == 3
    assert scored(*hits_with(offsets=[(-1, 5), (2, 5)])).offset_baseline.offset == -1
    assert scored(*hits_with()).offset_baseline.offset == 1


def test_interval_of_the_best_head_equals_a_plain_bootstrap_loop():
    per_unit, cases = random_hits(1)
    result = scored(per_unit, cases)
    best = np.ravel_multi_index(
        (
            result.best.direction == "head_to_dependent",
            result.best.layer,
            result.best.head,
        ),
        (2, N_LAYERS, N_HEADS),
    )
    weights = Resampling(3, "cd" * 32).weights(range(len(cases)))[:, BOOTSTRAP]
    drawn = [
        sum(w * h for w, h in zip(column, per_unit[:, best], strict=True))
        / sum(w * c for w, c in zip(column, cases, strict=True))
        for column in weights.T
    ]
    assert result.best.ci95 == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))
    assert result.low["dependent_to_head"].shape == (N_LAYERS, N_HEADS)
    low, high = (bound[result.best.direction] for bound in (result.low, result.high))
    assert (
        low[result.best.layer, result.best.head],
        high[result.best.layer, result.best.head],
    ) == (pytest.approx(result.best.ci95))


def held_out_by_loops(hits, cases, order):
    weights = Resampling(3, "cd" * 32).weights(range(len(cases)))[:, SPLITS]
    figures = []
    for split in weights.T:
        for half in (split == 1, split == 0):
            rates = hits[half].sum(0) / cases[half].sum()
            chosen = max(order, key=lambda k: rates[k])  # the first of equals
            figures.append(hits[~half][:, chosen].sum() / cases[~half].sum())
    assert len(figures) == 2 * N_SPLITS
    return np.mean(figures)


def test_held_out_figures_equal_plain_loops():
    per_unit, cases = random_hits(2)
    result = scored(per_unit, cases)
    head = held_out_by_loops(per_unit[:, :N_MAPS], cases, range(N_MAPS))
    order = sorted(range(len(OFFSETS)), key=lambda i: (abs(OFFSETS[i]), -OFFSETS[i]))
    offset = held_out_by_loops(per_unit[:, N_MAPS:], cases, order)
    assert result.best.held_out_accuracy == pytest.approx(head)
    assert result.offset_baseline.held_out_accuracy == pytest.approx(offset)
    assert result.gain == pytest.approx(head - offset)


def test_held_out_interval_holds_its_figure_and_a_clear_gain_excludes_zero():
    rates = np.full(N_MAPS + len(OFFSETS), 0.2)
    rates[5], rates[N_MAPS] = 0.8, 0.4
    result = scored(*random_hits(3, rates=rates))
    low, high = result.best.held_out_ci95
    assert low < result.best.held_out_accuracy < high
    assert 0.2 < result.gain_ci95[0] < result.gain < result.gain_ci95[1] < 0.6


def test_choosing_among_equal_heads_inflates_in_sample_but_not_held_out():
    rates = np.full(N_MAPS + len(OFFSETS), 0.3)
    results = [scored(*random_hits(seed, n_units=20, n_cases=4, rates=rates)) for seed in range(30)]
    in_sample = np.mean([r.best.accuracy for r in results])
    held_out = np.mean([r.best.held_out_accuracy for r in results])
    assert in_sample > 0.38
    assert abs(held_out - 0.3) < 0.02


def test_intervals_cover_the_true_accuracy_of_a_fixed_head():
    rates = np.full(N_MAPS + len(OFFSETS), 0.3)
    rates[0] = 0.6
    covered = [
        r.best.ci95[0] <= 0.6 <= r.best.ci95[1]
        for r in (scored(*random_hits(seed, rates=rates)) for seed in range(100))
    ]
    assert 0.85 <= np.mean(covered) <= 1.0


def test_few_units_give_no_interval_and_no_held_out_figure_but_a_reason():
    result = scored(*random_hits(4, n_units=9), few_units=True)
    assert result.best.ci95 is result.best.held_out_accuracy is result.gain is result.low is None
    reason = f"fewer than {MIN_UNITS} units bear it"
    assert result.nulls == dict.fromkeys(
        (
            "best.ci95", "best.held_out_accuracy", "best.held_out_ci95", "gain", "gain_ci95",
            "offset_baseline.held_out_accuracy",
        ),
        reason,
    )  # fmt: skip


def test_few_cases_in_a_half_give_an_interval_but_no_held_out_figure():
    per_unit, _ = random_hits(5, n_units=12, n_cases=1)
    result = scored(per_unit, np.ones(12))
    assert result.best.ci95 is not None
    assert result.best.held_out_accuracy is None
    assert result.nulls["gain"] == "under 5 cases in a half"
    assert "best.ci95" not in result.nulls


def test_totals_add_relations_and_leave_out_punctuation():
    sums = {
        "nsubj": columns(*random_hits(6)),
        "punct": columns(*random_hits(7)),
        "punct:x": columns(*random_hits(8)),
    }
    units = dict.fromkeys(sums, frozenset(range(MIN_UNITS)))
    relations, overall = totals_of(sums, units, (N_LAYERS, N_HEADS))
    assert list(relations) == ["nsubj", "punct", "punct:x"]
    assert overall["all_arcs"].count == sum(r.count for r in relations.values())
    assert overall["no_punct"].count == relations["nsubj"].count
    np.testing.assert_allclose(
        overall["no_punct"].accuracy["dependent_to_head"],
        relations["nsubj"].accuracy["dependent_to_head"],
    )


def test_relations_borne_by_few_units_can_make_totals_borne_by_enough():
    sums = {"a": columns(*random_hits(6)), "b": columns(*random_hits(7))}
    units = {"a": frozenset(range(6)), "b": frozenset(range(4, 10))}
    relations, overall = totals_of(sums, units, (N_LAYERS, N_HEADS))
    assert relations["a"].best.ci95 is relations["b"].best.ci95 is None
    assert overall["all_arcs"].best.ci95 is not None


def test_no_arcs_give_no_totals():
    assert totals_of({}, {}, (N_LAYERS, N_HEADS)) == ({}, {})


def test_ceilings_by_hand():
    # Of 10 arcs a unit, 5, 6 and 10 are seen by the layers one way, and 5, 4 and 10 the other way.
    visible = np.tile([5, 6, 10, 5, 4, 10], (20, 1))
    sums = columns(*hits_with(heads=[((1, 1, 2), 4)]), visible=visible)
    found = score(Tallies.of("x", sums, (N_LAYERS, N_HEADS), few_units=False))
    assert found.ceiling["dependent_to_head"].tolist() == [0.5, 0.6, 1.0]
    assert found.ceiling["head_to_dependent"].tolist() == [0.5, 0.4, 1.0]
    assert (found.best.accuracy, found.best.ceiling) == (0.4, 0.4)


def test_layers_that_are_not_seen_have_neither_accuracy_nor_ceiling():
    sums = columns(*random_hits(3))
    found = score(Tallies.of("x", sums, (N_LAYERS, N_HEADS), few_units=False), unseen=(1,))
    for values in (*found.accuracy.values(), *found.ceiling.values()):
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[[0, 2]]).all()
