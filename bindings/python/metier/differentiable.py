"""The objective as a function of router logits and expert outputs that autograd differentiates."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import checks, library
from .layers import DTYPES, Device, Layers, computable, plain, point, router_of
from .library import Failure, LayerArrays, Shape
from .plan import Plan, Template, key_of
from .records import Batch
from .report import Found, Result

MOST_PLANS = 64  # where shapes change from step to step
Tensors = torch.Tensor | Sequence[torch.Tensor] | None


def _logits_of(scores: Tensors, kind: str) -> list[torch.Tensor]:
    """Logits whose softmax, or sigmoid, these are."""
    given = checks.per_layer("router_scores", scores)
    for one in given:
        checks.tensor("router_scores", one, checks.FLOATS, ("N", "n"), one.device)
        checks.scores_values(one, kind != "sigmoid")
    return [(torch.logit if kind == "sigmoid" else torch.log)(one.float()) for one in given]


class _Terms(torch.autograd.Function):
    """total = Σ weight · term, of all layers; inputs are logits, outputs and router weights, layer by layer.

    All gradients but the outputs' are found in forward: they are small, and a GPU makes them while Python is on its way
    to backward. What is left for backward is one pass over the outputs.
    """

    @staticmethod
    def forward(ctx: Any, call: _Call, *inputs: torch.Tensor | None) -> torch.Tensor:
        ctx.call = call
        ctx.save_for_backward(*inputs[1::3])
        return call.forward(inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph: what comes of it would lack the terms, and nothing would say so
            raise Failure("metier: the terms have no second derivatives: backward without create_graph")
        return None, *ctx.call.backward(ctx.saved_tensors, ctx.needs_input_grad, gradient)


class _Call:
    """One evaluation: the arrays of its layers, and what backward needs of them."""

    def __init__(self, plan: Plan, template: Template, chosen: list[torch.Tensor | None], bias: torch.Tensor | None,
                 progress: float) -> None:
        self.plan, self.template, self.chosen, self.bias, self.progress = plan, template, chosen, bias, progress
        self.wants = torch.is_grad_enabled() and len(plan.frozen) < len(library.PATHS)
        self.read: Callable[[], Found] | None = None
        self.block = plan.room()
        self.kept: list[tuple[LayerArrays, Any]] = []  # of every layer; what it points to and backward reads

    def _route(self, layer: int, inputs: Sequence[torch.Tensor | None]) -> Any:
        """Readies a layer's arrays. Returns what they point to, besides what is kept."""
        plan, layers = self.plan, self.plan.layers
        logits, outputs, weight = inputs
        logits, weight, chosen = plain(logits), plain(weight), self.chosen[layer]
        arrays, rows, grouped = plan.arrays(self.template, self.block, layer, self.wants), None, None
        arrays.logits = logits.data_ptr()
        if outputs is not None:
            arrays.outputs, arrays.dtype = outputs.data_ptr(), DTYPES[outputs.dtype]
        if chosen is not None:
            chosen = chosen.int().contiguous()  # its values fit: they have been looked at
        point(arrays, router_weight=weight, bias=self.bias, chosen=chosen)
        layers.route(layer, arrays)
        if layers.drops:
            rows = plan.rows(self.block, layer)
        if plan.has_groups and self.wants:
            grouped = torch.empty_like(outputs)
        point(arrays, row_of_slot=rows, doutputs_terms=grouped)
        self.kept.append((arrays, (rows, grouped)))
        return logits, weight, chosen

    def forward(self, inputs: Sequence[torch.Tensor | None]) -> torch.Tensor:
        plan, layers = self.plan, self.plan.layers
        alive = [self._route(layer, inputs[3 * layer : 3 * layer + 3]) for layer in range(layers.shape.layers)]
        total, self.read = layers.step([arrays for arrays, _ in self.kept], self.progress, self.block, plan.numbers, plan.frozen)
        del alive  # not before the step has been issued
        return total

    def backward(self, outputs: Sequence[torch.Tensor | None], wanted: Sequence[bool],
                 gradient: torch.Tensor) -> list[torch.Tensor | None]:
        """The gradients of every layer's logits, outputs and router weight."""
        found: list[torch.Tensor | None] = []
        for layer, (arrays, _) in enumerate(self.kept):
            room = self.plan.gradient_room(outputs[layer], wanted[3 * layer + 1 : 3 * layer + 4])
            point(arrays, outputs=outputs[layer])  # autograd may have moved them
            self.plan.layers.chain(arrays, gradient, *room)
            found += room
        return found


class Objective:
    """The terms of a method, from step to step: scales are decided in the first, brakes follow all of them.

    method and settings are the library's (metier.methods(), metier.keys()); the router is the model's: `top_k` experts
    a token (None: as many as the outputs have), by softmax or sigmoid of the logits, weights normalised or not.
    """

    def __init__(self, method: str = "paper", top_k: int | None = None, router: str = "softmax",
                 normalise: bool = False, routed_scale: float = 1.0, epsilon: float = 0.0, groups: int = 0,
                 groups_kept: int = 0, group_rule: str = "none", sparsemixer_jitter: float = 0.0,
                 **settings: Any) -> None:
        self.method, self.settings = checks.word("method", method), settings
        self.top_k = None if top_k is None else checks.whole("top_k", top_k, 1)
        self.router: dict[str, Any] = {
            "kind": router, "normalise": normalise, "scale": routed_scale, "epsilon": epsilon, "groups": groups,
            "groups_kept": groups_kept, "group_rule": group_rule, "jitter": sparsemixer_jitter}
        router_of(**self.router)  # refuses what cannot be, before any tensor comes
        self.layers: Layers | None = None
        self._plans: dict[Any, Plan] = {}

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
        self._plans.clear()  # they are of the one before
        return made

    def _plan(self, inputs: list[torch.Tensor | None], segments: int, chosen: list[torch.Tensor | None],
              shared: Sequence[torch.Tensor | None]) -> Plan:
        """For shapes that are new: looked through, and memory for them."""
        logits, outputs, weights = inputs[0], inputs[1::3], inputs[2::3]
        slots = checks.inputs(inputs[0::3], outputs, weights, chosen, self.top_k)
        tokens, experts = logits.shape
        checks.shared(tokens, experts, logits.device, *shared)
        device, is_chosen, has_bias = Device.of(logits.device), chosen[0] is not None, shared[-1] is not None
        if is_chosen and has_bias:
            raise Failure("metier: bias selects experts, and `chosen` has selected them: give one of the two")
        wide = next((x for x in (*outputs, *weights) if x is not None), None)
        layers = self._prepare(device, len(outputs), max(tokens, 1), experts, slots, segments,
                               0 if wide is None else wide.shape[-1],
                               library.GIVEN_CHOICE if is_chosen else library.GIVEN_LOGITS)
        if outputs[0] is None and layers.needs & (library.NEEDS_GRAM | library.NEEDS_ROWS):
            raise Failure("L_o needs the expert outputs: give them, or set beta=0")
        if weights[0] is None and layers.needs & library.NEEDS_ROUTER_WEIGHT:
            raise Failure(f"metier: router_weight is missing, which method {self.method} looks at with these settings")
        frozen = {path: f"{path} need no gradient" for place, path in enumerate(library.PATHS)
                  if not any(x is not None and x.requires_grad for x in inputs[place::3])}
        has_rows, has_weight = (any(x is not None for x in some) for some in (outputs, weights))
        return Plan(layers, tokens, has_rows, has_weight, has_bias, is_chosen, frozen)

    def __call__(self, logits: Tensors = None, outputs: Tensors = None, *, router_scores: Tensors = None,
                 mask: torch.Tensor | None = None, sequence: torch.Tensor | None = None, chosen: Tensors = None,
                 router_weight: Tensors = None, bias: torch.Tensor | None = None, progress: float = 1.0) -> Result:
        """Evaluates the terms of one layer, or of a list of layers.

        logits [N,n], or `router_scores`, their softmax or sigmoid; outputs [N,k,d]: what a token's k experts say, unweighted,
        in the order of `chosen` [N,k], or, without it, of falling scores. mask [N]: 0 marks padding. sequence [N]: which
        text a token is of. router_weight [n,d]: for terms on the router's rows. bias [n]: selects, never weighs.
        progress: the learning rate over its peak, for brake=decay.
        """
        if (logits is None) == (router_scores is None):
            raise Failure("metier: give logits or router_scores, one of the two")
        checks.number("progress", progress)
        if router_scores is not None:
            logits = _logits_of(router_scores, self.router["kind"])
        all_logits = checks.per_layer("logits", logits)
        count, first = len(all_logits), all_logits[0]
        choices, inputs = checks.per_layer("chosen", chosen, count), []
        for scores, rows, weight in zip(all_logits, checks.per_layer("outputs", outputs, count),
                                        checks.per_layer("router_weight", router_weight, count)):
            inputs += (scores, rows, weight)
        shared = (mask, sequence, bias)
        for name, value in zip(("mask", "sequence", "bias"), shared):
            if value is not None and not isinstance(value, torch.Tensor):
                checks.refuse(name, value, "a torch.Tensor")
        stream = torch._C._cuda_getCurrentRawStream(first.get_device()) if first.is_cuda else None
        segment, segments = None, 1
        if sequence is not None:
            checks.tensor("sequence", sequence, checks.INTEGERS, first.shape[:1], first.device)
            names, segment = torch.unique(sequence, return_inverse=True)
            segment, segments = segment.int(), max(len(names), 1)
        key = (stream, segments, *map(key_of, (*inputs, *choices, *shared)))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plan(inputs, segments, choices, shared)
            self._plans[key] = plan
        for scores, choice in zip(all_logits, choices):
            checks.logits_values(scores, mask)
            if choice is not None:
                checks.choice("chosen", choice, scores.shape[1])
        if bias is not None:
            checks.finite("bias", bias)
        inputs[1::3] = [None if rows is None else computable(rows) for rows in inputs[1::3]]
        if mask is not None or sequence is not None:
            template = plan.template(Batch.of(plan.layers, plan.tokens, first.device, mask, segment, segments))
        else:
            template = plan.usual = plan.usual or plan.template(Batch.of(plan.layers, plan.tokens, first.device, None, None, 1))
        call = _Call(plan, template, choices, plain(bias), progress)
        total = _Terms.apply(call, *inputs)
        checks.total_value(total, zip(("logits", "outputs", "router_weight") * count, inputs))
        return Result(total, call.read)


def objective(logits: Tensors = None, outputs: Tensors = None, *, method: str = "paper", **options: Any) -> Result:
    """The terms of a method on one step alone: scale=once scales by these very tensors. Options are those of Objective
    and of its call."""
    of_call = ("router_scores", "mask", "sequence", "chosen", "router_weight", "bias", "progress")
    given = {name: options.pop(name) for name in of_call if name in options}
    return Objective(method, **options)(logits, outputs, **given)
