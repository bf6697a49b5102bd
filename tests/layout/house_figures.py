#!/usr/bin/env python3
"""Prints the figures of perf/missed.md, "The house", that are counted in the tree.

  house_figures.py             lines of production code, the README's lines, repeated lines, large classes
  house_figures.py --self-test

Production code is what class_members.py looks at, tables (.inc) and installed headers included. Repeated are RUN lines
or more that are the same to the letter in two places; not counted are empty lines, directives, beginnings and ends of
namespaces, lines without a word, and NCCL's interface (nccl_plugin/abi).
"""
import collections
import pathlib
import re
import sys

import class_members
import tree

RUN = 6
NO_CODE = re.compile(r"\s*(#|namespace\b|} *// namespace\b|HWY_(BEFORE|AFTER)_NAMESPACE)")
OF_NCCL = pathlib.PurePath("nccl_plugin/abi")


def counted_lines(text):
    """(number, line) of those that count."""
    return [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), 1)
            if re.search(r"\w", line) and not NO_CODE.match(line)]


def repeated(files):
    """Pairs of places, as (path, line, path, line, how many lines). `files`: lines by path."""
    places = collections.defaultdict(list)
    for path, lines in files.items():
        for at in range(len(lines) - RUN + 1):
            places[tuple(line for _, line in lines[at:at + RUN])].append((path, at))
    for same in places.values():
        for i, one in enumerate(same):
            for other in same[i + 1:]:
                if not is_within_longer(files, one, other):
                    length = common_length(files, one, other)
                    yield (one[0], files[one[0]][one[1]][0], other[0], files[other[0]][other[1]][0], length)


def is_within_longer(files, one, other):
    """Whether the lines before are the same, too."""
    before = [files[path][at - 1][1] if at > 0 else None for path, at in (one, other)]
    return before[0] is not None and before[0] == before[1]


def common_length(files, one, other):
    length = 0
    for (_, a), (_, b) in zip(files[one[0]][one[1]:], files[other[0]][other[1]:]):
        if a != b:
            break
        length += 1
    return length


def self_test():
    same = [f"line {i}" for i in range(8)]
    texts = {"a": "\n".join(["first", *same[:4], "", '#include "x.h"', *same[4:], "last"]),
             "b": "\n".join([*same, "other"]), "c": "\n".join([*same[:5], "another", *same[5:]])}
    found = list(repeated({path: counted_lines(text) for path, text in texts.items()}))
    assert found == [("a", 2, "b", 1, 8)], found


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    texts = {path: (tree.ROOT / path).read_text()
             for path in tree.files(tree.ROOT, tree.CODE_SUFFIXES, class_members.FOLDERS)}
    by_folder = collections.Counter()
    for path, text in texts.items():
        by_folder[path.parts[0]] += text.count("\n")
    print(f"lines of production code: {by_folder.total()}", dict(by_folder))
    print("lines of README.md:", (tree.ROOT / "README.md").read_text().count("\n"))
    pairs = list(repeated({path: counted_lines(text) for path, text in texts.items()
                           if OF_NCCL not in path.parents}))
    print(f"pairs of places with {RUN} or more repeated lines: {len(pairs)}")
    for one, at, other, where, length in pairs:
        print(f"  {length} lines: {one}:{at} and {other}:{where}")
    class_members.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
