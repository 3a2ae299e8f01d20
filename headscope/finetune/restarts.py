"""Several runs that differ in seed or learning rate, the best of which on dev is kept."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from headscope.errors import HeadscopeError
from headscope.finetune.outcome import RESULTS, TrainingResult, TrainingSettings, write_result

_RUNS = "runs"

Run = Callable[[Path, TrainingSettings], TrainingResult]
"""One run into a folder, with settings of its own."""


def best_of(
    run: Run,
    out: Path,
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    rates: Sequence[float] = (),
) -> TrainingResult:
    """Trains with every seed and every learning rate; `out` becomes the run that is best on dev.

    Runs lie in `out/runs` until all are finished; those that are finished are not made again. A run
    whose metric is undefined is never the best one.

    Args:
        run: makes one.
        out: folder for the best.
        settings: of all, but for seed and rate.
        seeds: all different.
        rates: learning rates, all different; by default that of the settings.

    Raises:
        HeadscopeError: seeds or rates are named twice, or the metric is undefined in every run.
    """
    chosen = rates or (settings.rate,)
    for what, values in (("seeds", seeds), ("learning rates", chosen)):
        if not values or len(set(values)) < len(values):
            raise HeadscopeError(f"{what}: found {_listed(values)}; expected different ones")
    if out.exists() and any(path.name != _RUNS for path in out.iterdir()):
        raise HeadscopeError(f"{out}: found other files; expected a new or an empty folder")
    found = []
    for rate, seed in product(chosen, seeds):
        folder = out / _RUNS / f"rate-{rate:g}-seed-{seed}"
        finished = _read(folder)
        found.append(finished or run(folder, replace(settings, rate=rate, seed=seed)))
    defined = [result for result in found if _score(result) is not None]
    if not defined:
        raise HeadscopeError(f"{out}: the metric is undefined in every run; see {out / _RUNS}")
    best = max(defined, key=lambda result: _score(result) or 0.0)
    for path in best.folder.iterdir():
        shutil.copy2(path, out / path.name)
    whole = replace(best, folder=out, runs=tuple(_told(result) for result in found))
    write_result(whole)
    shutil.rmtree(out / _RUNS)
    return whole


def spread(runs: Sequence[Mapping[str, Any]], name: str) -> tuple[float, float, float] | None:
    """Lowest, median and highest of a metric over runs in which it is defined; None if in none."""
    values = [run["scores"][name] for run in runs if run["scores"][name] is not None]
    return (min(values), statistics.median(values), max(values)) if values else None


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


def _score(result: TrainingResult) -> float | None:
    return next(iter(result.scores.values()))


def _told(result: TrainingResult) -> dict[str, Any]:
    training = result.settings["training"]
    return {
        "seed": training["seed"],
        "rate": training["rate"],
        "scores": dict(result.scores),
        "best_step": result.best_step,
        "seconds_to_best": result.seconds_to_best,
    }


def _read(folder: Path) -> TrainingResult | None:
    """A run that is finished."""
    path = folder / RESULTS
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    for name in ("kind", "version"):
        found.pop(name)
    found["history"], found["warnings"] = tuple(found["history"]), tuple(found["warnings"])
    return TrainingResult(folder=folder, **(found | {"runs": tuple(found["runs"])}))
