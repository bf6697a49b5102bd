"""Compares what a library shows with a stored list, and what it needs with a short one.

usage: exports_test.py LIBRARY LIST [--any-needed]     (sanitizers bring libraries of their own)
LIST is the name of a file beside this one.
"""

import pathlib
import re
import subprocess
import sys

ALLOWED_NEEDED = re.compile(
    r"(libc|libm|libdl|libpthread|librt|libhwy|libisal|ld-linux[-\w]*)\.so(\.\d+)*")


def exported_names(library):
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout
    return {line.split()[-1] for line in table.splitlines()}


def needed_libraries(library):
    table = subprocess.run(["readelf", "-d", "-W", library], check=True, capture_output=True,
                           text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", table)


def main():
    library, name = sys.argv[1:3]
    stored = pathlib.Path(__file__).with_name(name).read_text().split()
    problems = []
    if stored != sorted(stored):
        problems.append(f"{name} is not sorted")
    shown = exported_names(library)
    problems += [f"shown, but not in {name}: {symbol}" for symbol in sorted(shown - set(stored))]
    problems += [f"in {name}, but not shown: {symbol}" for symbol in sorted(set(stored) - shown)]
    if "--any-needed" not in sys.argv:
        problems += [f"needs {needed}" for needed in needed_libraries(library)
                     if not ALLOWED_NEEDED.fullmatch(needed)]
    print("\n".join(problems) or f"{len(shown)} names, as stored")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
