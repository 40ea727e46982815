"""Devices and layers of the library, on torch's tensors, where these lie.

Tensors are handed over as addresses. DLPack would add a capsule, its deleter and a struct for each of the twenty
arrays of a layer, to say what the caller knows: which device it is, which of two types, and that it is contiguous.
"""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import addressof, byref, c_char_p, c_size_t, c_void_p
from typing import Any

import torch

from . import checks, library
from .library import (Context, LayerArrays, LayerChain, LayerPaths, LayersOptions, Place, Router, Shape, Step, check, load,
                      text)
from .report import Found, Term

DTYPES = {torch.float32: library.F32, torch.bfloat16: library.BF16}


def computable(outputs: torch.Tensor) -> torch.Tensor:
    """In a type the library has kernels for: f32, and on a GPU bf16."""
    fast = outputs.dtype == torch.float32 or (outputs.is_cuda and outputs.dtype in DTYPES)
    outputs = (outputs if fast else outputs.float()).resolve_neg()  # an address has no sign bit
    return outputs if outputs.is_contiguous() else outputs.contiguous()


def plain(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """In f32 and contiguous."""
    if tensor is None or (tensor.dtype == torch.float32 and tensor.is_contiguous() and not tensor.is_neg()):
        return tensor
    return tensor.float().resolve_neg().contiguous()


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
            key = ("cuda", index, torch._C._cuda_getCurrentRawStream(index) or None)  # current_stream makes objects
        found = cls._open.get(key)
        if found is None:
            found = cls._open[key] = cls(*key)
        return found


def router_of(kind: str = "softmax", top_k: int = 1, normalise: bool = False, scale: float = 1.0, epsilon: float = 0.0,
              groups: int = 0, groups_kept: int = 0, group_rule: str = "none", jitter: float = 0.0) -> Router:
    return Router(kind=library.ROUTERS.index(checks.word("router", kind, library.ROUTERS)),
                  slots=checks.whole("top_k", top_k, 1), normalise=checks.flag("normalise", normalise),
                  epsilon=checks.number("epsilon", epsilon), scale=checks.number("routed_scale", scale),
                  group_rule=library.GROUP_RULES.index(checks.word("group_rule", group_rule, library.GROUP_RULES)),
                  groups=checks.whole("groups", groups), groups_kept=checks.whole("groups_kept", groups_kept),
                  jitter=checks.number("sparsemixer_jitter", jitter))


class Layers:
    """An objective for some layers on one device: its memory, and what it keeps from step to step."""

    def __init__(self, device: Device, method: str, settings: dict[str, Any], shape: Shape, given: int) -> None:
        self.handle = c_void_p()
        words = [word.encode() for key, value in settings.items()
                 for word in (checks.word("the name of a setting", key), checks.setting(key, value))]
        texts = (c_char_p * (len(words) + 1))(*words, None)
        options = LayersOptions(method=checks.word("method", method).encode(), settings=texts, shape=shape, given=given)
        self.device, self.shape, self.given = device, shape, given
        self._destroy = load().mt_layers_destroy  # at the interpreter's end the module's names are gone
        self.torch_device = device.torch_device
        check(device.context, load().mt_layers_create(device.handle, byref(options), byref(self.handle)))
        config = self.config = load().mt_layers_config(self.handle)
        self.objective = load().mt_layers_objective(self.handle)
        self.needs = load().mt_objective_needs(config)
        self.drops, self.has_bias = load().mt_selection_drops(config), load().mt_selection_has_bias(config)
        self.numbers = load().mt_layers_numbers(self.handle)
        self._terms = load().mt_term_count()
        infos = [(number, load().mt_term_info(number).contents) for number in range(self._terms)
                 if load().mt_term_is_on(config, number)]
        self.terms = [(number, text(info.name), library.PATHS[info.path]) for number, info in infos]
        # Of each layer: loss, weight and gradient of every term, max_violation, ..., in the library's memory.
        self._reports = [load().mt_objective_layer(self.objective, layer) for layer in range(shape.layers)]
        self._rows: torch.Tensor | None = None
        self.owner: Any = None  # of an attached model: a weak reference to the forward that has this memory
        self._step, self._waited, self._addresses = Step(loss_scale=1.0), ctypes.c_bool(), c_void_p * shape.layers
        # torch is quicker to make tensors like another one.
        self.floats = torch.empty(0, dtype=torch.float32, device=self.torch_device)

    def __del__(self) -> None:
        if self.handle:
            self._destroy(self.handle)

    def _call(self, function: Any, *arguments: Any) -> None:
        device = self.device
        with device.lock:
            status = function(self.handle, *arguments)
            if status != 0:
                check(device.context, status)

    def route(self, stream: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_route, stream, byref(arrays))

    def forward(self, layer: int, arrays: LayerArrays, look: bool = True) -> None:
        self._call(load().mt_layers_forward, layer, byref(arrays), look)

    def coupling(self, layer: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_coupling, layer, byref(arrays))

    def backward(self, layer: int, arrays: LayerArrays) -> None:
        self._call(load().mt_layers_backward, layer, byref(arrays))

    def rows_in_order(self, tokens: int) -> torch.Tensor:
        """int32 [N,k]: where a slot's output is, if outputs lie in the order of tokens and slots."""
        if self._rows is None or self._rows.shape[0] < tokens:
            count = tokens * self.shape.slots
            self._rows = torch.arange(count, dtype=torch.int32, device=self.torch_device).view(tokens, self.shape.slots)
        return self._rows if self._rows.shape[0] == tokens else self._rows[:tokens]

    def new_numbers(self) -> torch.Tensor:
        """Room for a step's statistics."""
        return torch.empty(self.numbers, dtype=torch.float64, device=self.torch_device)

    def finish(self, progress: float, numbers: torch.Tensor,
               why_dead: dict[str, str]) -> tuple[torch.Tensor, Callable[[], Found]]:
        """Decides the weights; (the total, what reads the terms). A GPU is waited for only where the method's weights hang on
        the step's own values."""
        return self._finish(load().mt_layers_finish, (), progress, numbers, why_dead)

    def step(self, arrays: Sequence[LayerArrays], progress: float, block: torch.Tensor, place: int,
             why_dead: dict[str, str]) -> tuple[torch.Tensor, Callable[[], Found]]:
        """forward of all layers, finish, and what their arrays have room for of coupling and backward. The statistics are in
        the block, from that byte on."""
        addresses = self._addresses(*map(addressof, arrays))
        return self._finish(load().mt_layers_step, (addresses,), progress, block, why_dead, place)

    def _finish(self, function: Any, arguments: tuple[Any, ...], progress: float, numbers: torch.Tensor,
                why_dead: dict[str, str], place: int = 0) -> tuple[torch.Tensor, Callable[[], Found]]:
        total, waited = self.floats.new_empty(()), self._waited
        self._step.progress = progress
        self._call(function, *arguments, byref(self._step), total.data_ptr(), byref(waited))
        weights = [report[self._terms : 2 * self._terms] for report in self._reports]
        values = self._values() if waited.value else None
        return total, lambda: self._found(weights, self.read(numbers, place) if values is None else values, why_dead)

    def chain(self, arrays: LayerArrays, factor: torch.Tensor, dlogits: torch.Tensor | None, doutputs: torch.Tensor | None,
              drouter_weight: torch.Tensor | None) -> None:
        """Fills these with factor times the gradients a step left in a layer's arrays."""
        chain = LayerChain(factor.data_ptr(), *(None if x is None else x.data_ptr() for x in (dlogits, doutputs, drouter_weight)))
        self._call(load().mt_layers_chain, byref(arrays), byref(chain))

    def read(self, numbers: torch.Tensor, place: int = 0) -> list[dict[str, float]]:
        """Each layer's values of a step, of which these are the statistics, from that byte on. Waits for a GPU."""
        self._call(load().mt_layers_read, numbers.data_ptr() + place)
        return self._values()

    def _values(self) -> list[dict[str, float]]:
        after = 3 * self._terms
        return [{"max_violation": report[after], "load_entropy": report[after + 2],
                 **{name: report[number] for number, name, _ in self.terms}} for report in self._reports]

    def _found(self, weights: list[list[float]], values: list[dict[str, float]],
               why_dead: dict[str, str]) -> Found:
        terms, layers = {}, values
        for number, name, path in self.terms:
            for layer, weight in zip(layers, weights):
                layer["weight." + name] = weight[number]
            why = why_dead.get(path, "")
            terms[name] = Term(name, sum(layer[name] for layer in layers) / len(layers),
                               sum(layer[name] * layer["weight." + name] for layer in layers),
                               sum(layer["weight." + name] for layer in layers) / len(layers), not why, why)
        return terms, layers

    def state(self) -> Any:
        """What must survive: an array of doubles in the library's memory, to read and to write."""
        count = c_size_t()
        numbers = load().mt_objective_state(self.objective, byref(count))
        return ctypes.cast(numbers, ctypes.POINTER(ctypes.c_double * count.value)).contents

    def loads(self, layer: int) -> Any:
        """Slots served by each expert in the step that was read last, an array of doubles."""
        address = ctypes.cast(self._reports[layer], ctypes.POINTER(c_void_p))[3 * self._terms + 3]
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


def point(arrays: LayerArrays, **tensors: torch.Tensor | None) -> None:
    """Sets the addresses of these arrays."""
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(arrays, name, tensor.data_ptr())


def arrays_of(tokens: int, segments: int, dtype: torch.dtype, unmasked: int = 0,
              **tensors: torch.Tensor | None) -> LayerArrays:
    """The struct the library reads. The tensors are contiguous, and outlive the calls made with it."""
    checks.layer_arrays(tokens, dtype, tensors)
    arrays = LayerArrays(tokens=tokens, segments=segments, unmasked=unmasked, dtype=DTYPES[dtype])
    point(arrays, **tensors)
    return arrays
