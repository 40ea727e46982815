"""What steps of the same shapes share, made once: an objective's memory, and where the layers' arrays lie in one block."""
from __future__ import annotations

from collections.abc import Sequence

import torch

from . import library
from .layers import Layers, point
from .library import LayerArrays
from .records import Batch

ALIGNED = 64  # elements: 256 bytes
Template = tuple[LayerArrays, Batch]  # what all layers of a step share, and whose tensors these are
GRADIENTS = ("drouter_weight", "coupling", "dlogits", "dprobs", "dweight_terms")


class Layout:
    """Places of arrays of 4-byte elements in a block."""

    def __init__(self) -> None:
        self.count = 0
        self.places: dict[str, int] = {}

    def add(self, name: str, count: int) -> None:
        self.places[name] = self.end()
        self.count = self.places[name] + count

    def end(self) -> int:
        """Where another one could begin."""
        return -(-self.count // ALIGNED) * ALIGNED


class Plan:
    """`places` of a layer's arrays in its part of the block, in bytes; after all layers come the statistics."""

    def __init__(self, layers: Layers, tokens: int, has_rows: bool, has_weight: bool, has_bias: bool,
                 is_chosen: bool, frozen: dict[str, str]) -> None:
        self.layers, self.tokens, self.frozen = layers, tokens, frozen  # why paths have no gradient
        experts, slots = layers.shape.experts, layers.shape.slots
        self.has_gram = has_rows and bool(layers.needs & library.NEEDS_GRAM)
        self.has_groups = has_rows and bool(layers.needs & library.NEEDS_ROWS)
        self.row_of_slot = layers.rows_in_order(tokens)
        self.layout = Layout()
        self._place_gradients(has_weight, tokens * experts, tokens * slots)
        self._place_routing(has_bias, is_chosen, tokens * experts, tokens * slots)
        self.stride = self.layout.end()
        self.count = layers.shape.layers * self.stride + 2 * layers.numbers
        self.numbers = 4 * layers.shape.layers * self.stride
        self.places = [(name, 4 * place) for name, place in self.layout.places.items()]
        self.places_seen = [(name, place) for name, place in self.places if name not in GRADIENTS]
        self.usual: Template | None = None  # of a step without mask and sequences

    def _place_gradients(self, has_weight: bool, wide: int, pairs: int) -> None:
        layout, slots = self.layout, self.layers.shape.slots
        if has_weight:
            layout.add("drouter_weight", self.layers.shape.experts * self.layers.shape.width)
        if self.has_gram:  # the coupling takes the Gram matrices' place
            layout.add("gram", pairs * slots)
            layout.places["coupling"] = layout.places["gram"]
        layout.add("dlogits", wide)
        layout.add("dprobs", wide)
        layout.add("dweight_terms", pairs)

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
        return self.layers.floats.new_empty(self.count)

    def template(self, batch: Batch) -> Template:
        arrays = LayerArrays(tokens=self.tokens, segments=batch.segments, unmasked=batch.unmasked)
        point(arrays, row_of_slot=self.row_of_slot, **batch.tensors())
        return arrays, batch

    def arrays(self, template: Template, block: torch.Tensor, layer: int, wants: bool) -> LayerArrays:
        """The struct the library reads, its arrays in a block; those of gradients if they are wanted."""
        arrays = LayerArrays.from_buffer_copy(template[0])
        begin = block.data_ptr()
        arrays.numbers = begin + self.numbers
        begin += 4 * layer * self.stride
        for name, place in self.places if wants else self.places_seen:
            setattr(arrays, name, begin + place)
        return arrays

    def rows(self, block: torch.Tensor, layer: int) -> torch.Tensor:
        """int32 [N,k]: where a slot's output is, less those that were dropped."""
        rows, place = self.row_of_slot, layer * self.stride + self.layout.places["expert"]
        expert = block.view(torch.int32).as_strided(rows.shape, rows.stride(), place)
        return torch.where(expert < 0, -1, rows)

    def gradient_room(self, outputs: torch.Tensor | None, wanted: Sequence[bool]) -> list[torch.Tensor | None]:
        """For the gradients of a layer's logits, outputs and router weight: those that are wanted, and exist."""
        floats, shape = self.layers.floats, self.layers.shape
        found: list[torch.Tensor | None] = [None, None, None]
        if wanted[0]:
            found[0] = floats.new_empty(self.tokens, shape.experts)
        if wanted[1] and (self.has_gram or self.has_groups):
            # A slot that was dropped has no row, and its row no gradient.
            found[1] = torch.zeros_like(outputs) if self.layers.drops else torch.empty_like(outputs)
        if wanted[2]:
            found[2] = floats.new_empty(shape.experts, shape.width)
        return found


def key_of(tensor: torch.Tensor | None) -> tuple[object, ...] | None:
    """What plans, and what was found right before, depend on in a tensor."""
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.requires_grad, tensor.device, tensor.layout)
