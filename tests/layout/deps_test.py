#!/usr/bin/env python3
"""Fails on an include that the layout forbids.

Rules:
  1. include/ringpress includes no other folder, nor any CUDA, NCCL or verbs header.
  2. compress_kernels, ring and tuner include themselves and include/ringpress only.
  3. nccl_plugin includes itself, include/ringpress and the factory.h of those three.
  4. A folder that has a factory.h is closed: code outside it includes its factory.h only.
  5. tests and perf may include anything; nothing else includes them.
  6. all_reduce_perf is a client of the NCCL API: of the library it includes nothing but the C API, and
     what all programs at a terminal share.
  7. Headers of devices (CUDA, verbs) are included by .cc, .cu and .cuh files only; .cuh files are in
     compress_kernels, ring/transport and tests/examples only.
  8. The top level holds nothing but what design names.
  9. The list of transports alone knows which there are, and links are those of TCP: transports.cc and
     link.cc.
 10. In nccl_plugin the doors stand on the session, which includes none of them, and no door includes
     another, but for those that ROOMS names. No file lies there beside the folders.
 11. What a file must not include it does not name either: no namespace of a higher or a sibling folder in
     include/ringpress, compress_kernels, ring and tuner.

`deps_test.py ROOT` checks a tree; `deps_test.py --self-test` proves on small trees that each rule
finds its offence.
"""
import pathlib
import re
import sys
import tempfile

import tree

NAMESPACE = re.compile(r"\b(?:namespace\s+(?:ringpress::)?(nccl_plugin|ring|tuner|compress_kernels)\b|(nccl_plugin|ring|tuner|compress_kernels)::)")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
DEVICE_HEADER = re.compile(r"^(cuda|cublas|curand|cub/|nccl\.h|nccl_|infiniband/|rdma/)")
LIBRARIES = ("compress_kernels", "ring", "tuner")
# With what is in headers alone.
C_API = {"include/ringpress/nccl.h", "include/ringpress/nccl_types.h", "include/ringpress/ringpress.h",
         "include/ringpress/version.h",
         "include/ringpress/internal/byte_size.h"}
TERMINAL = ("nccl_plugin", "command", "terminal")
# Folders of nccl_plugin, and which others of them each may include.
ROOMS = {
    "errors": set(),
    "abi": set(),
    "session": {"errors"},
    "gossip": {"errors"},
    "preload": set(),
    "host": {"errors", "session", "gossip"},
    "plugin": {"errors", "session", "abi"},
    "interposer": {"errors", "session", "gossip", "preload"},
    "command": {"errors", "session", "plugin"},
    "python": set(),
}
TRANSPORT_USERS = ("ring/transports.cc", "ring/link.cc")
TOP_LEVEL = set(tree.FOLDERS) | {"CMakeLists.txt", "README.md", "LICENSE"}


def includes(path):
    """(line number, quoted?, name) of every include of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def resolve(root, source, name):
    """The path in the tree that an include names, or None for a header from elsewhere."""
    for base in (root / source.parent, root / "include", root):
        candidate = base / name
        if candidate.is_file():
            relative = candidate.resolve().relative_to(root.resolve())
            return relative if relative.parts[0] in tree.FOLDERS else None
    return None


def closed_folder(root, source, target):
    """The outermost folder with a factory.h that holds `target` but not `source`, or None."""
    for folder in reversed(target.parents):
        if folder == pathlib.Path("."):
            continue
        if (root / folder / "factory.h").is_file() and folder not in source.parents:
            return folder
    return None


def room_offence(source, target):
    """Why a file of nccl_plugin must not include another of it, or None."""
    here, there = source.parts[1], target.parts[1]
    if here != there and there not in ROOMS.get(here, ()):
        return f"nccl_plugin/{here}/ does not include nccl_plugin/{there}/"
    return None


def edge_offence(root, source, target):
    """Why `source` must not include `target`, or None."""
    here, there = source.parts[0], target.parts[0]
    if here in ("tests", "perf"):
        client = source.parts[:2] == ("perf", "all_reduce")
        own = target.parts[:2] == ("perf", "all_reduce") or target.parts[:3] == TERMINAL
        if client and not own and str(target) not in C_API:
            return "all_reduce_perf is a client of the C API alone"
        return None
    if there in ("tests", "perf"):
        return f"nothing includes {there}/"
    if here == "include" and there != "include":
        return "include/ringpress includes no other folder"
    if here in LIBRARIES and there not in (here, "include"):
        return f"{here}/ may include itself and include/ringpress only"
    if here == there == "nccl_plugin":
        return room_offence(source, target)
    if target.name == "factory.h" and target.parts[:2] == ("ring", "transport") and \
            str(source) not in TRANSPORT_USERS and source.parent != target.parent:
        return "transports are named in ring/transports.cc alone"
    folder = closed_folder(root, source, target)
    if folder is not None and target != folder / "factory.h":
        return f"outside {folder}/ only its factory.h is included"
    return None


def device_offence(source, name):
    """Why `source` must not include the device header `name`, or None."""
    if not DEVICE_HEADER.match(name) or source.parts[0] in ("tests", "perf"):
        return None
    if source.parts[0] == "include":
        return "include/ringpress includes no CUDA, NCCL or verbs header"
    if source.suffix not in (".cc", ".cu", ".cuh"):
        return "device headers are included by .cc, .cu and .cuh files only"
    return None


def namespace_offences(root, source):
    """(line number, namespace) of the other folders that a file of a lower layer names."""
    if source.parts[0] not in ("include", *LIBRARIES):
        return
    for number, line in enumerate((root / source).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        for match in NAMESPACE.finditer(line.split("//")[0]):
            name = match.group(1) or match.group(2)
            if name != source.parts[0]:
                yield number, name


def offences(root):
    """All offences of a tree, as printable lines."""
    found = []
    for source in tree.files(root, tree.CODE_SUFFIXES):
        if source.suffix == ".cuh" and source.parts[0] != "compress_kernels" and \
                source.parts[:2] not in (("ring", "transport"), ("tests", "examples")):
            found.append(f"{source}: .cuh files are in compress_kernels, ring/transport and "
                         "tests/examples only")
        if source.parts[0] == "nccl_plugin" and source.parts[1] not in ROOMS:
            found.append(f"{source}: not in a folder of nccl_plugin")
        for line, quoted, name in includes(root / source):
            target = resolve(root, source, name) if quoted else None
            reason = edge_offence(root, source, target) if target else device_offence(source, name)
            if reason:
                found.append(f"{source}:{line}: #include {name}: {reason}")
        found += [f"{source}:{line}: names the namespace {name} of another folder"
                  for line, name in namespace_offences(root, source)]
    for entry in sorted(root.iterdir()):
        if entry.name in TOP_LEVEL or entry.name.startswith((".", "build")):
            continue
        if entry.name == "compile_commands.json":
            continue
        found.append(f"{entry.name}: not a part of the top level")
    return found


def make_tree(root, files):
    for folder in tree.FOLDERS:
        (root / folder).mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


BASE = {
    "include/ringpress/internal/codec.h": "#include <vector>\n",
    "include/ringpress/nccl.h": "",
    "compress_kernels/factory.h": '#include "ringpress/internal/codec.h"\n',
    "compress_kernels/registry.h": "",
    "ring/factory.h": '#include "ringpress/internal/codec.h"\n',
    "ring/transport/tcp/factory.h": "",
    "ring/transport/tcp/socket.h": '#include "ring/transport/tcp/factory.h"\n',
    "ring/transports.cc": '#include "ring/transport/tcp/factory.h"\n',
    "nccl_plugin/session/wiring.cc": '#include "ring/factory.h"\n#include "compress_kernels/factory.h"\n',
    "nccl_plugin/host/comm.h": '#include "nccl_plugin/session/wiring.h"\n',
    "nccl_plugin/session/wiring.h": "",
    "tests/ring_test.cc": '#include "ring/transport/tcp/socket.h"\n#include <nccl.h>\n',
    "perf/all_reduce/main.cc": '#include "ringpress/nccl.h"\n',
}

# File to add, its text, and a part of the message that it must cause.
WRONG = [
    ("include/ringpress/bad.h", '#include "ring/factory.h"\n', "includes no other folder"),
    ("include/ringpress/bad.h", "#include <cuda_runtime.h>\n", "no CUDA, NCCL or verbs"),
    ("include/ringpress/bad.h", "#  include <nccl.h>\n", "no CUDA, NCCL or verbs"),
    ("ring/bad.cc", '#include "compress_kernels/factory.h"\n', "may include itself"),
    ("compress_kernels/bad.cc", '#include "tuner/../ring/factory.h"\n', "may include itself"),
    ("tuner/bad.h", '#include "nccl_plugin/session/wiring.cc"\n', "may include itself"),
    ("ring/bad.cc", '#include "ring/transport/tcp/socket.h"\n', "only its factory.h"),
    ("nccl_plugin/session/bad.cc", '#include "compress_kernels/registry.h"\n', "only its factory.h"),
    ("nccl_plugin/session/bad.cc", '#include "ring/transport/tcp/factory.h"\n', "ring/transports.cc alone"),
    ("ring/mesh.cc", '#include "ring/transport/tcp/factory.h"\n', "ring/transports.cc alone"),
    ("nccl_plugin/session/bad.cc", '#include "tests/ring_test.cc"\n', "nothing includes tests/"),
    ("nccl_plugin/session/bad.cc", '#include "nccl_plugin/host/comm.h"\n', "does not include"),
    ("nccl_plugin/plugin/bad.cc", '#include "nccl_plugin/host/comm.h"\n', "does not include"),
    ("nccl_plugin/bad.h", "", "not in a folder"),
    ("perf/all_reduce/bad.cc", '#include "ringpress/internal/codec.h"\n', "client of the C API"),
    ("ring/bad.h", "#include <infiniband/verbs.h>\n", "device headers"),
    ("include/ringpress/bad.h", "namespace nccl_plugin {\nclass Watch;\n}\n", "namespace nccl_plugin"),
    ("tuner/bad.h", "ring::Mesh* mesh;  // ring::Mesh\n", "namespace ring"),
    ("ring/bad.h", "auto all = compress_kernels::codec_names();\n", "namespace compress_kernels"),
    ("tuner/bad.cuh", "", ".cuh files are in"),
    ("notes/readme.txt", "", "not a part of the top level"),
]


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_tree(root, BASE)
        failures += [f"a correct tree has an offence: {line}" for line in offences(root)]
    for name, text, expected in WRONG:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            make_tree(root, {**BASE, name: text})
            found = offences(root)
            if len(found) != 1 or expected not in found[0]:
                failures.append(f"{name} {text!r}: expected one \"{expected}\", got {found}")
    return failures


def main():
    findings = self_test() if sys.argv[1:] == ["--self-test"] else \
        offences(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else tree.ROOT)
    for line in findings:
        print(line)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
