#!/usr/bin/env python3
"""Builds and runs the C program of nccl_plugin/host/using.md with the commands that stand below it.

usage: readme_example_test.py PAGE INCLUDE_FOLDER LIBRARY_FOLDER
"""

import json
import os
import re
import subprocess
import sys
import tempfile


def blocks_of(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def only(blocks, word):
    found = [block for block in blocks if word in block]
    assert len(found) == 1, f"{len(found)} blocks of the page hold {word!r}"
    return found[0]


def lay_out_tree(folder, include, library):
    """The names that the page's commands use, and no others."""
    os.symlink(include, os.path.join(folder, "include"))
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(library, os.path.join(folder, "build", "lib"))


def run(folder, command):
    return subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, text=True, timeout=120)


def codecs_of(folder, command):
    """What the program prints, and the codecs of its communicators."""
    path = os.path.join(folder, "statistics")
    printed = run(folder, f"export RINGPRESS_STATS={path}; {command}").stdout
    with open(path, encoding="utf-8") as file:
        codecs = {json.loads(line)["last_codec"].split(":")[0] for line in file}
    os.remove(path)
    return float(printed), codecs


def main():
    readme, include, library = sys.argv[1:]
    with open(readme, encoding="utf-8") as file:
        page = file.read()
    program = only(blocks_of(page, "c"), "job.c")
    commands = only(blocks_of(page, "sh"), "gcc job.c").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        lay_out_tree(folder, os.path.abspath(include), os.path.abspath(library))
        with open(os.path.join(folder, "job.c"), "w", encoding="utf-8") as file:
            file.write(program)
        compile_it, run_it = commands
        run(folder, compile_it.replace("gcc ", "gcc -Wall -Werror ", 1))
        compressed, codecs = codecs_of(folder, run_it)
        assert abs(compressed - 12) < 1 and codecs == {"q4"}, (compressed, codecs)
        exact, codecs = codecs_of(folder, "./job")
        assert exact == 12 and codecs == {"none"}, (exact, codecs)


if __name__ == "__main__":
    main()
