"""transformers' Trainer: the terms in its logs."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from .attachment import Attached


class _Log(TrainerCallback):
    def __init__(self, attached: Attached) -> None:
        self.attached = attached

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if self.attached.last is None:
            return
        metrics = self.attached.last.metrics()
        if logs is not None:
            logs.update(metrics)
        if state.log_history:
            state.log_history[-1].update(metrics)


def callback(attached: Attached) -> TrainerCallback:
    return _Log(attached)
