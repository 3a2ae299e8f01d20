"""A checkpoint's body under a fresh head for a task, and what methods do to it before training."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any, cast

from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from headscope.datasets.tasks import Task
from headscope.errors import HeadscopeError, ModelError
from headscope.extraction.adapters import merged, with_base
from headscope.extraction.checkpoint import Checkpoint, locate, quiet, read_config, read_weights
from headscope.extraction.tokenizer import load_tokenizer, read_tokenizer
from headscope.finetune.methods.layers import draw_anew, top_layers
from headscope.finetune.methods.smart import Teacher
from headscope.finetune.methods.weights import Children, bound_spectrum, mix_out
from headscope.finetune.settings import LoRA, Methods
from headscope.finetune.trainer import Anchors


def open_checkpoint(name: str | Path, *, trust_remote_code: bool = False) -> tuple[Checkpoint, Any]:
    """Where a model lies, and its tokenizer, which pads on the right.

    Raises:
        ModelError: nothing there, or no tokenizer.
    """
    checkpoint = with_base(locate(name, trust_remote_code=trust_remote_code))
    with quiet():
        read_tokenizer(checkpoint)
        tokenizer = load_tokenizer(checkpoint)
    # Heads read the first token, which must not be padding.
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        raise checkpoint.error("its tokenizer has no padding token; expected one, to make batches")
    return checkpoint, tokenizer


def model_for(checkpoint: Checkpoint, task: Task, labels: tuple[str, ...]) -> PreTrainedModel:
    """The checkpoint's body, all weights its own, under a head drawn from torch's generator.

    A head that the checkpoint has is left out: it was made for other labels, or would not be fresh.

    Raises:
        ModelError: a family without a head for sequences, or weights that do not fit.
    """
    with quiet():
        config = read_config(checkpoint)
        body = merged(checkpoint, read_weights(checkpoint, config))
        config.num_labels = max(1, len(labels))
        if labels:
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: place for place, label in enumerate(labels)}
        config.problem_type = (
            "regression" if task.kind == "regression" else "single_label_classification"
        )
        try:
            model = AutoModelForSequenceClassification.from_config(
                config, trust_remote_code=checkpoint.trust_remote_code
            )
        except ValueError as error:
            raise checkpoint.error(f"no head for sequences: {error}") from error
    whole = cast(PreTrainedModel, model)
    missing, _ = whole.base_model.load_state_dict(body.state_dict(), strict=False)
    lost = [name for name in missing if not name.startswith("pooler.")]
    if lost:
        raise ModelError(
            f"{checkpoint.asked}: {len(lost)} weights of {type(whole).__name__} are not in the "
            f"body, {lost[0]} for one"
        )
    return whole


def prepare(model: PreTrainedModel, methods: Methods) -> Anchors:
    """Changes the model as the methods want it before training; keeps of it what they need.

    Raises:
        HeadscopeError: a method that does not fit the model.
    """
    if (settings := methods["reinit"]) is not None:
        draw_anew(model, _top(model, settings.n_layers))
    anchors = Anchors()
    prefix = f"{model.base_model_prefix}."
    if methods["l2-sp"] is not None:
        anchors.weights = {
            name: weight.detach().clone()
            for name, weight in model.named_parameters()
            if name.startswith(prefix)
        }
    if methods["repina"] is not None:
        anchors.model = copy.deepcopy(model.base_model).requires_grad_(False).eval()
    if (settings := methods["mixout"]) is not None:
        mix_out(model.base_model, settings.p)
    if (settings := methods["r4f"]) is not None:
        head = linear_layers_of_head(model)
        bound_spectrum(head[-1:] if settings.scope == "out_proj" else head, settings.rule)
    if (settings := methods["child-tuning-f"]) is not None:
        anchors.children = Children(settings.share)
    if (settings := methods["smart"]) is not None and settings.bregman > 0:
        anchors.teacher = Teacher(model)
    return anchors


def linear_layers_of_head(model: PreTrainedModel) -> list[nn.Linear]:
    """Linear layers outside the body, the one that gives the logits last."""
    inside = set(model.base_model.modules())
    return [m for m in model.modules() if isinstance(m, nn.Linear) and m not in inside]


def _top(model: PreTrainedModel, n_layers: int) -> list[nn.Module]:
    lists = [
        module for module in model.base_model.modules()
        if isinstance(module, nn.ModuleList) and len(module) == model.config.num_hidden_layers
    ]  # fmt: skip
    if not lists:
        raise HeadscopeError(
            f"reinit: models of family '{model.config.model_type}' have no list of layers"
        )
    if not 0 < n_layers <= len(lists[0]):
        raise HeadscopeError(f"reinit.n_layers: found {n_layers}; expected 1 to {len(lists[0])}")
    pooler = getattr(model.base_model, "pooler", None)
    return [*top_layers(lists[0], n_layers), *([pooler] if pooler is not None else [])]


def lora(model: PreTrainedModel, settings: LoRA) -> Any:
    """The model with low-rank updates in place of its own weights, the head trained whole."""
    try:
        import peft
    except ImportError:
        raise HeadscopeError('method lora needs peft: pip install "headscope[peft]"') from None
    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
    )
    with warnings.catch_warnings():
        # What peft calls in transformers, and says is to be renamed, is nothing to a user.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(model, config)
