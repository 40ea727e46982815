"""The routed experts of a transformers model, with every token's expert outputs at hand.

`rows_of` computes them expert by expert, in whatever way the model's tensors allow; `Combine` sums them up as the model
would and, on the way, lets the objective look at them. In backward the gradients of the terms join those of the task.
"""
from __future__ import annotations

from typing import Any

import torch

from . import library
from .layers import arrays_of, computable
from .passes import Pass, reaches
from .records import gradient_room, routing_room


def _grouped(rows: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """rows [R,i] sorted by expert, weight [n,o,i]: each row times its expert's matrix."""
    aligned = rows.shape[-1] % 8 == 0 and weight.shape[1] % 8 == 0  # 16 bytes, which the kernel asks for
    if rows.is_cuda and weight.dtype == torch.bfloat16 and aligned and hasattr(torch.nn.functional, "grouped_mm"):
        return torch.nn.functional.grouped_mm(rows.to(weight.dtype), weight.transpose(-2, -1), offs=ends)
    starts = [0, *ends.tolist()]
    parts = [torch.nn.functional.linear(rows[start:end], weight[expert])
             for expert, (start, end) in enumerate(zip(starts, starts[1:])) if end > start]
    return torch.cat(parts) if parts else rows.new_zeros(0, weight.shape[1])


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether the experts are two stacks of matrices and an activation between them."""
    odd = ("has_bias", "is_transposed", "has_post_expert_norm", "_is_expert_parallel")
    return (getattr(module, "has_gate", True) and not any(getattr(module, name, False) for name in odd)
            and hasattr(module, "gate_up_proj") and hasattr(module, "down_proj"))


def rows_of(module: torch.nn.Module, hidden: torch.Tensor, chosen: torch.Tensor,
            otherwise: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """([N·k,d], int32 [N,k]): the outputs of each token's experts, unweighted, and where each slot's is."""
    tokens, slots = chosen.shape
    place = torch.arange(tokens * slots, dtype=torch.int32, device=hidden.device)
    if not _is_plain(module):
        # Every slot as a token of its own with one expert: what any implementation can do.
        ones = torch.ones(tokens * slots, 1, dtype=hidden.dtype, device=hidden.device)
        return otherwise(module, hidden.repeat_interleave(slots, dim=0), chosen.reshape(-1, 1), ones), place.view(tokens, slots)
    expert, order = torch.sort(chosen.reshape(-1), stable=True)
    ends = torch.searchsorted(expert, torch.arange(module.num_experts, device=hidden.device), right=True).int()
    row_of_slot = torch.empty_like(place)
    row_of_slot[order] = place
    inner = _grouped(hidden[order // slots], module.gate_up_proj, ends)
    apply_gate = getattr(module, "_apply_gate", None)
    if apply_gate is not None:
        inner = apply_gate(inner)
    else:
        gate, up = inner.chunk(2, dim=-1)
        inner = module.act_fn(gate) * up
    return _grouped(inner, module.down_proj, ends), row_of_slot.view(tokens, slots)


class Combine(torch.autograd.Function):
    """(y, a token): y = Σ_s weight · output. The objective looks at the layer, and its gradients come back with y's, times
    the gradient of the token, which the total hands on."""

    KEPT = ("probs", "greedy", "chosen", "expert", "weight", "row_of_slot", "gram", "offsets", "sorted_row",
            "slot_of_row")

    @staticmethod
    def forward(ctx: Any, run: Pass, layer: int, chosen: torch.Tensor, row_of_slot: torch.Tensor, rows: torch.Tensor,
                weights: torch.Tensor, logits: torch.Tensor,
                router_weight: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        layers, batch = run.memory(), run.batch
        tokens, slots = chosen.shape
        room: dict[str, torch.Tensor | None] = dict(routing_room(layers, tokens, rows.device, chosen))
        if not layers.drops:
            room["expert"] = room["chosen"]
        room["weight"] = weights.detach().float().contiguous()
        given = Combine._given(run, rows, logits, router_weight)
        layers.route(run.stream(layer), arrays_of(tokens, batch.segments, rows.dtype, batch.unmasked, **given, **room))
        room["row_of_slot"] = torch.where(room["expert"] < 0, -1, row_of_slot) if layers.drops else row_of_slot
        if layers.needs & library.NEEDS_GRAM:
            room["gram"] = torch.empty(tokens, slots, slots, dtype=torch.float32, device=rows.device)
        y = rows.new_empty(tokens, layers.shape.width)
        arrays = arrays_of(tokens, batch.segments, rows.dtype, batch.unmasked, y=y, **given, **room)
        layers.forward(layer, arrays, look=run.looks)
        ctx.run, ctx.layer, ctx.again = run, layer, not run.looks
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, weights, logits, router_weight, *(room.get(name) for name in Combine.KEPT))
        return y, torch.empty((), dtype=torch.float32, device=rows.device)  # nobody reads its value

    @staticmethod
    def _given(run: Pass, rows: torch.Tensor, logits: torch.Tensor,
               router_weight: torch.Tensor | None) -> dict[str, torch.Tensor | None]:
        return {"logits": logits.detach().float().contiguous(), "outputs": rows, "numbers": run.numbers,
                **run.batch.tensors(),
                "router_weight": None if router_weight is None else router_weight.detach().float().contiguous()}

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor | None, dtoken: torch.Tensor | None) -> Any:
        run, layer = ctx.run, ctx.layer
        layers = run.memory()
        rows, weights, logits, router_weight, *kept = ctx.saved_tensors
        # Of a layer that reentrant checkpointing computes again, autograd does not know the way from the total.
        factor = run.factor if dtoken is None and ctx.again else dtoken
        if dy is None:  # the total alone is differentiated
            dy = torch.zeros(weights.shape[0], layers.shape.width, dtype=rows.dtype, device=rows.device)
        room = gradient_room(layers, dy.shape[0], rows, router_weight is not None)
        room["dweight"] = torch.empty(dy.shape[0], layers.shape.slots, dtype=torch.float32, device=rows.device)
        # A slot that was dropped has no row, and its row no gradient.
        room["doutputs"] = torch.zeros_like(rows) if layers.drops else torch.empty_like(rows)
        tensors = {**Combine._given(run, rows, logits, router_weight), **dict(zip(Combine.KEPT, kept)), **room,
                   "dy": dy.to(rows.dtype).contiguous()}

        def arrays() -> Any:
            return arrays_of(dy.shape[0], run.batch.segments, rows.dtype, run.batch.unmasked, **tensors)

        if factor is None:  # the terms are no part of what is differentiated
            tensors.update(coupling=None, dlogits=None)
            layers.backward(layer, arrays())
            return None, None, None, None, room["doutputs"], room["dweight"].to(weights.dtype), None, None
        run.touched.add(layer)
        factor = factor.float()
        if "coupling" in room:
            layers.coupling(layer, arrays())
            room["coupling"].mul_(factor)
        layers.backward(layer, arrays())
        drows = room["doutputs"]
        if "doutputs_terms" in room:
            drows = drows + room["doutputs_terms"] * factor.to(rows.dtype)
        dweights = room["dweight"].addcmul_(room["dweight_terms"], factor)
        drouter = None if router_weight is None else (room["drouter_weight"] * factor).to(router_weight.dtype)
        return (None, None, None, None, drows, dweights.to(weights.dtype), room["dlogits"].mul_(factor).to(logits.dtype),
                drouter)


def combine(run: Pass, layer: int, hidden: torch.Tensor, chosen: torch.Tensor, row_of_slot: torch.Tensor,
            rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Combine, with the logits the router's hook left for this layer."""
    logits, router_weight, router_learns = run.take_logits(layer)
    if torch.is_grad_enabled():
        run.reach[layer] = {"logits": router_learns, "outputs": reaches(rows, hidden), "below": hidden.requires_grad,
                            "router_weight": router_weight is not None and router_learns}
    y, token = Combine.apply(run, layer, chosen, row_of_slot, computable(rows), weights, logits, router_weight)
    if run.looks:
        run.tokens[layer] = token
    return y
