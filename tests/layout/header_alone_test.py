#!/usr/bin/env python3
"""Compiles each public header, each factory.h and those of the command alone and twice in one file.

usage: header_alone_test.py CXX_COMPILER C_COMPILER
The C API is compiled as C11 too.
"""
import subprocess
import sys
import tempfile
import pathlib

import tree

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wshadow"]
C_HEADERS = ("ringpress/nccl.h", "ringpress/nccl_device.h", "ringpress/nccl_types.h",
             "ringpress/ringpress.h")


def compiles(compiler, flags, header, suffix):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / ("alone" + suffix)
        source.write_text(f'#include "{header}"\n#include "{header}"\nint alone_is_not_empty;\n')
        command = [compiler, *flags, *WARNINGS, "-fsyntax-only", f"-I{tree.ROOT}",
                   f"-I{tree.ROOT / 'include'}", str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"{header} does not compile alone: {' '.join(command)}\n{result.stderr}")
    return result.returncode == 0


def main():
    cxx_compiler, c_compiler = sys.argv[1:3]
    public = [str(path.relative_to("include")) for path in
              tree.files(tree.ROOT, (".h",), ["include"])]
    factories = [str(path) for path in tree.files(
        tree.ROOT, (".h",), ["compress_kernels", "ring", "tuner"]) if path.name == "factory.h"]
    # Users build the command without unity files, tests with them.
    command = [str(path) for path in tree.files(tree.ROOT, (".h",), ["nccl_plugin/command"])]
    ok = min(len(public), len(factories), len(command)) > 0
    for header in public + factories + command:
        ok = compiles(cxx_compiler, ["-std=c++20"], header, ".cc") and ok
    for header in C_HEADERS:
        ok = compiles(c_compiler, ["-std=c11"], header, ".c") and ok
    print(f"{len(public)} public headers, {len(factories)} factories, {len(command)} of the command")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
