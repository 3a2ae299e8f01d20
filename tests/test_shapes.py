import importlib
import sys

import pytest
import torch
from jaxtyping import TypeCheckError, install_import_hook

from headscope import shapes

GOOD = {
    "Ids": torch.zeros(2, 7, dtype=torch.int64),
    "PerHead": torch.zeros(2, 3),
    "PerKey": torch.zeros(2, 3, 7),
    "PerRow": torch.zeros(2, 3, 5, dtype=torch.float64),
    "Probs": torch.zeros(2, 3, 5, 7),
    "Tensor": torch.zeros(()),
    "Where": torch.zeros(2, 7, dtype=torch.bool),
    "WordMaps": torch.zeros(2, 3, 4, 4),
}


def test_every_alias_is_tried_here():
    assert sorted(GOOD) == sorted(shapes.__all__)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_alias_takes_its_shape_and_type_only(name):
    alias, good = getattr(shapes, name), GOOD[name]
    assert isinstance(good, alias)
    assert not isinstance(good.numpy(), alias)
    if name != "Tensor":
        assert not isinstance(good[0], alias)
        assert not isinstance(good.to(torch.complex64), alias)


def test_word_maps_are_square():
    assert not isinstance(torch.zeros(2, 3, 4, 5), shapes.WordMaps)


MODULE = """
from __future__ import annotations
from headscope.shapes import PerRow, Probs, Where

def mass(probs: Probs, where: Where, transpose: bool = False) -> PerRow:
    kept = probs * where[:, None, None, :]
    return kept.sum(2 if transpose else 3)
"""


def test_import_hook_compares_axes_within_one_call(tmp_path, monkeypatch):
    (tmp_path / "headscope_shapes_hooked.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with install_import_hook("headscope_shapes_hooked", "beartype.beartype"):
        module = importlib.import_module("headscope_shapes_hooked")
    monkeypatch.delitem(sys.modules, "headscope_shapes_hooked")
    probs, where = torch.zeros(2, 3, 5, 7), torch.ones(2, 7, dtype=torch.bool)
    assert module.mass(probs, where).shape == (2, 3, 5)
    with pytest.raises(TypeCheckError, match="return value"):
        module.mass(probs, where, transpose=True)
    with pytest.raises(TypeCheckError, match="where"):
        module.mass(probs, where[:, :1])
    with pytest.raises(TypeCheckError, match="probs"):
        module.mass(probs[0], where)
