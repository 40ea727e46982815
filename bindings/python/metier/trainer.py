"""Trainers: the total in the loss they compute, and the terms in their logs."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

if TYPE_CHECKING:
    from .attachment import Attached


class _Log(TrainerCallback):
    def __init__(self, attached: Attached) -> None:
        self.attached = attached

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if self.attached.last is None or logs is None or "loss" not in logs:  # of an evaluation, or of the whole run
            return
        metrics = self.attached.last.metrics()
        logs.update(metrics)
        if state.log_history:
            state.log_history[-1].update(metrics)


def callback(attached: Attached) -> TrainerCallback:
    return _Log(attached)


def _share(trainer: Any, labels: torch.Tensor | None, whole: Any) -> float | torch.Tensor:
    """What the terms of a micro-batch are multiplied with, as the trainer does with its loss: their sum over a step is a mean."""
    scaled = getattr(trainer, "loss_is_scaled_for_ga", None)
    if scaled is None:
        accepts = getattr(trainer, "model_accepts_loss_kwargs", False) and whole is not None
        scaled = accepts or getattr(trainer, "compute_loss_func", None) is not None
    if not scaled:  # the trainer divides by the micro-batches itself
        return 1.0
    if whole is None or labels is None:
        return 1.0 / max(1, getattr(trainer, "current_gradient_accumulation_steps", 1) or 1)
    share = (labels[..., 1:] != -100).sum() / torch.as_tensor(whole, device=labels.device).clamp(min=1)
    if trainer.args.average_tokens_across_devices:  # `whole` counts the labels of every process
        share = share * (trainer.accelerator.num_processes // trainer.get_tp_size())
    return share


def join(attached: Attached, trainer: Any) -> None:
    """From here on the trainer's compute_loss has the total in it, once, wherever it takes its loss from."""
    compute = trainer.compute_loss
    if getattr(compute, "joined", None) is attached:
        return

    @functools.wraps(compute)
    def compute_loss(model: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        labels, whole = inputs.get("labels"), named.get("num_items_in_batch")
        attached.collected = []
        try:
            found = compute(model, inputs, *arguments, **named)
            totals = attached.collected
        finally:
            attached.collected = None
        if not totals:
            return found
        # Several forwards are parts of one batch.
        total = torch.stack(totals).mean() * _share(trainer, labels, whole)
        if isinstance(found, tuple):
            return (found[0] + total.to(found[0].device), *found[1:])
        return found + total.to(found.device)

    compute_loss.joined = attached  # type: ignore[attr-defined]
    trainer.compute_loss = compute_loss


def watch_trainers() -> None:
    """Every transformers Trainer, TRL's too, is joined when it trains a model that has an objective."""
    try:
        from transformers import Trainer
    except ImportError:  # without accelerate there are no trainers
        return
    original = Trainer.training_step
    if hasattr(original, "metier"):
        return

    @functools.wraps(original)
    def training_step(self: Any, model: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
        from .attachment import attached_to

        attached = attached_to(model)
        if attached is not None:
            join(attached, self)
        return original(self, model, *arguments, **named)

    training_step.metier = True  # type: ignore[attr-defined]
    Trainer.training_step = training_step
