"""Divergences of answers: numbers of METHODS.md section E, and which rows count."""

import pytest
import scipy.special
import scipy.stats
import torch

from headscope.finetune.losses import answers, divergence, kl, squared_error, symmetric_kl

A = torch.tensor([[2.0, 0, -1], [0.5, 0.5, 0]])
B = torch.tensor([[1.0, 0.5, -1], [0, 1, -0.5]])


def close(expected):
    return pytest.approx(expected, abs=1e-5)


def test_e1_both_ways():
    assert kl(A, B).tolist() == close([0.171808, 0.122697])
    assert kl(B, A).tolist() == close([0.214896, 0.122183])
    assert symmetric_kl(A, B).tolist() == close([0.386704, 0.244880])
    assert divergence("classification", [A], [B]).item() == close(0.315792)
    assert divergence("classification", [A], [B], one_sided=True).item() == close(0.1472525)


def test_kl_equals_scipy():
    first, second = torch.randn(2, 7, 5, dtype=torch.float64) * 3
    p, q = scipy.special.softmax(first.numpy(), 1), scipy.special.softmax(second.numpy(), 1)
    assert kl(first, second).numpy() == pytest.approx(scipy.stats.entropy(p, q, axis=1), rel=1e-4)


def test_e3_gradients_flow_through_both_sides_unless_detached():
    first = A.clone().requires_grad_(True)
    divergence("classification", [first], [B]).backward()
    assert first.grad[0].tolist() == close([0.224841, -0.190473, -0.034367])
    first.grad = None
    (kl(first.detach(), B) + kl(B, first)).mean().backward()
    assert first.grad[0].tolist() == close([0.134849, -0.117006, -0.017843])


def test_e4_regression_takes_the_squared_error():
    one, other = torch.tensor([[1.0]]), torch.tensor([[1.5]])
    assert squared_error(one, other).tolist() == [0.25]
    assert divergence("regression", [one], [other]).item() == 0.25
    assert symmetric_kl(one, other).item() == 0


def test_half_precision_is_widened_first():
    half = divergence("classification", [A.bfloat16()], [B.bfloat16()])
    assert half.dtype == torch.float32
    exact = divergence("classification", [A.bfloat16().float()], [B.bfloat16().float()])
    assert half.item() == exact.item()


def test_c093_tokens_that_do_not_count_are_left_out_and_not_divided_by():
    logits, other = torch.randn(2, 2, 5, 4)
    labels = torch.tensor([[1, 2, -100, -100, -100], [0, 1, 2, 3, 0]])
    for kind in ("tagging", "sequence"):
        (first,) = answers(kind, {"logits": logits}, {"labels": labels})
        (second,) = answers(kind, {"logits": other}, {"labels": labels})
        assert len(first) == 7
        rows = symmetric_kl(logits, other)
        expected = rows[labels != -100].sum() / 7
        assert divergence(kind, [first], [second]).item() == pytest.approx(expected.item())


def test_no_token_at_all_is_no_divergence():
    labels = torch.full((1, 3), -100)
    found = answers("tagging", {"logits": torch.randn(1, 3, 4)}, {"labels": labels})
    assert divergence("tagging", found, found).item() == 0


def test_spans_never_lie_on_padding():
    start, end = torch.randn(2, 2, 5)
    other = torch.randn(2, 5)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    first = answers("span", {"start_logits": start, "end_logits": end}, {"attention_mask": mask})
    second = answers("span", {"start_logits": other, "end_logits": end}, {"attention_mask": mask})
    rows = [symmetric_kl(start[0, :3], other[0, :3]), symmetric_kl(start[1], other[1])]
    # The mean over starts and ends; the ends are the same.
    expected = torch.stack(rows).mean() / 2
    assert divergence("span", first, second).item() == pytest.approx(expected.item(), rel=1e-5)


def test_choices_are_classes():
    (found,) = answers("choice", {"logits": A}, {})
    assert torch.equal(found, A)
