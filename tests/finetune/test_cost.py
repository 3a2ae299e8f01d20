"""Costs of steps: every method is timed beside standard fine-tuning."""

import pytest

from headscope.errors import HeadscopeError
from headscope.finetune.cost import PLAIN, step_costs
from tests.extraction.toys import bert_config, random_model, save


def test_every_method_has_a_ratio_to_standard(tmp_path):
    place = save(tmp_path, random_model(bert_config()))
    found = step_costs(place, ["r3f", "sam", "child-tuning-d"], batch=4, length=8, repeats=1)
    assert [cost.method for cost in found] == ["standard", "r3f", "sam", "child-tuning-d", PLAIN]
    assert found[0].ratio == 1
    assert all(cost.seconds > 0 for cost in found)
    with pytest.raises(HeadscopeError, match="unknown method 'r3'"):
        step_costs(place, ["r3"])
