"""Which library the calls of a file go to, as the dynamic linker says with LD_DEBUG=bindings."""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from framework_elf import ALL_REDUCE

SECONDS = 300
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(nccl\w+)'")
# What the doors are called in results, and how each is opened in a process's environment.
PRELOAD, SONAME, LIBRARY_PATH = "LD_PRELOAD", "LD_PRELOAD of libnccl.so.2", "LD_LIBRARY_PATH"
PLUGIN = "NCCL_NET_PLUGIN"

# Opens `first`, if there is one, and then a library; prints the files that its functions lie in.
OPEN = """
import ctypes, sys
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]
dladdr = ctypes.CDLL(None).dladdr
dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
first, name, *functions = sys.argv[1:]
kept = [ctypes.CDLL(first)] if first else []
library, info = ctypes.CDLL(name), Info()
for function in functions:
    address = ctypes.cast(getattr(library, function, None), ctypes.c_void_p)
    if address and dladdr(address, ctypes.byref(info)):
        print(info.file.decode())
"""
# Opens `first`, and then a file whose own ncclAllReduce lies at an address: calls that with no
# communicator, which NCCL refuses. labs() is looked up just before, as a mark in the linker's log.
MARK = "normal symbol `labs'"
CALL = """
import ctypes, sys
first, name, address = sys.argv[1:]
kept = [ctypes.CDLL(first)] if first else []
library = ctypes.CDLL(name)
with open("/proc/self/maps") as maps:
    base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(name))
words = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
         ctypes.c_void_p, ctypes.c_void_p]
call = ctypes.CFUNCTYPE(ctypes.c_int, *words)(base + int(address))
ctypes.CDLL(None).labs
sys.exit(0 if call(None, None, 0, 7, 0, None, None) == 4 else 1)
"""


@dataclasses.dataclass
class Target:
    """What is tried: a file, beside the NCCL of a wheel."""
    path: pathlib.Path
    nccl: pathlib.Path
    opens_first: bool  # The NCCL of a wheel, by its path, before anything else.
    environment: dict  # Of a door.


def doors(shims):
    """The environment that opens each of the doors; `shims`: lib/ of a build."""
    return {"none": {}, PRELOAD: {"LD_PRELOAD": str(shims / "libringpress-preload.so")},
            SONAME: {"LD_PRELOAD": str(shims / "preload" / "libnccl.so.2")},
            LIBRARY_PATH: {"LD_LIBRARY_PATH": str(shims / "preload")}}


def parse(text, functions):
    """The library that each of the functions was bound to at first, by name."""
    bound = {}
    for match in BINDING.finditer(text):
        if match.group(3) in functions:
            bound.setdefault(match.group(3), match.group(2))
    return bound


def name_of(libraries, target):
    """Whose library it is that all calls go to."""
    if len(libraries) != 1:
        return "nothing" if not libraries else "several"
    path = os.path.realpath(libraries.pop())
    if path == os.path.realpath(target.nccl):
        return "NCCL"
    ours = [os.path.realpath(word) for word in target.environment.values()]
    return "ringpress" if path in ours or os.path.dirname(path) in ours else path


def linked(target, functions):
    """Where the linker binds a file's undefined functions. Nothing of the file is executed, so
    that other libraries it needs may be missing."""
    preloads = [target.environment.get("LD_PRELOAD")] + [str(target.nccl)] * target.opens_first
    environment = {**target.environment, "LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes",
                   "LD_BIND_NOW": "yes", "LD_DEBUG": "bindings",
                   "LD_PRELOAD": ":".join(filter(None, preloads))}
    done = subprocess.run([linker(), str(target.path)], env=environment, capture_output=True,
                          text=True, errors="replace", check=False, timeout=SECONDS)
    lines = [line for line in done.stderr.splitlines() if f"binding file {target.path} " in line]
    bound = parse("\n".join(lines), functions)
    missing = set(functions) - set(bound)
    return name_of(set(bound.values()), target) if not missing else f"not bound: {sorted(missing)}"


def linker():
    """The dynamic linker of this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = re.search(r"(/\S*/ld-linux\S*)", maps.read())
    return found.group(1)


def run(program, words, target, environment):
    """What Python prints that runs a program."""
    first = str(target.nccl) if target.opens_first else ""
    environment = {**target.environment, **environment, "RINGPRESS_REAL_NCCL": str(target.nccl)}
    done = subprocess.run([sys.executable, "-S", "-B", "-c", program, first, *words],
                          env=environment, capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"status {done.returncode} of {words[0]}: {done.stderr[-500:]}")
    return done.stdout


def opened(target, name, functions):
    """Where the functions come from that a program gets which opens NCCL."""
    return name_of(set(run(OPEN, [name, *functions], target, {}).split()), target)


def called(target, address):
    """Where a call goes that a file passes on to the NCCL which it opens."""
    with tempfile.TemporaryDirectory() as folder:
        run(CALL, [str(target.path), str(address)], target,
            {"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": f"{folder}/log"})
        log = "".join(path.read_text(errors="replace") for path in pathlib.Path(folder).iterdir())
    bound = parse(log[log.rindex(MARK):], [ALL_REDUCE])
    return name_of(set(bound.values()), target)
