"""Compares our safetensors reader and writer with the reference library.

Usage: safetensors_parity.py PATH/TO/safetensors_tool [SEED]
Needs the Python packages safetensors and numpy. Exit status 77 when they are missing.

1. Files written by the library, of every type and of random shapes, are read here and written again; the
   library reads the result, byte for byte the same tensors and metadata. So each side reads the other.
2. The same through a sharded checkpoint, for several shard sizes; the library reads every shard.
3. Files with one byte of the header changed: whatever is accepted here, the library accepts too.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors
    from safetensors import safe_open
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

# name in the file, name in the library's own interface, bytes
TYPES = [
    ("F64", "float64", 8), ("F32", "float32", 4), ("F16", "float16", 2), ("BF16", "bfloat16", 2),
    ("I64", "int64", 8), ("I32", "int32", 4), ("I16", "int16", 2), ("I8", "int8", 1), ("U8", "uint8", 1),
    ("BOOL", "bool", 1),
]


def random_tensors(rng, count):
    tensors = {}
    for i in range(count):
        kind, library_kind, size = TYPES[i % len(TYPES)]
        shape = [rng.choice([0, 1, 2, 3, 5, 17]) for _ in range(rng.randrange(0, 6))]
        elements = 1
        for dim in shape:
            elements *= dim
        data = bytes(rng.randrange(2) if kind == "BOOL" else rng.randrange(256) for _ in range(elements * size))
        name = f"layer.{i}.{kind}" + rng.choice(["", ".ä", ' "quoted"', "\\back", ".专家"])
        tensors[name] = {"kind": kind, "library_kind": library_kind, "shape": shape, "data": data}
    return tensors


def library_write(tensors, metadata, path):
    keep = {name: numpy.frombuffer(t["data"], dtype=numpy.uint8).copy() for name, t in tensors.items()}
    flat = {}
    for name, t in tensors.items():
        if hasattr(safetensors, "TensorSpec"):  # 0.8 and later take addresses
            flat[name] = safetensors.TensorSpec(dtype=t["library_kind"], shape=t["shape"],
                                                data_ptr=keep[name].ctypes.data, data_len=len(t["data"]))
        else:
            flat[name] = {"dtype": t["library_kind"], "shape": t["shape"], "data": t["data"]}
    path.write_bytes(bytes(safetensors.serialize(flat, metadata=metadata)))


def library_read(path):
    return {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in safetensors.deserialize(path.read_bytes())}


def same(tensors, found):
    wanted = {name: (t["kind"], t["shape"], t["data"]) for name, t in tensors.items()}
    return wanted == found


def run(*arguments):
    subprocess.run([str(a) for a in arguments], check=True)


def compare_files(tool, rng, folder):
    for turn in range(40):
        tensors = random_tensors(rng, rng.choice([0, 1, 10, 30]))
        metadata = {"format": "pt", "note": "line\nbreak"} if turn % 2 else {"format": "np"}
        theirs, ours = folder / "theirs.safetensors", folder / "ours.safetensors"
        library_write(tensors, metadata, theirs)
        run(tool, "copy", theirs, ours)
        assert same(tensors, library_read(ours)), "a file written here differs for the library"
        with safe_open(str(ours), framework="np") as opened:
            assert opened.metadata() == metadata
            assert set(opened.keys()) == set(tensors)
            for name, t in tensors.items():
                if t["kind"] == "BF16":
                    continue  # numpy has no such type
                assert opened.get_tensor(name).tobytes() == t["data"]
        header = int.from_bytes(ours.read_bytes()[:8], "little")
        assert header % 8 == 0, "the data must begin at a multiple of 8"
    print("files: 40 round trips, every type, identical")


def compare_shards(tool, rng, folder):
    for limit in (1, 100, 1000, 5000, 10**9):
        tensors = random_tensors(rng, 30)
        whole, joined = folder / "whole.safetensors", folder / "joined.safetensors"
        library_write(tensors, {"format": "pt"}, whole)
        with tempfile.TemporaryDirectory() as place:
            shards = pathlib.Path(place)
            run(tool, "shard", whole, shards, limit)
            index = shards / "model.safetensors.index.json"
            if index.exists():
                content = json.loads(index.read_text())
                assert content["metadata"]["total_size"] == sum(len(t["data"]) for t in tensors.values())
                found = {}
                for name, shard in content["weight_map"].items():
                    found[name] = library_read(shards / shard)[name]
            else:
                found = library_read(shards / "model.safetensors")
            assert same(tensors, found)
            run(tool, "join", shards, joined)
            assert same(tensors, library_read(joined))
    print("shards: 5 sizes, identical, and joined again")


def compare_refusals(tool, rng, folder):
    tensors = random_tensors(rng, 6)
    path = folder / "base.safetensors"
    library_write(tensors, {"format": "pt"}, path)
    base = path.read_bytes()
    header = 8 + int.from_bytes(base[:8], "little")
    files = []
    for i in range(3000):
        changed = bytearray(base)
        changed[rng.randrange(header)] = rng.choice([rng.randrange(256), ord(rng.choice('0123456789[]{},:" '))])
        file = folder / f"changed-{i}"
        file.write_bytes(changed)
        files.append(file)
    accepted = refused = stricter = 0
    for start in range(0, len(files), 500):
        part = files[start:start + 500]
        lines = subprocess.run([str(tool), "check", *map(str, part)], check=True, capture_output=True).stdout
        for file, line in zip(part, lines.decode(errors="replace").splitlines(), strict=True):
            try:
                safetensors.deserialize(file.read_bytes())
                theirs = True
            except Exception:
                theirs = False
            ours = line.startswith("ok ")
            assert theirs or not ours, f"accepted here, refused by the library: {file.read_bytes()[:header]!r}"
            accepted += ours
            refused += not ours
            stricter += theirs and not ours
    print(f"changed headers: {accepted} accepted by both, {refused} refused here, {stricter} of them accepted there")


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(f"safetensors {safetensors.__version__}, numpy {numpy.__version__}")
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        compare_files(tool, rng, folder)
        compare_shards(tool, rng, folder)
        compare_refusals(tool, rng, folder)
    print("parity holds")


main()
