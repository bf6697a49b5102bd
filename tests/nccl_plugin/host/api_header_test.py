"""Our nccl.h declares NCCL 2.28.9's API: same names, types, values and layouts.

usage: api_header_test.py DUMP_PROGRAM             its output must be api_dump.txt
       api_header_test.py --names HEADER HEADER    both headers use the same nccl names
"""

import difflib
import pathlib
import re
import subprocess
import sys


def compare_dump(program):
    wanted = pathlib.Path(__file__).with_name("api_dump.txt").read_text()
    got = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return list(difflib.unified_diff(wanted.splitlines(), got.splitlines(), "api_dump.txt",
                                     program, lineterm=""))


def names(path):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", pathlib.Path(path).read_text(), flags=re.S)
    text = re.sub(r'"[^"\n]*"', " ", text)
    return set(re.findall(r"\bp?(?:nccl|NCCL)\w*", text))


def compare_names(ours, theirs):
    return [f"only in {ours}: {name}" for name in sorted(names(ours) - names(theirs))] + [
        f"only in {theirs}: {name}" for name in sorted(names(theirs) - names(ours))]


def main():
    if sys.argv[1] == "--names":
        problems = compare_names(*sys.argv[2:4])
    else:
        problems = compare_dump(sys.argv[1])
    print("\n".join(problems) or "equal")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
