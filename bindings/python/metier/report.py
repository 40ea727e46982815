"""What a step's terms were."""
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Term:
    """One term of the objective, over all layers."""

    name: str  # "o"
    loss: float  # the sum of the layers' values, without their weights
    weighted: float  # the sum of weight · loss: its part of the total
    weight: float  # the mean over layers of what it is multiplied with: coefficient, scale and brake
    alive: bool  # its gradient reaches something that learns
    why: str = ""  # it is not


Found = tuple[dict[str, Term], list[dict[str, float]]]  # terms, layers


@dataclass(frozen=True)
class Result:
    """A step: `total` is what to add to the task's loss, and to differentiate. What the terms were is found out when it
    is asked for."""

    total: Any  # a scalar torch.Tensor
    read: Callable[[], Found] = field(repr=False)  # may wait for a GPU

    @functools.cached_property
    def _found(self) -> Found:
        return self.read()

    @property
    def terms(self) -> dict[str, Term]:
        return self._found[0]

    @property
    def layers(self) -> list[dict[str, float]]:
        """Of every layer: "o", "weight.o", "max_violation", "load_entropy"."""
        return self._found[1]

    @property
    def dead(self) -> dict[str, str]:
        """The terms whose gradient reaches nothing, and why."""
        return {name: term.why for name, term in self.terms.items() if not term.alive}

    def metrics(self, prefix: str = "metier/") -> dict[str, float]:
        """For a log: each term, its weighted part, whether it is alive, and how uneven the worst layer's load is."""
        found: dict[str, float] = {}
        for name, term in self.terms.items():
            found[f"{prefix}{name}"] = term.loss
            found[f"{prefix}{name}_weighted"] = term.weighted
            found[f"{prefix}{name}_alive"] = float(term.alive)
        if self.layers:
            found[f"{prefix}max_violation"] = max(layer["max_violation"] for layer in self.layers)
        return found
