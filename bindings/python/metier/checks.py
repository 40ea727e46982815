"""What callers hand over, looked at before the library sees it: addresses have no shapes.

A refusal is a Failure whose sentence names the argument, what was expected and what was given. Shapes, types and devices
are looked at wherever tensors lie. Values (indices, masks, scores) are looked at here on the CPU. On a GPU the device
looks at them itself, and the host does not wait: values that cannot be end in a device-side assert, as they do for
torch's own indices.
"""
from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import torch

from .library import Failure

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
MASKS = (torch.bool, *INTEGERS)
KINDS = {FLOATS: "a float type", INTEGERS: "integers", MASKS: "bool, or integers that are 0 or 1",
         (*MASKS, *FLOATS): "bool, or numbers that are 0 or 1"}
MOST_LAYERS, MOST_EXPERTS, MOST_WIDTH, MOST_SLOTS_IN_ALL = 1024, 16384, 1 << 24, (1 << 31) - 1
INT_END = 1 << 31
Size = int | str  # a number, or a letter that any number may stand for

# What the library reads of a layer: N tokens, n experts, k of them a token, R rows, d their width. "*" is of the outputs'
# type, "f" float32, "i" int32, "d" float64.
LAYER_ARRAYS = {
    "logits": ("f", "Nn"), "mask": ("i", "N"), "ortho_mask": ("i", "N"), "segment": ("i", "N"), "router_weight": ("f", "nd"),
    "bias": ("f", "n"), "outputs": ("*", "Rd"), "row_of_slot": ("i", "Nk"), "probs": ("f", "Nn"), "greedy": ("i", "Nk"),
    "chosen": ("i", "Nk"), "expert": ("i", "Nk"), "weight": ("f", "Nk"), "offsets": ("i", "m"), "sorted_row": ("i", "Nk"),
    "slot_of_row": ("i", "R"), "y": ("*", "Nd"), "gram": ("f", "Nkk"), "dy": ("*", "Nd"), "coupling": ("f", "Nkk"),
    "doutputs": ("*", "Rd"), "doutputs_terms": ("*", "Rd"), "dweight": ("f", "Nk"), "dweight_terms": ("f", "Nk"),
    "dprobs": ("f", "Nn"), "dlogits": ("f", "Nn"), "drouter_weight": ("f", "nd"), "numbers": ("d", "s")}
TYPES = {"f": torch.float32, "i": torch.int32, "d": torch.float64}


def described(value: Any) -> str:
    """For a sentence: "float32 [4, 8] on cpu", "'softmax' (str)"."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} on {value.device}"
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise Failure(f"metier: {name} is {described(value)}; expected {expected}")


# ------------------------------------------------------------ single values


def number(name: str, value: Any, low: float = 0.0) -> float:
    """A finite number, no truth value."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value) or value < low:
        refuse(name, value, f"a number of {low:g} or more")
    return float(value)


def whole(name: str, value: Any, low: int = 0) -> int:
    """A whole number that C's int holds: what is larger would lose its upper bits on the way."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= value < INT_END:
        refuse(name, value, f"a whole number of {low} or more, below 2^31")
    return int(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        refuse(name, value, "True or False")
    return value


def word(name: str, value: Any, known: Sequence[str] | None = None) -> str:
    """A text that C reads whole, one of these if there are any."""
    if not isinstance(value, str):
        refuse(name, value, "a text" if known is None else "one of " + ", ".join(known))
    if known is not None and value not in known:
        raise Failure(f"metier: there is no {name} {value!r}: {', '.join(known)}")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        refuse(name, value, "a text without NUL, in UTF-8")
    return value


def setting(key: str, value: Any) -> str:
    """The text of an objective's key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return word(key, value)
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        refuse(key, value, "a finite number, True, False or a text")
    return str(value)


# ------------------------------------------------------------ tensors


def tensor(name: str, value: Any, types: tuple[torch.dtype, ...], shape: Sequence[Size], device: torch.device) -> None:
    """Type, rank, dimensions and device."""
    if not isinstance(value, torch.Tensor):
        refuse(name, value, "a torch.Tensor")
    if value.layout != torch.strided:
        raise Failure(f"metier: {name} is {str(value.layout).removeprefix('torch.')}; expected a dense tensor")
    sizes = value.shape
    fits = len(sizes) == len(shape) and all(isinstance(want, str) or size == want for size, want in zip(sizes, shape))
    if value.dtype not in types or not fits or value.device != device:
        refuse(name, value, f"{KINDS[types]}, [{', '.join(map(str, shape))}], on {device}")


def per_layer(name: str, value: Any, layers: int | None = None) -> list[Any]:
    """One for each layer, however many these are: all are tensors, or all are None."""
    found = [None] * (layers or 0) if value is None else [value] if isinstance(value, torch.Tensor) else value
    if not isinstance(found, (list, tuple)) or not found:
        refuse(name, value, "a torch.Tensor, or a list with one for each layer")
    if layers is not None and len(found) != layers:
        raise Failure(f"metier: {name} has {len(found)} layers, but the logits have {layers}")
    for layer, one in enumerate(found):
        if value is not None and not isinstance(one, torch.Tensor):
            refuse(f"{name}[{layer}]", one, "a torch.Tensor")
    return list(found)


def inputs(logits: list[torch.Tensor], outputs: list[Any], weights: list[Any], chosen: list[Any], slots: int | None) -> int:
    """The shapes of all layers, which must agree; returns k."""
    first, device = logits[0], logits[0].device
    tensor("logits", first, FLOATS, ("N", "n"), device)
    tokens, experts = first.shape
    if not 1 <= experts <= MOST_EXPERTS or len(logits) > MOST_LAYERS:
        refuse("logits", first, f"1 to {MOST_EXPERTS} experts and {MOST_LAYERS} layers at the most")
    for of_slots in (outputs[0], chosen[0]):
        if slots is None and of_slots is not None and of_slots.dim() > 1:
            slots = of_slots.shape[1]
    if slots is None:
        raise Failure("metier: top_k is missing: neither outputs nor chosen say how many experts a token has")
    if not 1 <= slots <= experts:
        raise Failure(f"metier: {slots} experts of a token; expected 1 to {experts}, as the logits have {experts} experts")
    if tokens * slots > MOST_SLOTS_IN_ALL:
        refuse("logits", first, f"{MOST_SLOTS_IN_ALL // slots} tokens at the most")
    wide = next((one for one in (outputs[0], weights[0]) if one is not None and one.dim() > 0), None)
    width: Size = "d" if wide is None else wide.shape[-1]
    if width != "d" and not 1 <= width <= MOST_WIDTH:
        refuse("outputs" if wide is outputs[0] else "router_weight", wide, f"a width of 1 to {MOST_WIDTH}")
    for scores, rows, weight, choice in zip(logits, outputs, weights, chosen):
        tensor("logits", scores, FLOATS, (tokens, experts), device)
        if rows is not None:
            tensor("outputs", rows, FLOATS, (tokens, slots, width), device)
        if weight is not None:
            tensor("router_weight", weight, FLOATS, (experts, width), device)
        if choice is not None:
            tensor("chosen", choice, INTEGERS, (tokens, slots), device)
    return slots


def shared(tokens: int, experts: int, device: torch.device, mask: Any, sequence: Any, bias: Any) -> None:
    """What all layers of a call share."""
    if mask is not None:
        tensor("mask", mask, MASKS, (tokens,), device)
    if sequence is not None:
        tensor("sequence", sequence, INTEGERS, (tokens,), device)
    if bias is not None:
        tensor("bias", bias, FLOATS, (experts,), device)


# ------------------------------------------------------------ values


def hold(name: str, values: torch.Tensor, good: torch.Tensor, expected: str) -> None:
    """Refuses values that are not good, with the first of them; a GPU looks at them when it comes to it."""
    if good.is_cuda:
        torch._assert_async(good.all(), f"metier: {name}: expected {expected}")
    elif not bool(good.all()):
        place = tuple((~good).nonzero()[0].tolist())
        raise Failure(f"metier: {name}{list(place)} is {values[place].item()}; expected {expected}")


def choice(name: str, chosen: torch.Tensor, experts: int) -> None:
    """Experts of [0, n), each once for a token."""
    hold(name, chosen, (chosen >= 0) & (chosen < experts), f"experts from 0 to {experts - 1}")
    order = chosen.sort(dim=1).values
    same = order[:, 1:] == order[:, :-1]
    if same.is_cuda:
        torch._assert_async(~same.any(), f"metier: {name}: expected different experts for each token")
    elif bool(same.any()):
        token, place = same.nonzero()[0].tolist()
        raise Failure(f"metier: {name}[{token}] names expert {order[token, place].item()} twice; expected different experts")


def mask_values(name: str, mask: torch.Tensor) -> None:
    if mask.dtype != torch.bool:
        hold(name, mask, (mask == 0) | (mask == 1), "0 or 1")


def finite(name: str, values: torch.Tensor) -> None:
    hold(name, values, values.isfinite(), "finite numbers")


def logits_values(logits: torch.Tensor, mask: torch.Tensor | None) -> None:
    """On the CPU: no NaN in a token that counts. On a GPU the total would show it."""
    if not logits.is_cuda and bool(logits.isnan().any()):
        good = ~logits.isnan()
        hold("logits", logits, good if mask is None else good | (mask == 0).unsqueeze(1), "numbers")


def scores_values(scores: torch.Tensor, sums_to_one: bool) -> None:
    """Of [0,1], and a softmax sums to one: anything else was made in another way."""
    slack = 1e-3 if scores.dtype in (torch.float32, torch.float64) else 2e-2
    hold("router_scores", scores, (scores >= 0) & (scores <= 1 + slack), "scores from 0 to 1")
    if sums_to_one and scores.shape[-1] > 0:
        total = scores.detach().double().sum(-1)
        hold("the sum of router_scores", total, (total - 1).abs() <= slack, "a softmax, whose rows sum to 1")


def total_value(total: torch.Tensor, named: Iterable[tuple[str, torch.Tensor | None]]) -> None:
    """On the CPU, where it is known: a total that is not a number is refused, with the argument it came from."""
    if total.is_cuda or math.isfinite(total.item()):
        return
    for name, value in named:
        if value is not None and not bool(value.isfinite().all()):
            finite(name, value)
    raise Failure(f"metier: the terms sum up to {total.item()}; some of logits, outputs or router_weight are too large")


def layer_arrays(tokens: int, dtype: torch.dtype, tensors: dict[str, torch.Tensor | None]) -> None:
    """A layer's arrays as the library reads them: types, contiguous, on one device, shapes that agree."""
    sizes: dict[str, int] = {"N": tokens}
    device = None
    for name, value in tensors.items():
        if value is None:
            continue
        kind, letters = LAYER_ARRAYS[name]
        shape, device = value.shape, device or value.device
        fits = len(shape) == len(letters) and all(sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape))
        if not fits or value.dtype != TYPES.get(kind, dtype) or value.device != device or not value.is_contiguous():
            want = ", ".join(f"{letter} = {sizes[letter]}" if letter in sizes else letter for letter in letters)
            refuse(name, value, f"{str(TYPES.get(kind, dtype)).removeprefix('torch.')} [{want}] on {device}, contiguous")
    rows = sizes.get("R", sizes["N"] * sizes.get("k", 1))
    if ("k" in sizes and rows != sizes["N"] * sizes["k"]) or sizes.get("m", sizes.get("n", 0) + 1) != sizes.get("n", 0) + 1:
        raise Failure(f"metier: a layer's arrays have {rows} rows of outputs for {sizes['N']} tokens with {sizes['k']} experts each")
