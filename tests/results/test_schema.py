import copy
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from headscope.errors import HeadscopeError
from headscope.results import DependencyResult, Result, SurfaceResult, schema

KINDS = {"surface": SurfaceResult, "dependency": DependencyResult}


def test_every_kind_has_a_schema_and_every_schema_a_kind():
    shipped = {entry.name for entry in (files("headscope") / "schemas").iterdir()}
    # The manifest of a record is no result.
    assert shipped == {f"{kind}.json" for kind in KINDS} | {"record.json"}
    # Tests may define results of their own.
    ours = [cls for cls in Result.__subclasses__() if cls.__module__.startswith("headscope.")]
    assert {cls.kind: cls for cls in ours} == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_schema_is_valid_itself_and_names_its_kind(kind):
    loaded = schema(kind)
    Draft202012Validator.check_schema(loaded)
    assert loaded["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert loaded["title"] == loaded["properties"]["kind"]["const"] == kind
    assert loaded["properties"]["version"]["const"] == KINDS[kind].version


def test_what_kinds_share_is_written_the_same_way_in_each():
    surface, dependency = (schema(kind)["$defs"] for kind in ("surface", "dependency"))
    shared = {"count", "model", "data", "versions"}
    assert {name: surface[name] for name in shared} == {name: dependency[name] for name in shared}


def test_unknown_kind_is_told_with_the_nearest():
    with pytest.raises(
        HeadscopeError, match="unknown kind of result 'surfaces'; did you mean 'surface'"
    ):
        schema("surfaces")


def every_object(node, path="#"):
    """All parts of a schema that describe objects of fixed shape."""
    if isinstance(node, dict):
        if "properties" in node:
            yield path, node
        for key, item in node.items():
            yield from every_object(item, f"{path}/{key}")
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from every_object(item, f"{path}/{index}")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_fixed_shapes_are_closed_and_complete(kind):
    for path, node in every_object({k: v for k, v in schema(kind).items() if k != "properties"}):
        assert node["additionalProperties"] is False, path
        assert sorted(node.get("required", [])) == sorted(node["properties"]), path


BREAKS = {
    "entry added": lambda d: d.update(extra=1),
    "entry missing": lambda d: d.pop("seed"),
    "other kind": lambda d: d.update(kind="other"),
    "entry added to the model": lambda d: d["model"].update(extra=1),
    "hash too short": lambda d: d["data"].update(sha256="abc"),
    "negative count": lambda d: d["data"].update(n_words=-1),
    "null without words": lambda d: d["nulls"].update({"/values/x": ""}),
    "pointer without slash": lambda d: d["nulls"].update({"values": "reason"}),
    "control of a control": lambda d: d["control"].update(control=None),
    "version missing": lambda d: d["versions"].pop("torch"),
}
SURFACE_BREAKS = {
    "text in a matrix": lambda d: d["values"]["previous"][0].__setitem__(0, "0.1"),
    "flat matrix": lambda d: d["values"].update(previous=[0.1, 0.2]),
    "unknown unit": lambda d: d["units"].update(previous="bits"),
    "measure with a capital": lambda d: d["values"].update(Previous=None),
    "interval without high": lambda d: d["ci95"]["previous"].pop("high"),
}
DEPENDENCY_BREAKS = {
    "accuracy above one": lambda d: d["values"]["relations"]["nsubj"]["best"].update(accuracy=1.1),
    "offset zero": lambda d: d["values"]["overall"]["all_arcs"]["offset_baseline"].update(offset=0),
    "interval of three": lambda d: d["values"]["relations"]["nsubj"].update(gain_ci95=[0, 1, 2]),
    "interval of one": lambda d: d["values"]["relations"]["nsubj"].update(gain_ci95=[0]),
    "unknown direction": lambda d: d["values"]["uas"].update(sideways={}),
    "interval by another name": lambda d: d["ci95"].update({"nsubj": {"low": [], "high": []}}),
}


@pytest.mark.parametrize("name", sorted(BREAKS | SURFACE_BREAKS))
def test_surface_schema_refuses(name, surface_result):
    document = surface_result(control=surface_result()).to_dict()
    refused("surface", document, (BREAKS | SURFACE_BREAKS)[name])


@pytest.mark.parametrize("name", sorted(BREAKS | DEPENDENCY_BREAKS))
def test_dependency_schema_refuses(name, dependency_result):
    document = dependency_result(control=dependency_result()).to_dict()
    refused("dependency", document, (BREAKS | DEPENDENCY_BREAKS)[name])


def refused(kind, document, break_it):
    validator = Draft202012Validator(schema(kind))
    assert validator.is_valid(document)
    broken = copy.deepcopy(document)
    break_it(broken)
    assert not validator.is_valid(broken)
