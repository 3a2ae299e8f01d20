"""`headscope surface` as a user calls it."""

import json

import jsonschema
import pandas as pd

from headscope.extraction.measures import MEASURES
from headscope.results.schema import schema


def test_prints_every_measure_with_its_uniform_baseline(headscope, ewt):
    ran = headscope("surface", "demo", ewt, "--limit", 20)
    assert ran.code == 0
    assert "uniform" in ran.out
    for name in MEASURES:
        assert f" {name} " in ran.out


def test_writes_json_and_csv(headscope, ewt, tmp_path):
    ran = headscope("surface", "demo", ewt, "--limit", 20, "-o", "s.json", "-o", "s.csv")
    assert ran.code == 0
    assert "wrote s.json" in ran.err
    document = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("surface"))
    assert len(pd.read_csv(tmp_path / "s.csv")) == len(MEASURES) * 6 * 12


def test_control_is_a_column(headscope, ewt):
    ran = headscope("surface", "demo", ewt, "--limit", 5, "--control", "random-weights")
    assert ran.code == 0
    assert "random-weights" in ran.out


def test_seed_is_kept(headscope, ewt, tmp_path):
    headscope("surface", "demo", ewt, "--limit", 5, "--seed", 7, "-o", "s.json")
    assert json.loads((tmp_path / "s.json").read_text())["seed"] == 7
