"""Devices and layers of the library, on torch's tensors, where these lie.

Tensors are handed over as addresses. DLPack would add a capsule, its deleter and a struct for each of the twenty
arrays of a layer, to say what the caller knows: which device it is, which of two types, and that it is contiguous.
"""
from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_char_p, c_size_t, c_void_p
from typing import Any

import torch

from . import library
from .library import Context, LayerArrays, LayerPaths, LayersOptions, Place, Router, Shape, Step, check, load, text
from .report import Term

DTYPES = {torch.float32: library.F32, torch.bfloat16: library.BF16}


def computable(outputs: torch.Tensor) -> torch.Tensor:
    """In a type the library has kernels for: f32, and on a GPU bf16."""
    fast = outputs.dtype == torch.float32 or (outputs.is_cuda and outputs.dtype in DTYPES)
    return (outputs if fast else outputs.float()).contiguous()


class Device:
    """A device of the library for one of torch's: its CPU, or a GPU with a stream."""

    def __init__(self, name: str, gpu: int = 0, stream: int | None = None) -> None:
        self.torch_device = torch.device("cpu") if name == "cpu" else torch.device("cuda", gpu)
        self.context, handle = Context(), c_void_p()
        load().mt_context_init(byref(self.context), None)
        if name == "cpu":
            status = load().mt_device_create(byref(self.context), b"cpu", torch.get_num_threads(), byref(handle))
        else:
            place = Place(gpu=gpu, stream=stream)
            status = load().mt_device_create_on(byref(self.context), b"cuda", byref(place), byref(handle))
        check(self.context, status)
        self.handle = handle
        self.name = text(load().mt_device_description(handle))
        self.lock = threading.Lock()  # autograd has threads of its own; a device belongs to one at a time

    _open: dict[tuple[str, int, int | None], Device] = {}

    @classmethod
    def of(cls, device: torch.device) -> Device:
        """The device for tensors there, on the stream that is current; one is kept for each."""
        if device.type not in ("cpu", "cuda"):
            raise library.Failure(f"tensors on {device} are not supported: cpu and cuda are")
        key: tuple[str, int, int | None] = ("cpu", 0, None)
        if device.type == "cuda":
            index = device.index if device.index is not None else torch.cuda.current_device()
            key = ("cuda", index, torch.cuda.current_stream(index).cuda_stream or None)
        if key not in cls._open:
            cls._open[key] = cls(*key)
        return cls._open[key]


def router_of(kind: str = "softmax", top_k: int = 1, normalise: bool = False, scale: float = 1.0, epsilon: float = 0.0,
              groups: int = 0, groups_kept: int = 0, group_rule: str = "none", jitter: float = 0.0) -> Router:
    if kind not in library.ROUTERS:
        raise library.Failure(f"there is no router {kind!r}: {', '.join(library.ROUTERS)}")
    if group_rule not in library.GROUP_RULES:
        raise library.Failure(f"there is no group rule {group_rule!r}: {', '.join(library.GROUP_RULES)}")
    return Router(kind=library.ROUTERS.index(kind), slots=top_k, normalise=normalise, epsilon=epsilon, scale=scale,
                  group_rule=library.GROUP_RULES.index(group_rule), groups=groups, groups_kept=groups_kept,
                  jitter=jitter)


def _value_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class Layers:
    """An objective for some layers on one device: its memory, and what it keeps from step to step."""

    def __init__(self, device: Device, method: str, settings: dict[str, Any], shape: Shape, given: int) -> None:
        words = [word.encode() for key, value in settings.items() for word in (key, _value_text(value))]
        texts = (c_char_p * (len(words) + 1))(*words, None)
        options = LayersOptions(method=method.encode(), settings=texts, shape=shape, given=given)
        self.device, self.shape, self.given, self.handle = device, shape, given, c_void_p()
        self.torch_device = device.torch_device
        check(device.context, load().mt_layers_create(device.handle, byref(options), byref(self.handle)))
        config = self.config = load().mt_layers_config(self.handle)
        self.objective = load().mt_layers_objective(self.handle)
        self.needs = load().mt_objective_needs(config)
        self.drops, self.has_bias = load().mt_selection_drops(config), load().mt_selection_has_bias(config)
        self.terms = [(number, load().mt_term_info(number).contents) for number in range(load().mt_term_count())
                      if load().mt_term_is_on(config, number)]

    def __del__(self) -> None:
        if self.handle:
            load().mt_layers_destroy(self.handle)

    def _call(self, function: Any, *arguments: Any) -> None:
        with self.device.lock:
            check(self.device.context, function(self.handle, *arguments))

    def route(self, stream: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_route, stream, byref(arrays))

    def forward(self, layer: int, arrays: LayerArrays, look: bool = True) -> None:
        self._call(load().mt_layers_forward, layer, byref(arrays), look)

    def coupling(self, layer: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_coupling, layer, byref(arrays))

    def backward(self, layer: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_backward, layer, byref(arrays))

    def finish(self, progress: float = 1.0) -> float:
        """Decides the weights; returns the total. The one call that waits for a GPU."""
        total = ctypes.c_double()
        step = Step(progress=progress, loss_scale=1.0)
        with self.device.lock:
            check(self.device.context, load().mt_objective_finish(self.objective, byref(step), byref(total)))
        return total.value

    def state(self) -> Any:
        """What must survive: an array of doubles in the library's memory, to read and to write."""
        count = c_size_t()
        numbers = load().mt_objective_state(self.objective, byref(count))
        return ctypes.cast(numbers, ctypes.POINTER(ctypes.c_double * count.value)).contents

    def report(self, why_dead: dict[str, str]) -> tuple[dict[str, Term], list[dict[str, float]]]:
        """The terms of the last finish, and each layer's."""
        count, layers = load().mt_term_count(), []
        for layer in range(self.shape.layers):
            numbers = load().mt_objective_layer(self.objective, layer)  # loss, weight, gradient, max_violation, ...
            found = {"max_violation": numbers[3 * count], "load_entropy": numbers[3 * count + 2]}
            for number, info in self.terms:
                found[text(info.name)] = numbers[number]
                found["weight." + text(info.name)] = numbers[count + number]
            layers.append(found)
        terms = {}
        for _, info in self.terms:
            name = text(info.name)
            why = why_dead.get(library.PATHS[info.path], "")
            terms[name] = Term(name, sum(layer[name] for layer in layers),
                               sum(layer[name] * layer["weight." + name] for layer in layers),
                               sum(layer["weight." + name] for layer in layers) / len(layers), not why, why)
        return terms, layers

    def loads(self, layer: int) -> Any:
        """Slots served by each expert in the last step, an array of doubles."""
        numbers = load().mt_objective_layer(self.objective, layer)
        address = ctypes.cast(numbers, ctypes.POINTER(c_void_p))[3 * load().mt_term_count() + 3]
        return ctypes.cast(address, ctypes.POINTER(ctypes.c_double * self.shape.experts)).contents

    def measured(self, layer: int) -> int:
        """Where what the selection rules measured in the last step lies."""
        numbers = load().mt_objective_layer(self.objective, layer)
        return ctypes.cast(numbers, ctypes.POINTER(c_void_p))[3 * load().mt_term_count() + 4] or 0

    def check_live(self, paths: list[tuple[bool, bool, bool]]) -> str:
        """Why a term reaches nothing that is trained, given (router, experts, below) of every layer; "": none does."""
        rows = (LayerPaths * len(paths))(*(LayerPaths(*path) for path in paths))
        context = Context()
        load().mt_context_init(byref(context), None)
        status = load().mt_objective_check_live(byref(context), self.config, byref(self.shape.router), rows,
                                                len(paths), b"")
        return text(context.message) if status != 0 else ""


def arrays_of(tokens: int, segments: int, dtype: torch.dtype, unmasked: int = 0,
              **tensors: torch.Tensor | None) -> LayerArrays:
    """The struct the library reads. The tensors are contiguous, and outlive the calls made with it."""
    arrays = LayerArrays(tokens=tokens, segments=segments, unmasked=unmasked, dtype=DTYPES[dtype])
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(arrays, name, tensor.data_ptr())
    return arrays
