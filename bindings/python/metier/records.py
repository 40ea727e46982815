"""The tensors of one layer's routing record, as the library wants them: contiguous, of its types, on the device."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from . import checks, library
from .layers import Layers


def first_tokens_out(mask: torch.Tensor | None, segment: torch.Tensor | None, tokens: int, segments: int,
                     device: torch.device) -> torch.Tensor:
    """int32 [N]: the mask less the first token that counts of every sequence. Nothing is waited for."""
    place = torch.arange(tokens, device=device)
    counts = torch.ones(tokens, dtype=torch.bool, device=device) if mask is None else mask != 0
    owner = torch.zeros(tokens, dtype=torch.int64, device=device) if segment is None else segment.long()
    first = torch.full((segments,), tokens, dtype=torch.int64, device=device)
    first.scatter_reduce_(0, owner, torch.where(counts, place, tokens), "amin")
    return (counts & (place != first[owner])).int()


@dataclass
class Batch:
    """What all layers of a step share."""

    tokens: int
    segments: int
    mask: torch.Tensor | None  # int32 [N]
    segment: torch.Tensor | None  # int32 [N]
    ortho_mask: torch.Tensor | None  # int32 [N]
    unmasked: int = 0  # known only where a method drops slots: counting is waited for

    @classmethod
    def of(cls, layers: Layers, tokens: int, device: torch.device, mask: torch.Tensor | None,
           segment: torch.Tensor | None, segments: int) -> Batch:
        if mask is not None:
            mask = mask.reshape(-1)
            checks.tensor("mask", mask, (*checks.MASKS, *checks.FLOATS), (tokens,), device)
            checks.mask_values("mask", mask)
            mask = (mask != 0).int()
        if segment is not None:
            checks.tensor("sequence", segment, checks.INTEGERS, (tokens,), device)
        ortho = None
        if layers.needs & library.NEEDS_ORTHO_MASK:
            ortho = first_tokens_out(mask, segment, tokens, segments, device)
        if not layers.needs & library.NEEDS_SEQUENCES:
            segment, segments = None, 1
        unmasked = int(mask.sum()) if layers.drops and mask is not None else tokens
        return cls(tokens, segments, mask, segment, ortho, unmasked)

    def tensors(self) -> dict[str, torch.Tensor | None]:
        return {"mask": self.mask, "ortho_mask": self.ortho_mask, "segment": self.segment}


def routing_room(layers: Layers, tokens: int, device: torch.device, chosen: torch.Tensor) -> dict[str, torch.Tensor]:
    """What mt_layers_route writes for a choice that was made before."""
    slots, experts = layers.shape.slots, layers.shape.experts
    checks.tensor("chosen", chosen, checks.INTEGERS, (tokens, slots), device)
    if not chosen.is_cuda:  # there a model's own router is trusted to choose different experts: looking is ten kernels a layer
        checks.choice("chosen", chosen, experts)

    def ints(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int32, device=device)

    room = {"probs": torch.empty(tokens, experts, dtype=torch.float32, device=device),
            "chosen": chosen.int().contiguous(), "greedy": ints(tokens, slots), "expert": ints(tokens, slots)}
    if layers.needs & library.NEEDS_ROWS:
        room["offsets"], room["sorted_row"] = ints(experts + 1), ints(tokens, slots)
        room["slot_of_row"] = ints(tokens * slots)
    return room


def gradient_room(layers: Layers, tokens: int, outputs: torch.Tensor | None,
                  wants_weight: bool) -> dict[str, torch.Tensor]:
    """What mt_layers_coupling and mt_layers_backward write of the terms, and their scratch."""
    slots, experts, device = layers.shape.slots, layers.shape.experts, layers.torch_device

    def floats(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    room = {"dlogits": floats(tokens, experts), "dprobs": floats(tokens, experts), "dweight_terms": floats(tokens, slots)}
    if outputs is not None and layers.needs & library.NEEDS_GRAM:
        room["coupling"] = floats(tokens, slots, slots)
    if outputs is not None and layers.needs & library.NEEDS_ROWS:
        room["doutputs_terms"] = torch.empty_like(outputs)
    if wants_weight:
        room["drouter_weight"] = floats(experts, layers.shape.width)
    return room
