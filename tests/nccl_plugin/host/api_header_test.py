"""Our headers declare NCCL 2.32.3's API, and our libraries show it: same names, types, values, layouts.

usage: api_header_test.py DUMP_PROGRAM            its output must be api_dump.txt
       api_header_test.py --names HEADER...       they use the names of the table, api_names.txt
       api_header_test.py --exports LIBRARY       it shows the functions of the table
       api_header_test.py --table NCCL_H LIBNCCL  prints the table: of NVIDIA's header and library
"""

import difflib
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# What NVIDIA's header says to other platforms.
FOREIGN = {"NCCL_OS_LINUX"}


def compare_dump(program):
    wanted = (HERE / "api_dump.txt").read_text()
    got = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return list(difflib.unified_diff(wanted.splitlines(), got.splitlines(), "api_dump.txt",
                                     program, lineterm=""))


def names_of(*paths):
    text = "\n".join(pathlib.Path(path).read_text() for path in paths)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r'"[^"\n]*"', " ", text)
    return set(re.findall(r"\bp?(?:nccl|NCCL)\w*", text)) - FOREIGN


def functions_of(library):
    table = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout
    return {line.split()[-1] for line in table.splitlines()
            if re.fullmatch(r"p?nccl[A-Z]\w*", line.split()[-1])}


def table():
    """Names of the header, functions of the library."""
    parts = (HERE / "api_names.txt").read_text().split("\n# ")
    return [set(part.split("\n")[1:]) - {""} for part in parts[1:]]


def print_table(header, library):
    version = re.search(r"NCCL_VERSION_CODE +(\d+)", pathlib.Path(header).read_text()).group(1)
    print(f"Of NCCL {version}, made by tests/nccl_plugin/host/api_header_test.py --table")
    print("\n".join(["# In nccl.h", *sorted(names_of(header))]))
    print("\n".join(["# Shown by libnccl.so", *sorted(functions_of(library))]))


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--table":
        return print_table(*arguments[1:])
    if arguments[0] == "--names":
        wanted, got = table()[0], names_of(*arguments[1:])
        got -= {name for name in got if name.startswith("NCCL") and name.endswith("_H_")}
        wanted -= {"NCCL_H_"}
        problems = [f"not in NVIDIA's header: {name}" for name in sorted(got - wanted)]
        problems += [f"only in NVIDIA's header: {name}" for name in sorted(wanted - got)]
    elif arguments[0] == "--exports":
        problems = [f"not shown: {name}"
                    for name in sorted(table()[1] - functions_of(arguments[1]))]
    else:
        problems = compare_dump(arguments[0])
    print("\n".join(problems) or "equal")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
