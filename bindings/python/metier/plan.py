"""What steps of the same shapes share, made once: an objective's memory, and where a layer's arrays lie in one block."""
from __future__ import annotations

from typing import Any

import torch

from . import library
from .layers import DTYPES, Layers
from .library import LayerArrays
from .records import Batch

ALIGNED = 64  # elements: 256 bytes


class Layout:
    """Places of arrays of 4-byte elements in a block."""

    def __init__(self) -> None:
        self.count = 0
        self.places: dict[str, int] = {}

    def add(self, name: str, count: int, beside: bool = False) -> None:
        """The next array; beside: right after the one before, without a gap."""
        if not beside:
            self.count = -(-self.count // ALIGNED) * ALIGNED
        self.places[name] = self.count
        self.count += count


class Plan:
    """Of one layer: `places` of its arrays in the block, in bytes. Elements [0, gradients) of it are what backward
    multiplies with the gradient of the total: drouter_weight, coupling, dlogits."""

    def __init__(self, layers: Layers, tokens: int, has_rows: bool, has_weight: bool, has_bias: bool,
                 is_chosen: bool) -> None:
        self.layers, self.tokens = layers, tokens
        experts, slots = layers.shape.experts, layers.shape.slots
        self.has_gram = has_rows and bool(layers.needs & library.NEEDS_GRAM)
        self.has_groups = has_rows and bool(layers.needs & library.NEEDS_ROWS)
        self.row_of_slot = layers.rows_in_order(tokens)
        self.layout = Layout()
        self._place_gradients(has_weight, tokens * experts, tokens * slots)
        self._place_routing(has_bias, is_chosen, tokens * experts, tokens * slots)
        self.template = LayerArrays(tokens=tokens, segments=1, row_of_slot=self.row_of_slot.data_ptr())
        self.places = [(name, 4 * place) for name, place in self.layout.places.items()]
        self.batch: Batch | None = None  # of a step without mask and sequences

    def _place_gradients(self, has_weight: bool, wide: int, pairs: int) -> None:
        layout, slots = self.layout, self.layers.shape.slots
        if has_weight:
            layout.add("drouter_weight", self.layers.shape.experts * self.layers.shape.width)
        if self.has_gram:  # the coupling takes the Gram matrices' place
            layout.add("gram", pairs * slots)
            layout.places["coupling"] = layout.places["gram"]
        layout.add("dlogits", wide)
        self.gradients = layout.count
        layout.add("dprobs", wide, beside=True)  # so that they are cleared in one go
        layout.add("dweight_terms", pairs, beside=True)

    def _place_routing(self, has_bias: bool, is_chosen: bool, wide: int, pairs: int) -> None:
        layout, layers = self.layout, self.layers
        router = layers.shape.router
        layout.add("probs", wide)
        layout.add("weight", pairs)
        if not is_chosen:
            layout.add("chosen", pairs)
        # What nothing makes differ from the choice is the choice itself.
        plain = not (is_chosen or has_bias or layers.drops or router.groups or
                     library.ROUTERS[router.kind] == "sparsemixer")
        for name in ("greedy", "expert"):
            if plain:
                layout.places[name] = layout.places["chosen"]
            else:
                layout.add(name, pairs)
        if layers.needs & library.NEEDS_ROWS:
            layout.add("offsets", layers.shape.experts + 1)
            layout.add("sorted_row", pairs)
            layout.add("slot_of_row", pairs)

    def room(self) -> torch.Tensor:
        return torch.empty(self.layout.count, dtype=torch.float32, device=self.layers.torch_device)

    def arrays(self, block: torch.Tensor, batch: Batch) -> LayerArrays:
        """The struct the library reads, its arrays in a block."""
        arrays = LayerArrays.from_buffer_copy(self.template)
        arrays.segments, arrays.unmasked = batch.segments, batch.unmasked
        begin = block.data_ptr()
        for name, place in self.places:
            setattr(arrays, name, begin + place)
        return arrays

    def view(self, block: torch.Tensor, name: str, *shape: int) -> torch.Tensor:
        """One of a block's arrays, [rows,columns]."""
        return block.as_strided(shape, (shape[1], 1), self.layout.places[name])

    def rows_gradient(self, layer: int, outputs: torch.Tensor, gradients: torch.Tensor, row_of_slot: torch.Tensor,
                      weight: int) -> torch.Tensor:
        """C·X of every token, C the coupling among the gradients."""
        # A slot that was dropped has no row, and its row no gradient.
        rows = torch.zeros_like(outputs) if self.layers.drops else torch.empty_like(outputs)
        arrays = LayerArrays.from_buffer_copy(self.template)
        arrays.outputs, arrays.dtype, arrays.doutputs = outputs.data_ptr(), DTYPES[outputs.dtype], rows.data_ptr()
        arrays.row_of_slot, arrays.weight = row_of_slot.data_ptr(), weight
        arrays.coupling = gradients.data_ptr() + 4 * self.layout.places["coupling"]
        self.layers.backward(layer, arrays)
        return rows


def key_of(tensors: list[Any]) -> tuple[Any, ...]:
    """What plans of these tensors depend on."""
    return tuple(None if x is None else (x.shape, x.dtype, x.requires_grad) for x in tensors)
