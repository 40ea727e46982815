#!/usr/bin/env python3
"""bindings/python without PyTorch: libmetier.so is found and loaded, its structs are as C has them, its lists are those
the program prints, and a step on plain arrays is right. Usage: bindings.py LIBRARY STRUCT_SIZES PROGRAM
"""
import ctypes
import math
import os
import re
import subprocess
import sys

LIBRARY, SIZES, PROGRAM = sys.argv[1:4]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))
sys.dont_write_bytecode = True
os.environ["METIER_LIBRARY"] = LIBRARY

import metier
from metier import library

STRUCTS = {"mt_context": library.Context, "mt_device_place": library.Place, "mt_router_config": library.Router,
           "mt_objective_shape": library.Shape, "mt_layers_options": library.LayersOptions,
           "mt_layer_arrays": library.LayerArrays, "mt_layer_chain": library.LayerChain,
           "mt_objective_step": library.Step, "mt_layer_paths": library.LayerPaths,
           "mt_term_info": library.TermInfo, "mt_method": library.MethodRow, "mt_objective_key": library.KeyRow}


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_structs():
    for line in said(SIZES).splitlines():
        struct, field, number = line.split()
        ours = STRUCTS[struct]
        if field == "-":
            room = getattr(ours, "room", None)
            found = ctypes.sizeof(ours) if room is None else -(-room.offset // 8) * 8  # C pads to its pointers
        else:
            found = getattr(ours, field).offset
        assert found == int(number), f"{struct}.{field}: {found} here, {number} in C"


def check_lists():
    names = [method.name for method in metier.methods()]
    printed = re.findall(r"^([a-z][a-z-]*) ", said(PROGRAM, "objective", "--methods"), re.MULTILINE)
    assert names == [name for name in printed if name != "method"], (names, printed)
    assert {"alpha", "beta", "form"} <= {key.name for key in metier.keys()}
    assert all(key.values and key.meaning for key in metier.keys())
    assert metier.version() == said(PROGRAM, "--version").split()[1]


def check_step():
    """Equal logits: every expert has the score 1/n, the balance loss is 1, the z-loss is (ln n)²."""
    lib, tokens, experts, slots = library.load(), 6, 4, 2
    context, device, layers, total = library.Context(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    lib.mt_context_init(ctypes.byref(context), None)

    def check(status):
        library.check(context, status)

    check(lib.mt_device_create(ctypes.byref(context), b"cpu", 1, ctypes.byref(device)))
    shape = library.Shape(layers=1, tokens=tokens, experts=experts, slots=slots, segments=1,
                          router=library.Router(slots=slots))
    settings = (ctypes.c_char_p * 5)(b"alpha", b"0.5", b"zeta", b"0.25", None)
    options = library.LayersOptions(method=b"none", settings=settings, shape=shape)
    check(lib.mt_layers_create(device, ctypes.byref(options), ctypes.byref(layers)))
    room = {name: (ctypes.c_float * (tokens * experts))() for name in ("logits", "probs", "weight")}
    room["chosen"] = (ctypes.c_int32 * (tokens * slots))()
    arrays = library.LayerArrays(tokens=tokens, segments=1)
    for name, array in room.items():
        setattr(arrays, name, ctypes.addressof(array))
    arrays.greedy = arrays.expert = arrays.chosen
    check(lib.mt_layers_route(layers, 0, ctypes.byref(arrays)))
    check(lib.mt_layers_forward(layers, 0, ctypes.byref(arrays), True))
    step, waited = library.Step(progress=1.0, loss_scale=1.0), ctypes.c_bool()
    check(lib.mt_layers_finish(layers, ctypes.byref(step), ctypes.byref(total), ctypes.byref(waited)))
    assert abs(total.value - (0.5 + 0.25 * math.log(experts) ** 2)) < 1e-6, total.value
    try:
        check(lib.mt_layers_create(device, ctypes.byref(library.LayersOptions(method=b"papper", shape=shape)),
                                   ctypes.byref(ctypes.c_void_p())))
        raise AssertionError("a method that is not there was taken")
    except metier.Failure as failure:
        assert "paper" in str(failure), failure
    lib.mt_layers_destroy(layers)
    lib.mt_device_destroy(device)
    assert context.live_bytes == 0


def check_finding():
    """Where it is not, the error says so, and how to say where it is."""
    done = subprocess.run([sys.executable, "-B", "-c", "import metier; metier.version()"], capture_output=True, text=True,
                          check=False, env={**os.environ, "METIER_LIBRARY": "/nowhere/libmetier.so",
                                            "PYTHONPATH": os.path.join(ROOT, "bindings", "python")})
    assert done.returncode != 0 and "METIER_LIBRARY" in done.stderr and "/nowhere" in done.stderr, done.stderr


if __name__ == "__main__":
    for check_part in (check_structs, check_lists, check_step, check_finding):
        check_part()
    print(f"libmetier {metier.version()}: {len(metier.methods())} methods, {len(metier.keys())} keys")
