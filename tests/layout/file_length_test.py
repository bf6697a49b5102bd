#!/usr/bin/env python3
"""Fails on a source file of more than 800 lines; names those above 500."""
import sys

import tree

AIM = 500
LIMIT = 800


def main():
    too_long = False
    for path in tree.files(tree.ROOT, tree.CODE_SUFFIXES + tree.SCRIPT_SUFFIXES):
        lines = (tree.ROOT / path).read_bytes().count(b"\n")
        if lines > AIM:
            print(f"{path}: {lines} lines, the {'limit' if lines > LIMIT else 'aim'} is "
                  f"{LIMIT if lines > LIMIT else AIM}")
        too_long = too_long or lines > LIMIT
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
