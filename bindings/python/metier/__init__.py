"""metier's objective for Mixture-of-Experts models, in PyTorch.

    metier.objective(logits, outputs, method="paper")    the terms of one or more MoE layers, differentiable
    metier.Objective(method="paper")                     the same from step to step: it keeps scales and brakes
    metier.attach(model, method="paper")                 in the training of a transformers model; metier.detach(model)
    metier.methods(), metier.keys()                      what there is

Everything is computed by libmetier.so, which a wheel of this package brings along. Without, it is looked for in the clone
and where the program metier is; METIER_LIBRARY says where it is instead.
docs/pytorch.md has examples.
"""
from __future__ import annotations

from typing import Any

from .library import Failure, Method, Setting, keys, methods, version

__all__ = ["Attached", "Failure", "Method", "Objective", "Result", "Setting", "Term", "attach", "detach", "keys",
           "methods", "objective", "version"]

_HOMES = {"Attached": "attachment", "attach": "attachment", "detach": "attachment",
          "Objective": "differentiable", "objective": "differentiable", "Result": "report", "Term": "report"}


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    """What needs torch is loaded when it is asked for: the library itself can be looked at without."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'metier' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"metier.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise ModuleNotFoundError(f"metier.{name} needs {error.name}, which this Python does not have: pip install "
                                  f"{error.name}", name=error.name) from None
