"""Names of methods, their settings, and what does not go together."""

import pytest

from headscope.errors import HeadscopeError
from headscope.finetune.settings import APART, METHODS, PASSES, R3F, R4F, methods_of


def test_standard_adds_nothing():
    standard = methods_of("standard")
    assert (standard.name, standard.as_dict(), standard["r3f"]) == ("standard", {}, None)


def test_methods_are_joined_and_set():
    found = methods_of("r3f+llrd", ["r3f.eps=1e-4", "r3f.detach=false", "r3f.noise=normal"])
    assert found.name == "r3f+llrd"
    assert found["r3f"] == R3F(eps=1e-4, detach=False, noise="normal")
    assert found.as_dict()["llrd"] == {"decay": 0.95}
    assert methods_of("r4f", ["r4f.rule=cap"]).r3f == R4F(rule="cap")
    assert methods_of("freelb", ["freelb.num_passes=5"])["freelb"].num_passes == 5


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("r3", (), "unknown method 'r3'; did you mean 'r3f'"),
        ("r3f+r3f", (), "found r3f twice"),
        ("r3f+smart", (), "r3f and smart each decide what a step computes; choose one"),
        ("lora+mixout", (), "lora and mixout do not go together"),
        ("r3f", ("eps=1",), "found 'eps=1'; expected METHOD.SETTING=VALUE"),
        ("r3f", ("smart.step=1",), "unknown method in --set 'smart'; known: r3f|Known: r3f"),
        ("r3f", ("r3f.epss=1",), "unknown setting of r3f 'epss'; did you mean 'eps'"),
        ("r3f", ("r3f.eps=x",), "--set r3f.eps: found 'x'; expected a number"),
        ("r3f", ("r3f.noise=x",), "expected one of uniform, normal"),
        ("r3f", ("r3f.detach=1",), "expected true or false"),
        ("freelb", ("freelb.num_passes=1.5",), "expected a whole number"),
    ],
)
def test_what_makes_no_sense_is_one_line(name, changes, said):
    with pytest.raises(HeadscopeError, match=said) as caught:
        methods_of(name, changes)
    assert "\n" not in str(caught.value)


def test_lists_of_names_name_methods():
    assert set(PASSES) <= set(METHODS)
    assert {name for pair in APART for name in pair} <= set(METHODS)
