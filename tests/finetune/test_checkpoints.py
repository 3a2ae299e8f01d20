"""Which checkpoint a run goes on from. A whole run that is killed: test_run.py."""

from types import SimpleNamespace

import torch
from torch import nn

from headscope.finetune.checkpoints import MarkWhole, last_whole, restore
from headscope.finetune.methods.smart import Teacher
from headscope.finetune.trainer import Anchors


def test_the_newest_whole_one_and_those_cut_off_go(tmp_path):
    assert last_whole(tmp_path) is None
    for step in (9, 10, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
    state = SimpleNamespace(is_world_process_zero=True, global_step=10)
    MarkWhole(Anchors()).on_save(SimpleNamespace(output_dir=tmp_path), state, None)
    assert last_whole(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-100").exists()


def test_the_teacher_comes_back(tmp_path):
    anchors = Anchors(teacher=Teacher(nn.Linear(2, 3)))
    kept = anchors.teacher.model.weight.clone()
    (tmp_path / "checkpoint-1").mkdir()
    state = SimpleNamespace(is_world_process_zero=True, global_step=1)
    MarkWhole(anchors).on_save(SimpleNamespace(output_dir=tmp_path), state, None)
    with torch.no_grad():
        anchors.teacher.model.weight.zero_()
    restore(anchors, tmp_path / "checkpoint-1")
    assert torch.equal(anchors.teacher.model.weight, kept)


def test_only_one_process_writes(tmp_path):
    state = SimpleNamespace(is_world_process_zero=False, global_step=1)
    MarkWhole(Anchors()).on_save(SimpleNamespace(output_dir=tmp_path), state, None)
    assert list(tmp_path.iterdir()) == []
