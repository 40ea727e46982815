"""The model's own auxiliary loss: `output_router_logits` makes transformers add router_aux_loss_coef · aux_loss.

Where the method has an L_aux, the model's own would count the same thing twice. So the method's takes its place: during a
forward the model's coefficient is zero, and `aux_loss`, which trainers multiply with a coefficient of theirs, is zero, too.
"""
from __future__ import annotations

import warnings
from typing import Any

import torch

NAME = "router_aux_loss_coef"


class OwnLoss:
    """Finds the model's own auxiliary loss at attach and in every forward."""

    def __init__(self, model: torch.nn.Module, method: str, has_aux: bool) -> None:
        self.config = model.config.get_text_config()
        self.owners: list[Any] = [module for module in model.modules() if NAME in vars(module)]
        if getattr(self.config, NAME, None) is not None:
            self.owners.append(self.config)
        self.method, self.has_aux, self.told, self.asked = method, has_aux, False, False
        self.former: list[tuple[Any, float]] = []
        if self._is_asked({}) and any(getattr(owner, NAME) for owner in self.owners):
            self._tell()

    def _is_asked(self, named: dict[str, Any]) -> bool:
        asked = named.get("output_router_logits")
        return bool(self.owners and (getattr(self.config, "output_router_logits", False) if asked is None else asked))

    def _tell(self) -> None:
        if self.told:
            return
        self.told = True
        what = f"the model's own auxiliary loss (output_router_logits, {NAME} {getattr(self.owners[-1], NAME):g})"
        if self.has_aux:
            warnings.warn(f"metier: {what} is taken over: L_aux of method {self.method} counts in its place, and the model's "
                          "`aux_loss` is zero", stacklevel=4)
        else:
            warnings.warn(f"metier: {what} stays in the loss: method {self.method} has no L_aux", stacklevel=4)

    def begin(self, named: dict[str, Any]) -> None:
        self.restore()
        self.asked = self._is_asked(named)
        if not self.asked:
            return
        self._tell()
        if self.has_aux:
            self.former = [(owner, getattr(owner, NAME)) for owner in self.owners]
            for owner in self.owners:
                setattr(owner, NAME, 0.0)

    def clear(self, output: Any) -> None:
        """Of a forward's output: what a trainer would add is zero."""
        found = output.get("aux_loss") if self.asked and self.has_aux and hasattr(output, "get") else None
        if found is not None:
            output["aux_loss"] = torch.zeros_like(found.detach())

    def restore(self) -> None:
        for owner, value in self.former:
            setattr(owner, NAME, value)
        self.former = []
