"""One trainer for every method: the library's `Trainer`, whose steps a method may fill anew."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Trainer, TrainerCallback

from headscope.errors import HeadscopeError
from headscope.finetune import terms
from headscope.finetune.losses import Kind
from headscope.finetune.methods.dropout import RandomState
from headscope.finetune.methods.layers import depth_from_top, layer_rate
from headscope.finetune.methods.sam import climb, descend
from headscope.finetune.methods.smart import Teacher
from headscope.finetune.methods.weights import Children, l2_sp
from headscope.finetune.noise import (
    added_to_embeddings,
    ascended,
    projected,
    start_of_freelb,
    width_of,
)  # fmt: skip
from headscope.finetune.settings import FreeLB, Methods
from headscope.finetune.terms import Step


@dataclass
class Anchors:
    """What methods keep of the model as it was when training began.

    Attributes:
        weights: name -> weight of the encoder, for L2-SP.
        model: frozen and in eval mode, for REPINA.
        teacher: for SMART's Bregman term.
        children: which gradients are let through.
    """

    weights: dict[str, Tensor] = field(default_factory=dict)
    model: nn.Module | None = None
    teacher: Teacher | None = None
    children: Children | None = None


@dataclass
class _Parts:
    """Sums of the parts of the loss since they were last logged."""

    task: float = 0.0
    regulariser: float = 0.0
    n: int = 0


class MethodTrainer(Trainer):
    """Fine-tunes with the methods it is given; logs task loss and regulariser apart.

    Args:
        given: as for `Trainer`.
        kind: what the head answers.
        methods: of the run.
        anchors: what they keep of the start.
        more: as for `Trainer`.

    Attributes:
        frozen: a part that stays in eval mode in training.
        reached: update -> seconds of training until it was evaluated.
    """

    # The heads of the library take a plain mean over the batch, which the Trainer would take for
    # one over all accumulated batches (huggingface/transformers#47688).
    loss_is_scaled_for_ga = False

    def __init__(
        self, *given: Any, kind: Kind, methods: Methods, anchors: Anchors, **more: Any
    ) -> None:
        """Everything else is `Trainer`'s."""
        super().__init__(*given, **more)
        self.kind, self.methods, self.anchors = kind, methods, anchors
        self.frozen: nn.Module | None = None
        self.reached: dict[int, float] = {}
        self._delta: Tensor | None = None
        self._parts = _Parts()
        self.add_callback(_AfterStep(self))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Task loss and, in training, what the methods add; noised where FreeLB ascends."""
        if self.frozen is not None:
            self.frozen.eval()
        state = RandomState.now()
        delta = self._delta
        noised = contextlib.nullcontext() if delta is None else self._noised(delta)
        with noised:
            output = model(**inputs)
        if not model.training:
            return (output["loss"], output) if return_outputs else output["loss"]
        step = Step(self.accelerator.unwrap_model(model), inputs, self.kind, state, output)
        task, regulariser = self._terms(step)
        self._take(float(task.detach()), float(regulariser.detach()))
        loss = task + regulariser
        return (loss, output) if return_outputs else loss

    def _take(self, task: float, regulariser: float) -> None:
        """Adds to what is logged; stops where training has gone astray."""
        if not math.isfinite(task + regulariser):
            raise HeadscopeError(
                f"update {self.state.global_step + 1}: found task loss {task:g} and regulariser "
                f"{regulariser:g}; expected finite numbers; the last checkpoint is kept: a lower "
                "learning rate, or --precision float32, may help"
            )
        self._parts.task += task
        self._parts.regulariser += regulariser
        self._parts.n += 1

    def _noised(self, delta: Tensor) -> contextlib.AbstractContextManager[None]:
        return added_to_embeddings(self.accelerator.unwrap_model(self.model), delta)

    def _terms(self, step: Step) -> tuple[Tensor, Tensor]:
        """Task loss, and the sum of the regularisers with their strengths."""
        methods, task = self.methods, step.output["loss"]
        added = terms.no_term(step.model)
        if (settings := methods.r3f) is not None:
            added = added + settings.strength * terms.r3f(step, settings)
        if (settings := methods["smart"]) is not None:
            added = added + settings.strength * terms.smart(step, settings)
            if self.anchors.teacher is not None:
                added = added + settings.bregman * terms.bregman(step, self.anchors.teacher)
        if (settings := methods["r-drop"]) is not None:
            task, apart = terms.r_drop(step, settings)
            added = added + settings.alpha * apart
        if (settings := methods["l2-sp"]) is not None:
            added = added + l2_sp(step.model, self.anchors.weights, settings.alpha, settings.beta)
        if (settings := methods["repina"]) is not None and self.anchors.model is not None:
            added = added + settings.strength * self._repina(step)
        return task, added

    def _repina(self, step: Step) -> Tensor:
        given = {key: value for key, value in step.inputs.items() if key != "labels"}
        assert isinstance(step.model, PreTrainedModel)
        vectors = step.model.base_model(**given).last_hidden_state[:, 0]
        assert self.anchors.model is not None
        with torch.no_grad():
            start = self.anchors.model(**given).last_hidden_state[:, 0]
        return terms.repina(vectors, start)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Gradients of one batch: one pass, or as many as the method takes."""
        if (freelb := self.methods["freelb"]) is not None:
            return self._freelb(model, inputs, num_items_in_batch, freelb)
        if self.methods["sam"] is not None:
            return self._sam(model, inputs, num_items_in_batch, self.methods["sam"].rho)
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def _freelb(
        self, model: nn.Module, inputs: dict[str, Any], n_items: Any, settings: FreeLB
    ) -> Tensor:
        """K passes along an ascent, each with a K-th of the gradient (arXiv:1909.11764, alg. 1)."""
        inputs = self._prepare_inputs(inputs)
        mask, width = inputs["attention_mask"], width_of(self.accelerator.unwrap_model(model))
        delta = start_of_freelb(mask, width, settings.start)
        state, total = RandomState.now(), torch.zeros((), device=mask.device)
        for number in range(settings.num_passes):
            if settings.share_dropout:
                state.restore()
            last = number == settings.num_passes - 1
            self._delta = delta.detach().requires_grad_(not last)
            alone = contextlib.nullcontext() if last else self.accelerator.no_sync(model)
            try:
                with alone, self._share_of_gradient(1 / settings.num_passes):
                    total += super().training_step(model, inputs, n_items) / settings.num_passes
                gradient = self._delta.grad
            finally:
                self._delta = None
            if gradient is None:
                break
            delta = ascended(delta, gradient.float(), settings.step, settings.norm)
            if settings.max_norm > 0:
                delta = projected(delta, settings.max_norm, settings.norm)
            delta = delta.detach() * mask.unsqueeze(2)
        return total

    @contextlib.contextmanager
    def _share_of_gradient(self, share: float) -> Iterator[None]:
        """Every loss counts this share where gradients are made of it."""
        whole = self.accelerator.backward

        def backward(loss: Tensor, **more: Any) -> None:
            whole(loss * share, **more)

        self.accelerator.backward = backward
        try:
            yield
        finally:
            del self.accelerator.backward

    def _sam(self, model: nn.Module, inputs: dict[str, Any], n_items: Any, rho: float) -> Tensor:
        """The gradient of this batch at the weights moved along its own gradient.

        With accumulation or several processes each batch is moved by itself (m-sharpness).
        """
        parameters = [weight for weight in model.parameters() if weight.requires_grad]
        before = [weight.grad for weight in parameters]
        state = RandomState.now()
        _drop_gradients(parameters)
        with self.accelerator.no_sync(model):
            loss: Tensor = super().training_step(model, inputs, n_items)
        moves = climb(parameters, rho)
        _drop_gradients(parameters)
        for weight, gradient in zip(parameters, before, strict=True):
            weight.grad = gradient
        state.restore()
        try:
            super().training_step(model, inputs, n_items)
        finally:
            descend(moves)
        return loss

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """As `Trainer`'s; by layer for LLRD, without decay of held weights for L2-SP."""
        settings = self.methods["llrd"]
        held = set(self.anchors.weights) if self.methods["l2-sp"] is not None else set()
        if self.optimizer is None and (settings is not None or held):
            decay = 1.0 if settings is None else settings.decay
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, self._whole())
            self.optimizer = kind(self._groups(decay, held), **options)
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        if self.anchors.children is not None:
            children = self.anchors.children
            inside = getattr(optimizer, "optimizer", optimizer)
            inside.register_step_pre_hook(
                lambda chosen, *_: children.mask(
                    weight for group in chosen.param_groups for weight in group["params"]
                )
            )
        return optimizer

    def _groups(self, decay: float, held: set[str]) -> list[dict[str, Any]]:
        """Parameters by learning rate and weight decay."""
        model = self._whole()
        prefix, n_layers = f"{model.base_model_prefix}.", int(model.config.num_hidden_layers)
        decayed = set(self.get_decay_parameter_names(model)) - held
        groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                inside = name.startswith(prefix)
                depth = depth_from_top(name.removeprefix(prefix), n_layers, inside)
                groups.setdefault((depth, name in decayed), []).append(weight)
        return [
            {
                "params": weights,
                "lr": layer_rate(self.args.learning_rate, decay, depth),
                "weight_decay": self.args.weight_decay if decays else 0.0,
            }
            for (depth, decays), weights in sorted(groups.items(), key=lambda item: item[0])
        ]

    def _whole(self) -> PreTrainedModel:
        assert isinstance(self.model, PreTrainedModel)
        return self.model

    def log(self, logs: dict[str, float], *more: Any, **named: Any) -> None:
        """Adds the mean task loss and regulariser since the last time."""
        parts = self._parts
        if parts.n and "loss" in logs:
            logs = logs | {
                "task_loss": parts.task / parts.n,
                "regulariser": parts.regulariser / parts.n,
            }
            self._parts = _Parts()
        super().log(logs, *more, **named)


def _drop_gradients(parameters: list[nn.Parameter]) -> None:
    for weight in parameters:
        weight.grad = None


class _AfterStep(TrainerCallback):
    """The teacher follows after each update; the clock is read after each evaluation."""

    def __init__(self, trainer: MethodTrainer) -> None:
        self.trainer = trainer
        self.began = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Training begins, or goes on."""
        self.began = time.perf_counter()

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The model has been scored on dev."""
        self.trainer.reached[state.global_step] = time.perf_counter() - self.began

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """An update has been made."""
        teacher = self.trainer.anchors.teacher
        if teacher is not None:
            model = self.trainer.accelerator.unwrap_model(self.trainer.model)
            teacher.follow(model, state.global_step / max(1, state.max_steps))
