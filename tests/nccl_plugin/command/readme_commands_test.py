#!/usr/bin/env python3
"""The commands of README.md are commands: `ringpress` takes their words, settings are settings, files are there.

usage: readme_commands_test.py COMMAND ROOT
"""
import pathlib
import re
import shlex
import subprocess
import sys

COMMAND, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
README = (ROOT / "README.md").read_text(encoding="utf-8")
USAGE = 2  # The exit status for words that are not taken.
STARTS_A_JOB = "run"  # Of what comes after it, only `--` is looked at.


def command_lines():
    """Each line of the blocks of commands, continued ones joined; and each command within a sentence."""
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        yield from block.replace("\\\n", " ").split("\n")
    yield from re.findall(r"`(build/perf/ringpress [^`]*)`", README)


def ringpress_calls():
    for line in command_lines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "build/perf/ringpress":
            yield words[1:]


def problems():
    calls = list(ringpress_calls())
    if len(calls) < 3:
        yield f"only {len(calls)} commands were found"
    for words in calls:
        if words[0] == STARTS_A_JOB:
            if words[1] != "--":
                yield f"{words}: no --"
            continue
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, timeout=120)
        if done.returncode == USAGE or not done.stdout:
            yield f"{words}: {done.stderr.strip()}"
    settings = (ROOT / "include/ringpress/internal/settings.inc").read_text(encoding="utf-8")
    for name in set(re.findall(r"\bRINGPRESS(?:_[A-Z]+)*\b", README)) - {"RINGPRESS"}:
        is_option = name.startswith(("RINGPRESS_OPTION_", "RINGPRESS_TESTS"))
        if not is_option and name not in settings:
            yield f"{name} is no setting"
    for path in re.findall(r"\bbash ([a-z/]+\.sh)", README):
        if not (ROOT / path).is_file():
            yield f"{path} is not there"


def main():
    found = list(problems())
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
