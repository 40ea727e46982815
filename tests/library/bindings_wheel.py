#!/usr/bin/env python3
"""The wheel of bindings/python in a fresh virtual environment, without the clone: three steps of an attached model.

Usage: bindings_wheel.py LIBRARY
Packs the wheel around LIBRARY, looks at its tag, files and metadata, installs it alone, and trains a tiny random model from
another folder, with nothing of the clone in the environment. PyTorch and transformers are those of the Python that runs
this. Where bubblewrap works, the clone and the system's copies of the libraries that come along are hidden as well. If the
build has no CUDA module, an empty one that asks for CUDA's libraries stands in, to see what of it is packed. Exit status 77: there is no PyTorch, transformers, pip or setuptools >= 70.1.
"""
import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

STEPS = """
import os, sys
import torch, transformers
import metier
from metier import library
assert metier.__file__.startswith(sys.prefix), metier.__file__
torch.manual_seed(1)
config = transformers.MixtralConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=32)
model = transformers.MixtralForCausalLM(config).train()
attached = metier.attach(model, method="paper")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
ids, losses = torch.randint(0, 64, (4, 16)), []
for step in range(3):
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    assert set(attached.last.terms) == {"aux", "o", "v"} and not attached.last.dead, attached.last.terms
metier.detach(model)
assert losses[2] < losses[1] < losses[0], losses
maps = open("/proc/self/maps").read()
loaded = {line.split()[-1] for line in maps.splitlines() if "/" in line}
for name in sys.argv[1:]:
    assert os.path.join(sys.prefix, "lib", "python%d.%d" % sys.version_info[:2], "site-packages", "metier", "lib", name) in loaded, name
try:
    os.environ["METIER_LIBRARY"] = "/nowhere/libmetier.so"
    library.load.cache_clear()
    library.load()
    raise AssertionError("a library that is not there was loaded")
except metier.Failure as failure:
    assert "install metier" not in str(failure), failure
print("losses", *("%.4f" % loss for loss in losses))
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}"
    return done.stdout


def check_tools():
    for name, least in (("torch", (2, 0)), ("transformers", (5, 15)), ("pip", (22, 3)), ("setuptools", (70, 1))):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            skip(f"this needs a Python (PYTHON=...) that has {name}")
        if tuple(int(part) for part in re.findall(r"[0-9]+", found)[:2]) < least:
            skip(f"this needs {name} {least[0]}.{least[1]} or later; {sys.executable} has {found}")
    return importlib.metadata.version("torch")


def staged(library, place):
    """A copy of the library with a CUDA module beside it, its own or one that stands in; without a compiler, none."""
    library = os.path.realpath(library)
    module = os.path.join(os.path.dirname(library), "metier", "metier_cuda.so")
    folder = os.path.join(place, "built")
    os.makedirs(os.path.join(folder, "metier"))
    copied = shutil.copy(library, folder)
    target = os.path.join(folder, "metier", "metier_cuda.so")
    if os.path.isfile(module):
        shutil.copy(module, target)
    elif shutil.which("cc"):
        cublas = os.path.join(place, "libcublas.so.13")
        with open(os.path.join(place, "empty.c"), "w", encoding="utf-8") as file:
            file.write("int cublas(void); int uses(void) { return cublas(); }")
        with open(os.path.join(place, "cublas.c"), "w", encoding="utf-8") as file:
            file.write("int cublas(void); int cublas(void) { return 0; }")
        run("cc", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.13", "-o", cublas, os.path.join(place, "cublas.c"))
        run("cc", "-shared", "-fPIC", "-o", target, os.path.join(place, "empty.c"), cublas)
        os.remove(cublas)  # as on a machine that builds and has no GPU
    return copied


def make_wheel(library, place):
    """From a copy of the sources, which stay as they are."""
    source = os.path.join(place, "source")
    shutil.copytree(os.path.join(ROOT, "bindings", "python"), source,
                    ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", place, source,
        env={**os.environ, "METIER_LIBRARY": library})
    found = [name for name in os.listdir(place) if name.endswith(".whl")]
    assert len(found) == 1, found
    return os.path.join(place, found[0])


def glibc_of(file):
    return [int(minor) for minor in re.findall(r"\bGLIBC_2\.([0-9]+)", run("readelf", "--version-info", "--wide", file))]


def check_wheel(wheel, place, library):
    """Its tag is the newest glibc any file asks for; nothing outside glibc is missing but CUDA's; metadata is there.
    Returns the libraries that came along."""
    unpacked = os.path.join(place, "unpacked")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(unpacked)
    folder = os.path.join(unpacked, "metier", "lib")
    files = [os.path.join(at, name) for at, _, some in os.walk(folder) for name in some if ".so" in name]
    newest = max(minor for file in files for minor in glibc_of(file))
    tag = f"py3-none-manylinux_2_{newest}_{os.uname().machine}.whl"
    assert wheel.endswith(tag), (wheel, tag)
    beside = {os.path.basename(file) for file in files}
    assert "libmetier.so.0.2" in beside, beside
    for file in files:
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", "--wide", file)):
            usual = re.match(r"(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)", name)
            cuda = file.endswith("metier_cuda.so") and re.match(r"lib(cublas|cublasLt|cuda)\.so", name)
            assert usual or cuda or name in beside, f"{file} needs {name}, which is not in the wheel"
    assert not any(re.search("libcu(blas|da)", name) for name in names), "CUDA's own libraries are in the wheel"
    module = os.path.join(os.path.dirname(library), "metier", "metier_cuda.so")
    assert os.path.isfile(module) == ("metier_cuda.so" in beside), beside
    with open(os.path.join(unpacked, next(name for name in names if name.endswith("dist-info/METADATA"))), encoding="utf-8") as file:
        metadata = file.read()
    for line in ("Name: metier", "Summary: ", "Requires-Python: ", "Description-Content-Type: text/markdown", "Classifier: "):
        assert line in metadata, metadata
    return sorted(beside - {"libmetier.so.0.2", "metier_cuda.so"})


def fresh_environment(wheel, place):
    """Nothing in it but the wheel, and behind it the packages of this Python."""
    folder = os.path.join(place, "fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = os.path.join(folder, "bin", "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    with open(os.path.join(own, "behind.pth"), "w", encoding="utf-8") as file:
        file.write("\n".join(packages) + "\n")
    return python


def hidden(libraries):
    """A command that runs another one where the clone and this system's copies of the libraries are not; []: there is none."""
    paths = dict(re.findall(r"^\s*(\S+) .*=> (/\S+)", run("/sbin/ldconfig", "-p"), re.MULTILINE))
    command = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", ROOT]
    for name in libraries:
        if name in paths and name != "libz.so.1":  # which Python itself may load
            command += ["--ro-bind", "/dev/null", os.path.realpath(paths[name])]
    works = shutil.which("bwrap") and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    return command if works else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    arguments = parser.parse_args()
    version = check_tools()
    with tempfile.TemporaryDirectory() as place:
        library = staged(arguments.library, place)
        wheel = make_wheel(library, place)
        libraries = check_wheel(wheel, place, library)
        python = fresh_environment(wheel, place)
        # Python and PyTorch have a libz and a libgomp of their own, which may have come first.
        ours = ["libmetier.so.0.2", *(name for name in libraries if name not in ("libz.so.1", "libgomp.so.1"))]
        around = hidden(libraries)
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("METIER", "PYTHON", "LD_")) and name != "PATH"}
        said = run(*around, python, "-W", "ignore", "-c", STEPS, *ours, cwd=place, env={**clean, "PATH": "/usr/bin:/bin"})
        print(f"{os.path.basename(wheel)}, {os.path.getsize(wheel) / 1e6:.1f} MB, with {' '.join(libraries)}")
        print(f"three attached steps with PyTorch {version}, {'clone and system libraries hidden' if around else 'clone not hidden: no bubblewrap'}: "
              f"{said.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
