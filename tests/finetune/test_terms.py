"""Terms of the loss, on a tiny model and on numbers found by hand."""

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
)

from headscope.finetune import terms
from headscope.finetune.losses import KINDS, symmetric_kl
from headscope.finetune.methods.dropout import RandomState
from headscope.finetune.settings import R3F, RDrop, Smart

IDS = torch.tensor([[5, 9, 12, 7, 30], [8, 11, 0, 0, 0]])
MASK = (IDS > 0).long()
SIZE = {
    "vocab_size": 61, "hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 3,
    "intermediate_size": 20, "max_position_embeddings": 20, "initializer_range": 0.2,
}  # fmt: skip


def step_of(kind="classification", dropout=0.0):
    torch.manual_seed(0)
    config = BertConfig(
        **SIZE, num_labels=3, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    model = BertForSequenceClassification(config)
    labels = torch.tensor([0, 2])
    if kind == "tagging":
        model = BertForTokenClassification(config)
        labels = torch.tensor([[0, 1, 2, 1, 0], [1, 1, -100, -100, -100]])
    if kind == "sequence":
        model = BartForConditionalGeneration(
            BartConfig(
                d_model=24, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20, vocab_size=61,
                max_position_embeddings=20, dropout=dropout, pad_token_id=0, init_std=0.2,
            )
        )  # fmt: skip
        labels = torch.tensor([[4, 9, 2], [7, -100, -100]])
    model.train()
    inputs = {"input_ids": IDS, "attention_mask": MASK, "labels": labels}
    state = RandomState.now()
    return terms.Step(model, inputs, kind, state, model(**inputs))


@pytest.mark.parametrize("kind", ["classification", "tagging", "sequence"])
def test_e2_r3f_of_no_noise_is_zero_and_of_noise_above(kind):
    assert kind in KINDS
    step = step_of(kind)
    assert terms.r3f(step, R3F(eps=0)).item() == pytest.approx(0, abs=1e-7)
    found = terms.r3f(step, R3F(eps=0.5))
    assert found.item() > 1e-4
    found.backward()
    assert step.model.get_input_embeddings().weight.grad.any()


def test_r3f_without_dropout_in_the_noised_pass():
    step = step_of(dropout=0.3)
    modes = [module.training for module in step.model.modules()]
    first = terms.r3f(step, R3F(eps=0, eval_noise_pass=True)).item()
    second = terms.r3f(step, R3F(eps=0, eval_noise_pass=True)).item()
    assert first == second > 0
    assert [module.training for module in step.model.modules()] == modes


def test_r_drop_is_the_mean_loss_and_half_the_divergence():
    step = step_of(dropout=0.3)
    torch.manual_seed(5)
    second = step.again()
    torch.manual_seed(5)
    task, apart = terms.r_drop(step, RDrop())
    assert task.item() == pytest.approx((step.output.loss + second.loss).item() / 2)
    expected = symmetric_kl(step.output.logits, second.logits).mean() / 2
    assert apart.item() == pytest.approx(expected.item())


def test_e9_r_drop_by_hand():
    first, second = torch.tensor([[2.0, 0, -1]]), torch.tensor([[1.0, 0.5, -1]])
    losses = [
        torch.nn.functional.cross_entropy(each, torch.tensor([0])) for each in (first, second)
    ]
    assert [loss.item() for loss in losses] == pytest.approx([0.169846, 0.554957], abs=1e-5)
    half = symmetric_kl(first, second).mean() / 2
    assert half.item() == pytest.approx(0.193352, abs=1e-5)
    assert (sum(losses) / 2 + half).item() == pytest.approx(0.555753, abs=1e-5)


def test_smart_is_worse_than_noise_and_leaves_gradients_alone():
    step = step_of()
    near = {"radius": 0.3, "start": 0.01, "step": 0.3}
    noise = terms.smart(step, Smart(**near, n_steps=0)).item()
    worst = terms.smart(step, Smart(**near, n_steps=3)).item()
    assert worst > 2 * noise > 0
    # C092: nothing is left in the gradients by the search.
    assert all(weight.grad is None for weight in step.model.parameters())


def test_bregman_of_the_same_weights_is_zero():
    from headscope.finetune.methods.smart import Teacher

    step = step_of()
    assert terms.bregman(step, Teacher(step.model)).item() == pytest.approx(0, abs=1e-6)


def test_repina_is_the_mean_squared_distance():
    assert terms.repina(torch.ones(2, 3), torch.zeros(2, 3)).item() == 3.0
    assert terms.no_term(torch.nn.Linear(1, 1)).item() == 0
