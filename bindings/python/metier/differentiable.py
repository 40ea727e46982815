"""The objective as a function of router logits and expert outputs that autograd differentiates."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import library
from .layers import Device, Layers, arrays_of, computable, router_of
from .library import Failure, Shape
from .records import Batch, gradient_room, routing_room
from .report import Result

Tensors = torch.Tensor | Sequence[torch.Tensor] | None


def _as_list(value: Tensors, layers: int) -> list[torch.Tensor | None]:
    if value is None:
        return [None] * layers
    found = [value] if isinstance(value, torch.Tensor) else list(value)
    if len(found) != layers:
        raise Failure(f"{layers} layers of logits, but {len(found)} of something else")
    return found


class _Terms(torch.autograd.Function):
    """total = Σ weight · term, of all layers; inputs are logits, outputs and router weights, layer by layer.

    All gradients but the outputs' are found in forward: they are small, and a GPU makes them while Python is on its way
    to backward. What is left for backward is one pass over the outputs.
    """

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: torch.Tensor | None) -> torch.Tensor:
        total = call.forward(inputs)
        ctx.layers, ctx.batch, ctx.kept = call.layers, call.batch, call.kept
        ctx.save_for_backward(*inputs)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        found: list[torch.Tensor | None] = [None]
        for layer, kept in enumerate(ctx.kept):
            logits, outputs, weight = ctx.saved_tensors[3 * layer : 3 * layer + 3]
            wanted = ctx.needs_input_grad[3 * layer + 1 : 3 * layer + 4]
            dweight = kept.get("drouter_weight")
            found += [(kept["dlogits"] * gradient).to(logits.dtype) if wanted[0] else None,
                      _rows_gradient(ctx, layer, outputs, kept, gradient) if wanted[1] else None,
                      (dweight * gradient).to(weight.dtype) if dweight is not None and wanted[2] else None]
        return tuple(found)


def _rows_gradient(ctx: Any, layer: int, outputs: torch.Tensor, kept: dict[str, torch.Tensor],
                   gradient: torch.Tensor) -> torch.Tensor | None:
    """C·X of every token, C the coupling, or what terms of another grouping said."""
    layers, tokens = ctx.layers, ctx.batch.tokens
    if "doutputs_terms" in kept:
        return kept["doutputs_terms"] * gradient.to(outputs.dtype)
    if "coupling" not in kept:
        return None
    # A slot that was dropped has no row, and its row no gradient.
    rows = torch.zeros_like(outputs) if layers.drops else torch.empty_like(outputs)
    tensors = {"outputs": outputs, "row_of_slot": kept["row_of_slot"], "weight": kept["weight"],
               "coupling": kept["coupling"] * gradient, "doutputs": rows}
    layers.backward(layer, arrays_of(tokens, 1, outputs.dtype, **tensors))
    return rows


class _Call:
    """One evaluation: the arrays of its layers, and what backward needs of them."""

    KEPT = ("row_of_slot", "weight", "coupling", "dlogits", "doutputs_terms", "drouter_weight")

    def __init__(self, layers: Layers, batch: Batch, chosen: list[torch.Tensor | None], bias: torch.Tensor | None,
                 progress: float, wants: bool) -> None:
        self.layers, self.batch, self.chosen, self.bias, self.progress = layers, batch, chosen, bias, progress
        self.wants = wants  # gradients
        self.kept: list[dict[str, torch.Tensor]] = []

    def _arrays(self, tensors: dict[str, torch.Tensor | None]) -> Any:
        outputs = tensors["outputs"]
        dtype = torch.float32 if outputs is None else outputs.dtype
        return arrays_of(self.batch.tokens, self.batch.segments, dtype, self.batch.unmasked, **tensors)

    def _look(self, layer: int, inputs: Sequence[torch.Tensor | None], row: torch.Tensor) -> dict[str, torch.Tensor | None]:
        """Routes, and takes the layer's statistics; returns its tensors."""
        layers, tokens, slots = self.layers, self.batch.tokens, self.layers.shape.slots
        logits, outputs, weight = inputs[3 * layer : 3 * layer + 3]
        tensors: dict[str, torch.Tensor | None] = {
            "logits": logits.float().contiguous(), "outputs": outputs, "bias": self.bias,
            "router_weight": None if weight is None else weight.float().contiguous(), **self.batch.tensors(),
            **routing_room(layers, tokens, logits.device, self.chosen[layer], self.bias is not None),
            "weight": torch.empty(tokens, slots, dtype=torch.float32, device=logits.device)}
        layers.route(layer, self._arrays(tensors))
        tensors["row_of_slot"] = torch.where(tensors["expert"] < 0, -1, row) if layers.drops else row
        if outputs is not None and layers.needs & library.NEEDS_GRAM:
            tensors["gram"] = torch.empty(tokens, slots, slots, dtype=torch.float32, device=logits.device)
        layers.forward(layer, self._arrays(tensors))
        return tensors

    def forward(self, inputs: Sequence[torch.Tensor | None]) -> torch.Tensor:
        layers, tokens, slots = self.layers, self.batch.tokens, self.layers.shape.slots
        device = inputs[0].device
        row = torch.arange(tokens * slots, dtype=torch.int32, device=device).view(tokens, slots)
        seen = [self._look(layer, inputs, row) for layer in range(layers.shape.layers)]
        total = layers.finish(self.progress)
        for layer, tensors in enumerate(seen if self.wants else []):
            tensors.update(gradient_room(layers, tokens, tensors["outputs"], tensors["router_weight"] is not None))
            arrays = self._arrays(tensors)
            if "coupling" in tensors:
                layers.coupling(layer, arrays)
            layers.backward(layer, arrays)
            self.kept.append({name: tensors[name] for name in self.KEPT if tensors.get(name) is not None})
        return torch.full((), total, dtype=torch.float32, device=device)


class Objective:
    """The terms of a method, from step to step: scales are decided in the first, brakes follow all of them.

    method and settings are the library's (metier.methods(), metier.keys()); the router is the model's: `top_k` experts
    a token (None: as many as the outputs have), by softmax or sigmoid of the logits, weights normalised or not.
    """

    def __init__(self, method: str = "paper", top_k: int | None = None, router: str = "softmax",
                 normalise: bool = False, routed_scale: float = 1.0, epsilon: float = 0.0, groups: int = 0,
                 groups_kept: int = 0, group_rule: str = "none", sparsemixer_jitter: float = 0.0,
                 **settings: Any) -> None:
        self.method, self.top_k, self.settings = method, top_k, settings
        self.router: dict[str, Any] = {
            "kind": router, "normalise": normalise, "scale": routed_scale, "epsilon": epsilon, "groups": groups,
            "groups_kept": groups_kept, "group_rule": group_rule, "jitter": sparsemixer_jitter}
        self.layers: Layers | None = None

    def _prepare(self, device: Device, layers: int, tokens: int, experts: int, slots: int, segments: int, width: int,
                 given: int) -> Layers:
        """Memory for these sizes; what was decided before is taken along."""
        old = self.layers
        if old is not None:
            s = old.shape
            same = (s.layers, s.experts, s.slots, s.width) == (layers, experts, slots, width)
            if same and old.device is device and s.tokens >= tokens and s.segments >= segments and old.given == given:
                return old
            if (s.layers, s.experts, s.slots) != (layers, experts, slots):
                raise Failure(f"this objective is of {s.layers} layers with {s.slots} of {s.experts} experts")
        shape = Shape(layers=layers, tokens=tokens, experts=experts, slots=slots, segments=segments, width=width,
                      router=router_of(top_k=slots, **self.router))
        made = Layers(device, self.method, self.settings, shape, given)
        if old is not None:
            made.state()[:] = old.state()[:]
        self.layers = made
        return made

    def __call__(self, logits: Tensors = None, outputs: Tensors = None, *, router_scores: Tensors = None,
                 mask: torch.Tensor | None = None, sequence: torch.Tensor | None = None, chosen: Tensors = None,
                 router_weight: Tensors = None, bias: torch.Tensor | None = None, progress: float = 1.0) -> Result:
        """Evaluates the terms of one layer, or of a list of layers.

        logits [N,n], or `router_scores`, their softmax or sigmoid; outputs [N,k,d]: what a token's k experts say, unweighted,
        in the order of `chosen` [N,k], or, without it, of falling scores. mask [N]: 0 marks padding. sequence [N]: which
        text a token is of. router_weight [n,d]: for terms on the router's rows. bias [n]: selects, never weighs.
        progress: the learning rate over its peak, for brake=decay.
        """
        if router_scores is not None:
            invert = torch.logit if self.router["kind"] == "sigmoid" else torch.log
            given = [router_scores] if isinstance(router_scores, torch.Tensor) else router_scores
            logits = [invert(scores.float()) for scores in given]
        if logits is None:
            raise Failure("objective: logits or router_scores are needed")
        all_logits = [logits] if isinstance(logits, torch.Tensor) else list(logits)
        count, (tokens, experts), device = len(all_logits), all_logits[0].shape, all_logits[0].device
        all_outputs, weights = _as_list(outputs, count), _as_list(router_weight, count)
        choices = _as_list(chosen, count)
        slots = self.top_k or next((x.shape[-2] for x in (*all_outputs, *choices) if x is not None and x.dim() == 3), 0)
        if not slots:
            raise Failure("objective: top_k is needed where no outputs say how many experts a token has")
        wide = next((x for x in (*all_outputs, *weights) if x is not None), None)
        segment, segments = None, 1
        if sequence is not None:
            names, segment = torch.unique(sequence, return_inverse=True)
            segment, segments = segment.int(), max(len(names), 1)
        layers = self._prepare(Device.of(device), count, max(tokens, 1), experts, slots, segments,
                               0 if wide is None else wide.shape[-1],
                               library.GIVEN_LOGITS if chosen is None else library.GIVEN_CHOICE)
        inputs = []
        for layer_logits, layer_outputs, weight in zip(all_logits, all_outputs, weights):
            if layer_outputs is not None:
                if tuple(layer_outputs.shape[:2]) != (tokens, slots):
                    raise Failure(f"objective: outputs are {list(layer_outputs.shape)}, expected [{tokens}, {slots}, d]")
                layer_outputs = computable(layer_outputs.reshape(tokens * slots, -1))
            elif layers.needs & (library.NEEDS_GRAM | library.NEEDS_ROWS):
                raise Failure("L_o needs the expert outputs: give them, or set beta=0")
            inputs += [layer_logits, layer_outputs, weight]
        batch = Batch.of(layers, tokens, device, mask, segment, segments)
        bias = None if bias is None else bias.float().contiguous()
        wants = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
        call = _Call(layers, batch, choices, bias, progress, wants)
        total = _Terms.apply(call, *inputs)
        frozen = {path: f"{path} need no gradient" for place, path in enumerate(library.PATHS)
                  if not any(x is not None and x.requires_grad for x in inputs[place::3])}
        return Result(total, *layers.report(frozen))


def objective(logits: Tensors = None, outputs: Tensors = None, *, method: str = "paper", **options: Any) -> Result:
    """The terms of a method on one step alone: scale=once scales by these very tensors. Options are those of Objective
    and of its call."""
    of_call = ("router_scores", "mask", "sequence", "chosen", "router_weight", "bias", "progress")
    given = {name: options.pop(name) for name in of_call if name in options}
    return Objective(method, **options)(logits, outputs, **given)
