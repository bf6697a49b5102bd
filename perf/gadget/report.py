#!/usr/bin/env python3
"""Puts the tables of perf/results/gadget_*.txt into perf/gadget/findings.md.

usage: report.py [--check]        --check: says whether they are there
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "perf" / "gadget" / "findings.md"


def tables(name):
    """The file without its first paragraph, which says how it was made."""
    text = (ROOT / "perf" / "results" / f"gadget_{name}.txt").read_text()
    return text.split("\n\n", 1)[1].strip()


def main():
    before = text = PAGE.read_text()
    for name in ("slots", "optimum", "experiment", "tau", "order"):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, rest = text.split(begin, 1)
        text = head + begin + tables(name) + "\n" + end + rest.split(end, 1)[1]
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(text)
    elif text != before:
        print(f"{PAGE}: tables are not those of perf/results", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
