#!/usr/bin/env python3
"""Which NCCL functions of the newest frameworks' wheels this library does not show.

usage: framework_functions.py [LIBRARY_FOLDER]
The functions are those that perf/results/frameworks.json (made by tests/frameworks.sh from the
wheels) says of each framework. LIBRARY_FOLDER is a build's lib/ (default build/lib). Prints a line
for each framework and library.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What is found by name in vLLM's Python and is no function.
TYPES = {"ncclComm_t", "ncclDataTypeEnum", "ncclRedOpTypeEnum", "ncclUniqueId"}
LIBRARIES = ("libringpress.so.0", "preload/libnccl.so.2")


def shown(library):
    """The names that a library shows to a program."""
    text = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True,
                          check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines() if line.strip()}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "lib"
    content = json.loads((ROOT / "perf/results/frameworks.json").read_text(encoding="utf-8"))
    names = {library: shown(folder / library) for library in LIBRARIES}
    print(f"perf/framework_functions.py    (wheels of {content['date']})")
    for framework in content["frameworks"]:
        wanted = set(framework["functions"]) - TYPES
        print(f"\n{framework['package']} {framework['version']}: {len(wanted)} functions")
        for library in LIBRARIES:
            missing = sorted(wanted - names[library])
            print(f"  {library} lacks {len(missing)}: {' '.join(missing)}".rstrip(": "))


if __name__ == "__main__":
    main()
