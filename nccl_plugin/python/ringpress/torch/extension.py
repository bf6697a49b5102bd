"""Compiles the back end's C++ part, once for each version of torch, and loads it."""
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from types import ModuleType
from typing import Iterator, List

import torch

from .. import library
from ..errors import RingpressError

NAME = "ringpress_backend"
FOLDER = pathlib.Path(__file__).resolve().parent
SOURCES = ("backend.cpp", "group.cpp")
FILES = (*SOURCES, "call_work.h", "channel.h", "group.h", "meeting.h", "nccl_functions.h", "tensor_lists.h", "worker.h")


class BuildError(RingpressError):
    """The compiler failed, or is not there. The message has its command and what it said."""


def _compiler() -> str:
    named = os.environ.get("CXX", "g++")
    if shutil.which(shlex.split(named)[0]) is None:
        raise BuildError(f"The back end ringpress is compiled for torch {torch.__version__} at its first use, but there "
                         f"is no {named}. Install it (Debian: apt-get install g++), or set CXX.")
    return named


def _standard() -> str:
    """Headers of torch need so much C++."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return "c++20" if (major, minor) >= (2, 10) else "c++17"


def _flags() -> List[str]:
    root = pathlib.Path(torch.__file__).resolve().parent
    includes = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include",
                pathlib.Path(sysconfig.get_path("include")), library.include_folder()]
    flags = ["-O2", "-fPIC", f"-std={_standard()}", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={NAME}",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    # Types of pybind11 are shared only by modules that agree on these.
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value is not None:
            flags.append(f'-DPYBIND11_{name}="{value}"')
    return flags + [f"-isystem{folder}" for folder in includes]


def _link_flags() -> List[str]:
    folder = pathlib.Path(torch.__file__).resolve().parent / "lib"
    return ["-shared", f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltorch_python", "-ltorch_cpu", "-lc10", "-ldl"]


def cache_folder() -> pathlib.Path:
    """Where compiled back ends are kept: TORCH_EXTENSIONS_DIR, else torch_extensions in XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(named) if named else caches / "torch_extensions"


def module_file() -> pathlib.Path:
    """The compiled module of this torch, this Python and these sources, whether it is there or not."""
    digest = hashlib.sha256()
    for file in FILES:
        digest.update((FOLDER / file).read_bytes())
    for text in (torch.__version__, sys.version, *_flags()):
        digest.update(text.encode())
    return cache_folder() / f"ringpress-{digest.hexdigest()[:16]}" / f"{NAME}.so"


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """The ranks of a host compile once."""
    with open(folder / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_all(commands: List[List[str]]) -> None:
    """At the same time."""
    running = [(command, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
               for command in commands]
    for command, process in running:
        output = process.communicate()[0]
        if process.returncode != 0:
            raise BuildError(f"The back end ringpress could not be compiled for torch {torch.__version__}. Debian's torch "
                             "needs the packages libtorch-dev, pybind11-dev and python3-dev; a wheel's torch needs g++ and "
                             f"Python's headers.\n{shlex.join(command)}\n{output[-4000:]}")


def _compile(target: pathlib.Path) -> None:
    compiler = shlex.split(_compiler())
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        objects = [f"{folder}/{pathlib.Path(source).stem}.o" for source in SOURCES]
        _run_all([[*compiler, *_flags(), "-c", str(FOLDER / source), "-o", made]
                  for source, made in zip(SOURCES, objects)])
        linked = f"{folder}/{NAME}.so"
        _run_all([[*compiler, *objects, *_link_flags(), "-o", linked]])
        os.replace(linked, target)


def build() -> pathlib.Path:
    """Compiles the back end if that has not been done, which takes about a minute. Returns the module's file.

    Raises BuildError. A job may call it once before its ranks start.
    """
    target = module_file()
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent):
            if not target.is_file():
                _compile(target)
    return target


def load() -> ModuleType:
    """The compiled module. The library itself is opened when a process group is made."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    file = str(build())
    loader = importlib.machinery.ExtensionFileLoader(NAME, file)
    spec = importlib.util.spec_from_file_location(NAME, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NAME] = module
    return module
