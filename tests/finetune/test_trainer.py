"""The trainer: what one step of each method does to the gradients, and accumulation."""

import copy

import pytest
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from headscope.errors import HeadscopeError
from headscope.finetune.methods.smart import Teacher
from headscope.finetune.methods.weights import Children
from headscope.finetune.settings import methods_of
from headscope.finetune.trainer import Anchors, MethodTrainer

N, LENGTHS = 8, (5, 9, 3, 7, 9, 4, 8, 6)


class Items(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, place):
        generator = torch.Generator().manual_seed(place)
        ids = torch.randint(1, 61, (9,), generator=generator)
        mask = (torch.arange(9) < LENGTHS[place]).long()
        return {"input_ids": ids * mask, "attention_mask": mask, "labels": place % 3}


def model_of(dropout=0.0):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=61, hidden_size=24, num_attention_heads=4, num_hidden_layers=3,
        intermediate_size=20, max_position_embeddings=20, num_labels=3,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        initializer_range=0.2,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def trained(tmp_path, name="standard", *changes, model=None, anchors=None, batch=N, more=None):
    """One step of plain SGD on the eight items; the change of each weight, and the trainer."""
    model = model or model_of()
    start = copy.deepcopy(model.state_dict())
    options = {"optim": "sgd", "learning_rate": 0.1, "lr_scheduler_type": "constant", "seed": 3}
    arguments = TrainingArguments(
        str(tmp_path), max_steps=1, per_device_train_batch_size=batch, use_cpu=True,
        gradient_accumulation_steps=N // batch, max_grad_norm=0.0, save_strategy="no",
        disable_tqdm=True, logging_steps=1, **{**options, **(more or {})},
    )  # fmt: skip
    trainer = MethodTrainer(
        model, arguments, train_dataset=Items(), kind="classification",
        methods=methods_of(name, changes), anchors=anchors or Anchors(),
    )  # fmt: skip
    trainer.train()
    moved = {key: value - start[key] for key, value in model.state_dict().items()}
    return moved, trainer


def apart(one, other):
    return max(float((one[key] - other[key]).abs().max()) for key in one)


def test_e23_accumulated_batches_are_as_one(tmp_path):
    whole, _ = trained(tmp_path)
    parts, _ = trained(tmp_path, batch=2)
    assert apart(whole, parts) < 1e-6
    assert max(float(value.abs().max()) for value in whole.values()) > 1e-3


def test_e2_r3f_without_noise_and_dropout_is_standard(tmp_path):
    plain, _ = trained(tmp_path)
    for change in ("r3f.eps=0", "r3f.strength=0"):
        assert apart(trained(tmp_path, "r3f", change)[0], plain) < 1e-7
    noised, trainer = trained(tmp_path, "r3f", "r3f.eps=0.5")
    assert apart(noised, plain) > 1e-4
    logged = trainer.state.log_history[0]
    assert logged["regulariser"] > 0
    assert logged["loss"] == pytest.approx(logged["task_loss"] + logged["regulariser"], abs=1e-4)


def test_e2_dropout_alone_has_a_regulariser_unless_it_is_shared(tmp_path):
    found = {}
    for shared in ("false", "true"):
        changes = ("r3f.eps=0", f"r3f.share_dropout={shared}")
        _, trainer = trained(tmp_path, "r3f", *changes, model=model_of(0.1))
        found[shared] = trainer.state.log_history[0]["regulariser"]
    assert found["false"] > 0.01
    assert found["true"] == pytest.approx(0, abs=1e-6)


def test_e6_freelb_of_one_pass_is_standard(tmp_path):
    plain, _ = trained(tmp_path)
    assert apart(trained(tmp_path, "freelb", "freelb.num_passes=1")[0], plain) == 0
    still = ("freelb.num_passes=3", "freelb.step=0")
    assert apart(trained(tmp_path, "freelb", *still)[0], plain) < 1e-6
    assert apart(trained(tmp_path, "freelb")[0], plain) > 1e-5


def test_c091_passes_of_freelb_share_their_dropout(tmp_path):
    still = ("freelb.num_passes=2", "freelb.step=0")
    once, _ = trained(tmp_path, model=model_of(0.5))
    shared, _ = trained(tmp_path, "freelb", *still, model=model_of(0.5))
    assert apart(once, shared) < 1e-6
    changes = (*still, "freelb.share_dropout=false")
    assert apart(trained(tmp_path, "freelb", *changes, model=model_of(0.5))[0], once) > 1e-4


def test_freelb_accumulates(tmp_path):
    whole, _ = trained(tmp_path, "freelb")
    assert apart(trained(tmp_path, "freelb", batch=4)[0], whole) < 1e-6


def test_sam_without_a_radius_is_standard(tmp_path):
    plain, _ = trained(tmp_path)
    assert apart(trained(tmp_path, "sam", "sam.rho=0")[0], plain) < 1e-7
    assert apart(trained(tmp_path, "sam", "sam.rho=0.5")[0], plain) > 1e-4


def test_sam_adds_to_what_is_accumulated(tmp_path):
    plain, _ = trained(tmp_path)
    assert apart(trained(tmp_path, "sam", "sam.rho=0", batch=2)[0], plain) < 1e-6


def test_smart_adds_the_adversary_and_the_teacher(tmp_path):
    model = model_of()
    anchors = Anchors(teacher=Teacher(model))
    changes = ("smart.radius=0.5", "smart.step=0.5", "smart.start=0.1")
    _, trainer = trained(tmp_path, "smart", *changes, model=model, anchors=anchors)
    assert trainer.state.log_history[0]["regulariser"] > 1e-4
    teacher, student = anchors.teacher.model.state_dict(), model.state_dict()
    start = model_of().state_dict()
    for key, value in teacher.items():
        expected = 0.999 * start[key] + 0.001 * student[key]
        assert torch.allclose(value, expected, atol=1e-7), key


def test_r_drop_means_two_passes(tmp_path):
    plain, _ = trained(tmp_path)
    assert apart(trained(tmp_path, "r-drop")[0], plain) < 1e-6
    _, trainer = trained(tmp_path, "r-drop", model=model_of(0.3))
    assert trainer.state.log_history[0]["regulariser"] > 0


def test_repina_pulls_the_sentence_vector_back(tmp_path):
    model = model_of()
    frozen = copy.deepcopy(model.base_model).requires_grad_(False).eval()
    with torch.no_grad():
        frozen.embeddings.word_embeddings.weight.add_(0.1)
    _, trainer = trained(tmp_path, "repina", model=model, anchors=Anchors(model=frozen))
    assert trainer.state.log_history[0]["regulariser"] > 0


def test_e12_learning_rates_by_layer(tmp_path):
    _, trainer = trained(tmp_path, "llrd", more={"learning_rate": 2e-5})
    found = {round(group["lr"], 12) for group in trainer.optimizer.param_groups}
    assert found == {round(2e-5 * 0.95**depth, 12) for depth in (0, 1, 2, 3, 4)}
    rates = {}
    for group in trainer.optimizer.param_groups:
        rates |= {id(weight): group["lr"] for weight in group["params"]}
    model = trainer.model
    assert len(rates) == len(list(model.parameters()))
    for weight, depth in (
        (model.classifier.weight, 0),
        (model.bert.pooler.dense.weight, 0),
        (model.bert.encoder.layer[2].output.dense.weight, 1),
        (model.bert.encoder.layer[0].output.dense.weight, 3),
        (model.bert.embeddings.word_embeddings.weight, 4),
    ):
        assert rates[id(weight)] == pytest.approx(2e-5 * 0.95**depth)


def test_l2_sp_turns_decay_off_where_weights_are_held(tmp_path):
    model = model_of()
    anchors = Anchors(weights={f"bert.{k}": v.clone() for k, v in model.bert.named_parameters()})
    _, trainer = trained(
        tmp_path, "l2-sp", model=model, anchors=anchors, more={"weight_decay": 0.1}
    )
    decayed = [g for g in trainer.optimizer.param_groups if g["weight_decay"]]
    assert [len(group["params"]) for group in decayed] == [1]
    assert decayed[0]["params"][0] is model.classifier.weight


def test_children_are_masked_before_the_moments(tmp_path):
    plain, _ = trained(tmp_path)
    torch.manual_seed(0)
    moved, _ = trained(tmp_path, "child-tuning-f", anchors=Anchors(children=Children(0.3)))
    key = "bert.encoder.layer.1.output.dense.weight"
    still = moved[key] == 0
    assert 0.5 < float(still.float().mean()) < 0.9
    assert torch.allclose(moved[key][~still], plain[key][~still] / 0.3, rtol=1e-3, atol=1e-6)


def test_a_loss_that_is_not_finite_stops_the_run_and_says_where(tmp_path):
    model = model_of()
    with torch.no_grad():
        model.classifier.bias.fill_(torch.nan)
    with pytest.raises(HeadscopeError, match="update 1: found task loss nan .* checkpoint is kept"):
        trained(tmp_path, model=model)
