"""What methods do to a router besides their terms: a selection bias that follows the loads, jitter on its input."""
from __future__ import annotations

import ctypes

import torch

from . import checks
from .layers import Layers
from .library import SelectionStep, keys, load, text
from .structure import Block


def jitter_of(layers: Layers) -> float:
    """How much the router's input is shaken in training; 0: not."""
    number = next((i for i, key in enumerate(keys()) if key.name == "jitter"), None)
    if number is None:
        return 0.0
    value = ctypes.create_string_buffer(64)
    load().mt_objective_key_value(layers.config, number, value, len(value))
    return float(text(value.value))


def move_biases(layers: Layers, numbers: torch.Tensor, blocks: list[Block]) -> None:
    """After a step, whose numbers these are: every router's selection bias moves against the loads of that step, as the method says."""
    if not layers.has_bias:
        return
    layers.read(numbers)
    for layer, block in enumerate(blocks):
        loads = layers.loads(layer)
        checks.tensor("the selection bias", block.bias, checks.FLOATS, (len(loads),), block.bias.device)
        values = (ctypes.c_float * len(loads))(*block.bias.tolist())
        step = SelectionStep(load=ctypes.addressof(loads), measured=layers.measured(layer), experts=len(loads),
                             memory=load().mt_objective_rule_memory(layers.objective, layer),
                             bias=ctypes.addressof(values))
        load().mt_selection_move(layers.config, ctypes.byref(step))
        block.bias.copy_(block.bias.new_tensor(list(values)))
