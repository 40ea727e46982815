"""What a step's terms were."""
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Term:
    """One term of the objective, over all layers."""

    name: str  # "o"
    loss: float  # the mean over layers of its value, without weights: `term_T` of `metier train`
    weighted: float  # the sum over layers of weight · loss, its part of the total: `weighted_T`
    weight: float  # the mean over layers of what it is multiplied with: coefficient, scale and brake
    alive: bool  # its gradient reaches something that learns; of an attached model: reached, in the last backward
    why: str = ""  # it is not


Found = tuple[dict[str, Term], list[dict[str, float]]]  # terms, layers


@dataclass(frozen=True)
class Result:
    """A step: `total` is what to add to the task's loss, and to differentiate. What the terms were is found out when it
    is asked for."""

    total: Any  # a scalar torch.Tensor
    read: Callable[[], Found] = field(repr=False)  # may wait for a GPU
    why_dead: Callable[[Term], str] | None = field(default=None, repr=False)  # what backward did, where that is known

    @functools.cached_property
    def _found(self) -> Found:
        return self.read()

    @property
    def terms(self) -> dict[str, Term]:
        terms = self._found[0]
        if self.why_dead is None:
            return terms
        whys = {name: self.why_dead(term) for name, term in terms.items()}
        return {name: replace(term, alive=not whys[name], why=whys[name]) for name, term in terms.items()}

    @property
    def layers(self) -> list[dict[str, float]]:
        """Of every layer: "o", "weight.o", "max_violation", "load_entropy"."""
        return self._found[1]

    @property
    def dead(self) -> dict[str, str]:
        """The terms whose gradient reaches nothing, and why."""
        return {name: term.why for name, term in self.terms.items() if not term.alive}

    def metrics(self, prefix: str = "metier/") -> dict[str, float]:
        """For a log: each term, its weighted part, whether it is alive; MaxVio and the loads' entropy. Means over layers,
        as in metrics.jsonl of `metier train`."""
        found: dict[str, float] = {}
        for name, term in self.terms.items():
            found[f"{prefix}{name}"] = term.loss
            found[f"{prefix}{name}_weighted"] = term.weighted
            found[f"{prefix}{name}_alive"] = float(term.alive)
        for name in ("max_violation", "load_entropy") if self.layers else ():
            found[f"{prefix}{name}"] = sum(layer[name] for layer in self.layers) / len(self.layers)
        return found
