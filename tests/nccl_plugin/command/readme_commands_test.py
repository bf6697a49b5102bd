#!/usr/bin/env python3
"""The commands of README.md are commands: `ringpress` takes their words, settings are settings, files are there.

usage: readme_commands_test.py COMMAND ROOT
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

COMMAND, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
README = (ROOT / "README.md").read_text(encoding="utf-8")
USAGE = 2  # The exit status for words that are not taken.
PROGRAM = re.compile(r"(?:^|\s)(?:\S*/)?ringpress (?=run|estimate|explain|report|doctor|params|plan|schedule)")
sys.path.insert(0, str(ROOT / "tests/nccl_plugin/command/report"))
import job_files  # noqa: E402  (needs the path)


def command_lines():
    """Each line of the blocks of commands, continued ones joined; and each command within a sentence."""
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL):
        yield from block.replace("\\\n", " ").split("\n")
    yield from re.findall(r"`((?:build/perf/)?ringpress [a-z][^`]*)`", README)


def ringpress_calls():
    """The words of each, whatever starts it: srun, a container. A sentence may name a command by one word."""
    for line in command_lines():
        found = PROGRAM.search("" if line.startswith("#") else line)
        words = shlex.split(line[found.end():], comments=True) if found else []
        if len(words) > 1:
            yield words


def problem_of(words, folder):
    """As it stands but for the program that `run` starts; in a folder where a job has left a file."""
    is_run = words[0] == "run"
    if is_run and "--" not in words:
        return "no --"
    if is_run:
        words = ["run", "--dry-run", *words[1:words.index("--")], "--", "true"]
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, timeout=120, cwd=folder)
    is_wrong = done.returncode == USAGE or not done.stdout + (done.stderr if is_run else "")
    return done.stderr.strip() or "says nothing" if is_wrong else None


def problems():
    calls = list(ringpress_calls())
    if len(calls) < 10:
        yield f"only {len(calls)} commands were found"
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job"
        job.mkdir()
        job.joinpath("statistics.jsonl").write_text(job_files.lines_of(job_files.statistics_line(rank, 2) for rank in range(2)))
        for words in calls:
            problem = problem_of(words, folder)
            if problem:
                yield f"{words}: {problem}"
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
