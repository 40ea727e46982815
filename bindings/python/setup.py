"""Packs libmetier.so into the wheel: with the libraries it loads and, where it was built, the CUDA module.

What is packed, in this order: the library METIER_LIBRARY names; what the clone around this folder has built in build/cuda,
or else in build/release, brought up to date first where there is a cmake. The wheel runs on every Linux of the same
processor whose glibc is no older than the newest symbol that any of its files asks for, and is tagged so. glibc itself,
the compiler's runtime and CUDA's libraries stay out: systems have the first two, PyTorch brings the last.
"""
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, such as Debian 12's, has it in the package wheel
    from wheel.bdist_wheel import bdist_wheel

VERSION = "0.2"  # major and minor, as in metier/library.py
CLONE = Path(__file__).resolve().parents[2]
# Libraries that every Linux with glibc has (those of the manylinux rules that matter here), and CUDA's.
OUTSIDE = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|nvrtc))\.so(\.[0-9]+)*")


def said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def built_here():
    """The library of the clone; None: there is none."""
    cuda = CLONE / "build" / "cuda" / "lib" / "metier" / "metier_cuda.so"
    preset, targets = ("cuda", ["metier_shared", "metier_cuda"]) if cuda.is_file() else ("release", ["metier_shared"])
    script = CLONE / "scripts" / "build"
    if script.is_file() and shutil.which("cmake"):
        subprocess.run([script, preset, *targets], check=True)
    found = CLONE / "build" / preset / "lib" / f"libmetier.so.{VERSION}"
    return found if found.is_file() else None


def library():
    named = os.environ.get("METIER_LIBRARY")
    found = Path(named) if named else built_here()
    if found is None:
        raise SetupError("libmetier.so is not there and cannot be built here: this folder is not in a clone of metier, or "
                         "cmake is missing (scripts/packages lists what a build needs). METIER_LIBRARY names one that exists")
    if not found.is_file():
        raise SetupError(f"METIER_LIBRARY names {found}, which is not there")
    return found.resolve()


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said("readelf", "--dynamic", "--wide", file))


def paths_of(file):
    """Where this system has the libraries a file loads: {"libz.so.1": "/lib/libz.so.1"}."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", said("ldd", file), re.MULTILINE))


def gather(files):
    """{name: path} of the libraries these load, and those load in turn, but for the ones that stay outside."""
    found, left = {}, list(files)
    while left:
        file = left.pop()
        places = paths_of(file)
        for name in needed(file):
            if OUTSIDE.fullmatch(name) or name in found:
                continue
            if name not in places:
                raise SetupError(f"{file} needs {name}, which this system does not have")
            found[name] = places[name]
            left.append(places[name])
    return found


def copy_licence(path, target):
    """What Debian says of a library's licence; elsewhere whoever packs adds it."""
    for name in (path, os.path.realpath(path), "/usr" + os.path.realpath(path)):
        done = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True) if shutil.which("dpkg") else None
        if done is not None and done.returncode == 0:
            package = done.stdout.split(":")[0]
            target.mkdir(exist_ok=True)
            shutil.copyfile(f"/usr/share/doc/{package}/copyright", target / f"{package}.txt")
            return
    print(f"warning: no licence text is known for {path}")


class Build(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            self.pack(Path(self.build_lib) / "metier" / "lib")

    def pack(self, target):
        source = library()
        version = self.distribution.get_version()
        if not source.name.endswith(".so." + version):
            raise SetupError(f"{source} is not libmetier.so.{version}: this package is of another version")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        packed = [target / f"libmetier.so.{VERSION}"]
        shutil.copyfile(source, packed[0])
        module = source.parent / "metier" / "metier_cuda.so"
        if module.is_file():
            packed.append(target / "metier" / module.name)  # where src/ops/module.c looks
            packed[1].parent.mkdir()
            shutil.copyfile(module, packed[1])
        libraries = gather([source])
        lone = set(gather([module])) - set(libraries) if module.is_file() else set()
        if lone:  # it is loaded into a process that has libmetier.so's already, and looks for no others beside itself
            raise SetupError(f"{module} needs {', '.join(sorted(lone))}, which {source.name} does not load")
        for name, path in libraries.items():
            packed.append(target / name)
            shutil.copyfile(path, packed[-1])
            copy_licence(path, target / "licenses")
        if "$ORIGIN" not in said("readelf", "--dynamic", "--wide", packed[0]):
            raise SetupError(f"{source} looks for its libraries elsewhere than beside itself: take the one of a build folder, "
                             "not one that is installed")

    def get_outputs(self, include_bytecode=True):
        packed = [path for path in (Path(self.build_lib) / "metier" / "lib").rglob("*") if path.is_file()]
        return super().get_outputs(include_bytecode) + [str(path) for path in packed]


class Wheel(bdist_wheel):
    def get_tag(self):
        packed = (Path(self.bdist_dir) / "metier" / "lib").rglob("*.so*")
        versions = [int(minor) for file in packed
                    for minor in re.findall(r"\bGLIBC_2\.([0-9]+)", said("readelf", "--version-info", "--wide", file))]
        system = f"manylinux_2_{max(versions)}" if versions else "linux"
        return "py3", "none", f"{system}_{platform.machine()}"


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
