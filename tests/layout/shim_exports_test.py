"""Checks what the preloaded shim shows and needs.

usage: shim_exports_test.py SHIM NCCL_H NEWER_FUNCTIONS
It shows the functions of the header and of the list, and their pncclX names, and one that the
network plugin calls, nothing else; needs nothing but the C library; and covers every function of the NCCL library installed here, if any.
"""

import glob
import pathlib
import re
import sys

from exports_test import exported_names, needed_libraries

INSTALLED = ("/usr/local/cuda*/lib64/libnccl.so.2", "/usr/lib/*/libnccl.so.2",
             "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnccl.so.2")
OWN = {"ringpressNcclEncrypts"}
ALLOWED_NEEDED = re.compile(r"(libc|libdl|libpthread|ld-linux[-\w]*)\.so(\.\d+)*")


def main():
    shim, header, newer = sys.argv[1:4]
    names = set(re.findall(r"^[\w_(].*?\b(nccl[A-Z]\w*)\(", pathlib.Path(header).read_text(), re.M))
    names |= {line for line in pathlib.Path(newer).read_text().split("\n")
              if line and not line.startswith("#")}
    names |= {"p" + name for name in names} | OWN
    shown = exported_names(shim)
    problems = [f"shown, but no function of NCCL: {name}" for name in sorted(shown - names)]
    problems += [f"not shown: {name}" for name in sorted(names - shown)]
    problems += [f"needs {needed}" for needed in needed_libraries(shim)
                 if not ALLOWED_NEEDED.fullmatch(needed)]
    libraries = sorted({str(pathlib.Path(path).resolve()) for pattern in INSTALLED
                        for path in glob.glob(pattern)})
    for library in libraries:
        functions = {name for name in exported_names(library) if re.match("p?nccl[A-Z]", name)}
        problems += [f"{library} has {name}" for name in sorted(functions - shown)]
    print("\n".join(problems) or f"{len(shown)} names; compared with {libraries}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
