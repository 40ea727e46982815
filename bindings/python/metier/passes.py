"""One forward with gradients of an attached model: what the objective keeps of it until its backward is done.

Every forward has a pass of its own, so several forwards may come before a backward. A pass also knows what backward really
did: which layers it went through, what the total was multiplied with, and whether a gradient reached something that learns.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from .layers import Layers
from .library import Failure
from .records import Batch

if TYPE_CHECKING:
    from .attachment import Attached
    from .report import Found, Result

FROZEN = {"logits": "the router is frozen in every layer", "outputs": "the experts are frozen in every layer",
          "router_weight": "the router is frozen in every layer"}


def in_backward() -> bool:
    return bool(torch._C._current_graph_task_id() != -1)


def reaches(tensor: torch.Tensor | None, limit: torch.Tensor) -> bool:
    """Whether autograd leads from the tensor to a parameter without going through `limit`, which it was computed from."""
    if tensor is None or tensor is limit or not tensor.requires_grad:
        return False
    if tensor.grad_fn is None:
        return True
    stop, seen, found = limit.grad_fn, set(), [tensor.grad_fn]
    while found:
        node = found.pop()
        if node is None or node is stop or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf is not limit:
            return True
        found.extend(following for following, _ in node.next_functions)
    return False


class Pass:
    """A forward: its batch, its statistics, the library's memory for it, and what its backward did."""

    def __init__(self, attached: Attached, layers: Layers, batch: Batch, step: int) -> None:
        self.attached, self.layers, self.batch, self.step = attached, layers, batch, step
        self.numbers = layers.new_numbers()
        self.looks = True  # the forward itself, not a layer that is computed again in backward
        self.logits: dict[int, tuple[torch.Tensor, torch.Tensor | None, bool]] = {}
        self.tokens: dict[int, torch.Tensor] = {}  # what leads autograd from the total to each layer
        self.factor: torch.Tensor | None = None  # the gradient of the total
        self.slots: set[str] = set()  # where the total was found in what is differentiated
        self.reach: dict[int, dict[str, bool]] = {}  # of each layer: path, or "below", to whether something learns there
        self.touched: set[int] = set()  # layers whose terms had a gradient
        self.entered = self.done = False
        self.task = -1  # of autograd: which backward it is
        self.result: weakref.ref[Result] | None = None
        layers.owner = weakref.ref(self)

    # ------------------------------------------------------------ forward

    def stream(self, layer: int) -> int:
        """For what the method draws: another one for every layer and step, the same where a layer is computed again."""
        return self.step * len(self.attached.blocks) + layer

    def take_logits(self, layer: int) -> tuple[torch.Tensor, torch.Tensor | None, bool]:
        found, name = self.logits.pop(layer, None), self.attached.blocks[layer].name
        if found is None:
            raise Failure(f"metier: the router of {name} was not called before its experts")
        logits = found[0]
        if logits.shape[0] != self.batch.tokens:
            raise Failure(f"metier: {name} computes {logits.shape[0]} tokens, the model's input has {self.batch.tokens}; if PEFT "
                          "adds virtual tokens, attach to the model inside")
        if logits.device != self.layers.torch_device:
            raise Failure(f"metier: {name} is on {logits.device}, the model's input on {self.layers.torch_device}: a model that is "
                          "split over devices is not supported")
        return found

    def finish(self) -> None:
        """The forward is over."""
        missing = [block.name for layer, block in enumerate(self.attached.blocks) if layer not in self.tokens]
        if missing:
            raise Failure(f"metier: the experts of {missing[0]} were not computed by the attached model's implementation: was "
                          "experts_implementation set after metier.attach?")
        self.looks = False

    # ------------------------------------------------------------ backward

    def enter(self, _: torch.Tensor) -> None:
        """Backward has come to this forward's outputs: layers computed again from here on belong to it."""
        self.attached.current = self
        task = torch._C._current_graph_task_id()
        if self.task == task:
            return
        self.task, self.entered, self.factor = task, True, None
        self.slots.clear()
        self.touched.clear()
        torch.autograd.Variable._execution_engine.queue_callback(self._leave)

    def _leave(self) -> None:
        first, self.done, self.attached.current = not self.done, True, None
        self.attached.after_backward(self, first)

    def note_factor(self, slot: str, gradient: torch.Tensor) -> None:
        self.slots.add(slot)
        if len(self.slots) > 1:
            raise Failure("metier: the terms' total is in the loss twice: the model's own loss has it already, so do not add "
                          "`attached.total` to it")
        self.factor = gradient.detach().float()

    def memory(self) -> Layers:
        """The library's memory of this pass, for its backward."""
        owner = self.layers.owner() if self.layers.owner is not None else None
        if owner is not self:
            raise Failure("metier: a second backward of a forward that others have followed: call it before the next forward")
        return self.layers

    def why_dead(self, path: str, look: bool = True) -> str:
        """Why a term on this path had no effect in the last backward; "": it had. look: waits for a GPU."""
        if not self.entered:
            return "no backward has run through this forward yet"
        if self.factor is None:
            return "its total is not in what was differentiated"
        if look and float(self.factor.abs().sum()) == 0.0:
            return "the gradient of the total is zero"
        indirect = self.attached.indirect and path != "router_weight"
        alive = any(self.reach.get(layer, {}).get(path) or (indirect and self.reach.get(layer, {}).get("below"))
                    for layer in self.touched)
        return "" if alive else FROZEN[path]

    # ------------------------------------------------------------ reading

    def read(self, read: Any) -> Found:
        """The layers' values, from this pass's statistics; the memory may be another pass's by now."""
        found = read()
        owner = self.layers.owner() if self.layers.owner is not None else None
        if owner is not None and owner is not self and not owner.looks:
            self.layers.read(owner.numbers)
        return found


def take_memory(pool: list[Layers], device: Any, tokens: int, segments: int) -> Layers | None:
    """Memory that no pass needs any more, and that has room."""
    for layers in list(pool):
        owner = layers.owner() if layers.owner is not None else None
        if owner is not None and not owner.done:
            continue
        if layers.device is not device or layers.shape.tokens < tokens or layers.shape.segments < segments:
            pool.remove(layers)
            continue
        result = owner.result() if owner is not None and owner.result is not None else None
        if result is not None and owner.batch.segments != segments:
            _ = result.layers  # its values are found with the segments of the forward that is last in this memory
        return layers
    return None
