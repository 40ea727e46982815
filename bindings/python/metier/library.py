"""libmetier.so: where it is, its structs and functions, its errors, and its lists of methods and keys."""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import shutil
import sys
from collections.abc import Iterator
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

VERSION = "0.2"  # major and minor: what the structs below are of
MESSAGE_BYTES = 1024
OLD_FIELDS = 256  # fields are added at the end of structs, and zero means what was before: room for those


class Failure(RuntimeError):
    """What was refused, in a sentence."""


class Grown(ctypes.Structure):
    """A struct that later patches of the library may read more of."""

    _fields_ = [("later", c_char * OLD_FIELDS)]


class Context(ctypes.Structure):
    _fields_ = [("allocate", c_void_p), ("release", c_void_p), ("self", c_void_p), ("live_bytes", c_size_t),
                ("peak_bytes", c_size_t), ("forbidden_phase", c_char_p), ("message", c_char * MESSAGE_BYTES),
                ("limit_bytes", c_size_t), ("room", Grown)]


class Place(ctypes.Structure):
    _fields_ = [("gpu", c_int), ("stream", c_void_p), ("room", Grown)]


class Router(ctypes.Structure):
    _fields_ = [("kind", c_int), ("slots", c_int), ("normalise", c_bool), ("epsilon", c_float), ("scale", c_float),
                ("group_rule", c_int), ("groups", c_int), ("groups_kept", c_int), ("jitter", c_float)]


class Shape(ctypes.Structure):
    _fields_ = [("layers", c_int), ("tokens", c_int64), ("experts", c_int), ("slots", c_int), ("segments", c_int),
                ("width", c_int64), ("router", Router)]


class LayersOptions(ctypes.Structure):
    _fields_ = [("method", c_char_p), ("settings", POINTER(c_char_p)), ("shape", Shape), ("given", c_int),
                ("room", Grown)]


ARRAYS = ("logits", "mask", "ortho_mask", "segment", "router_weight", "bias", "outputs", "row_of_slot", "probs",
          "greedy", "chosen", "expert", "weight", "offsets", "sorted_row", "slot_of_row", "y", "gram", "dy", "coupling",
          "doutputs", "doutputs_terms", "dweight", "dweight_terms", "dprobs", "dlogits", "drouter_weight", "numbers")


class LayerArrays(ctypes.Structure):
    _fields_ = [("tokens", c_int64), ("segments", c_int64), ("unmasked", c_int64), ("dtype", c_int),
                *((name, c_void_p) for name in ARRAYS), ("room", Grown)]


class LayerChain(ctypes.Structure):
    _fields_ = [("factor", c_void_p), ("dlogits", c_void_p), ("doutputs", c_void_p), ("drouter_weight", c_void_p),
                ("room", Grown)]


class Step(ctypes.Structure):
    _fields_ = [("progress", c_double), ("loss_scale", c_double), ("room", Grown)]


class SelectionStep(ctypes.Structure):
    _fields_ = [("load", c_void_p), ("measured", c_void_p), ("experts", c_int), ("memory", c_void_p), ("bias", c_void_p), ("room", Grown)]


class LayerPaths(ctypes.Structure):
    _fields_ = [("router", c_bool), ("experts", c_bool), ("below", c_bool), ("inner", c_bool), ("gates", c_bool)]


class TermInfo(ctypes.Structure):  # its first fields
    _fields_ = [("name", c_char_p), ("formula", c_char_p), ("off", c_char_p), ("path", c_int)]


class MethodRow(ctypes.Structure):  # its first fields
    _fields_ = [("name", c_char_p), ("summary", c_char_p), ("source", c_char_p)]


class KeyRow(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("values", c_char_p), ("meaning", c_char_p), ("room", Grown)]


F32, BF16 = 0, 1  # enum mt_dtype
PATHS = ("logits", "outputs", "router_weight")  # enum mt_term_path
NEEDS_GRAM, NEEDS_ROWS, NEEDS_ORTHO_MASK, NEEDS_ROUTER_WEIGHT, NEEDS_SEQUENCES = 1, 2, 4, 8, 16
GIVEN_LOGITS, GIVEN_CHOICE, GIVEN_WEIGHTS = 0, 1, 2
ROUTERS = ("softmax", "sigmoid", "sparsemixer")
GROUP_RULES = ("none", "max", "top2-sum")

_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "mt_version": (c_char_p, []),
    "mt_context_init": (None, [c_void_p, c_void_p]),
    "mt_device_create": (c_int, [c_void_p, c_char_p, c_int, c_void_p]),
    "mt_device_create_on": (c_int, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "mt_device_destroy": (None, [c_void_p]),
    "mt_device_description": (c_char_p, [c_void_p]),
    "mt_device_listed": (c_char_p, [c_int]),
    "mt_method_listed": (POINTER(MethodRow), [c_int]),
    "mt_objective_key_listed": (c_bool, [c_int, c_void_p]),
    "mt_objective_key_value": (None, [c_void_p, c_int, c_char_p, c_size_t]),
    "mt_objective_needs": (c_int, [c_void_p]),
    "mt_objective_layer": (POINTER(c_double), [c_void_p, c_int]),
    "mt_objective_state": (POINTER(c_double), [c_void_p, c_void_p]),
    "mt_objective_check_live": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_char_p]),
    "mt_selection_move": (None, [c_void_p, c_void_p]),
    "mt_objective_rule_memory": (c_void_p, [c_void_p, c_int]),
    "mt_selection_drops": (c_bool, [c_void_p]),
    "mt_selection_has_bias": (c_bool, [c_void_p]),
    "mt_status_text": (c_char_p, [c_int]),
    "mt_term_count": (c_int, []),
    "mt_term_info": (POINTER(TermInfo), [c_int]),
    "mt_term_is_on": (c_bool, [c_void_p, c_int]),
    "mt_term_key": (c_char_p, [c_int]),
    "mt_layers_create": (c_int, [c_void_p, c_void_p, c_void_p]),
    "mt_layers_destroy": (None, [c_void_p]),
    "mt_layers_config": (c_void_p, [c_void_p]),
    "mt_layers_objective": (c_void_p, [c_void_p]),
    "mt_layers_route": (c_int, [c_void_p, ctypes.c_uint64, c_void_p]),
    "mt_layers_forward": (c_int, [c_void_p, c_int, c_void_p, c_bool]),
    "mt_layers_numbers": (c_size_t, [c_void_p]),
    "mt_layers_finish": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "mt_layers_read": (c_int, [c_void_p, c_void_p]),
    "mt_layers_coupling": (c_int, [c_void_p, c_int, c_void_p]),
    "mt_layers_backward": (c_int, [c_void_p, c_int, c_void_p]),
    "mt_layers_step": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "mt_layers_chain": (c_int, [c_void_p, c_void_p, c_void_p]),
}


def _candidates() -> Iterator[str]:
    """Where libmetier.so may be, in the order in which it is looked for."""
    named = os.environ.get("METIER_LIBRARY")
    if named:  # and nowhere else
        yield named
        return
    package = Path(__file__).resolve().parent
    folders = [package / "lib"]  # a wheel's own
    if (package.parents[2] / "include" / "metier" / "version.h").is_file():  # a clone: what was built there
        folders += [package.parents[2] / "build" / preset / "lib" for preset in ("release", "cuda")]
    yield from (str(path) for folder in folders for path in folder.glob(f"libmetier.so.{VERSION}"))
    program = shutil.which("metier")
    prefixes = [Path(sys.prefix)] + ([Path(program).resolve().parent.parent] if program else [])
    for prefix in prefixes:
        for folder in ("lib", "lib64"):
            for pattern in (f"libmetier.so.{VERSION}", f"*/libmetier.so.{VERSION}"):
                yield from map(str, sorted((prefix / folder).glob(pattern)))
    yield f"libmetier.so.{VERSION}"  # the system's, as ldconfig and LD_LIBRARY_PATH know it


@functools.cache
def load() -> ctypes.CDLL:
    """The library, its functions typed. Loaded once."""
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise Failure(f"{path} has no {name}: it is of another version than this package") from None
            function.restype, function.argtypes = result, arguments
        if not text(library.mt_version()).startswith(VERSION + "."):
            raise Failure(f"{path} is version {text(library.mt_version())}, this package is for {VERSION}")
        return library
    raise Failure(f"libmetier.so.{VERSION} is not found: `pip install ./bindings/python` builds it and brings it along; or "
                  "say where it is with METIER_LIBRARY. Tried:\n    " + "\n    ".join(tried))


def text(value: bytes | None) -> str:
    return value.decode() if value else ""


def check(context: Context, status: int) -> None:
    """Raises what the library said, if it refused."""
    if status != 0:
        raise Failure(text(context.message) or text(load().mt_status_text(status)))


@dataclass(frozen=True)
class Method:
    """A row of the methods table."""

    name: str
    summary: str
    source: str


@dataclass(frozen=True)
class Setting:
    """A key of the objective, the values it takes, what it means."""

    name: str
    values: str
    meaning: str


def methods() -> list[Method]:
    """The methods the library has."""
    found: list[Method] = []
    while row := load().mt_method_listed(len(found)):
        found.append(Method(text(row.contents.name), text(row.contents.summary), text(row.contents.source)))
    return found


def keys() -> list[Setting]:
    """The keys that change a method, as keyword arguments of objective() and attach()."""
    found: list[Setting] = []
    row = KeyRow()
    while load().mt_objective_key_listed(len(found), byref(row)):
        found.append(Setting(text(row.name), text(row.values), text(row.meaning)))
    return found


def version() -> str:
    """Of the library that is loaded."""
    return text(load().mt_version())
