#!/usr/bin/env python3
"""What codecs cost a training: losses with them beside exact ones, over tasks, optimizers and seeds.

usage: perf/fidelity/run.py short|whole [--folder FOLDER] [options that narrow it down]

Each training is a process (trial.py) on host memory, one at a time on each processor. What is finished lies
in FOLDER (perf/out/fidelity) and is not done again: a run that was broken off goes on where it was. Results go
to perf/results/fidelity-FORM.json, and a table to standard output. Needs PyTorch and scikit-learn (Debian:
python3-torch python3-sklearn libopenblas0-pthread) and build/lib/libringpress.so.

short: minutes, for every change; few seeds tell only of large differences. whole: hours, for decisions.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import datetime
import importlib.util
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys

import paired

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TASKS, OPTIMIZERS = ("mlp", "convolutions", "lstm", "transformer"), ("adamw", "sgd")
ALL_TASKS = (*TASKS, "tiny")  # That can be asked for.
# Automatic mode, as where the network is slow enough for what it may lose, whatever this machine's is.
DEFAULT = "auto+DETERMINISTIC=1"
SHORT_METHODS = (DEFAULT, DEFAULT + "+EF=scales")
WHOLE_METHODS = (DEFAULT, DEFAULT + "+EF=scales", "q8", "q5", "q4", "q4+EF=0", "q4:grid=lloyd", "q2:grid=lloyd", "q2:grid=lloyd+EF=0", "sign",
                 "topk:density=0.01", "powersgd:rank=4")


@dataclasses.dataclass
class Form:
    tasks: tuple
    optimizers: tuple
    workers: tuple
    steps: tuple
    seeds: int
    methods: tuple


FORMS = {"short": Form(("transformer",), ("adamw",), (4,), (60,), 2, SHORT_METHODS),
         "whole": Form(TASKS, OPTIMIZERS, (4, 8), (300, 3000), 5, WHOLE_METHODS)}


def words_of(text):
    return tuple(text.split(","))


def numbers_of(text):
    return tuple(int(word) for word in text.split(","))


def parse(words):
    parser = argparse.ArgumentParser(prog="perf/fidelity/run.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "perf" / "out" / "fidelity")
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build" / "lib" / "libringpress.so")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "perf" / "results")
    for name, kind in (("tasks", words_of), ("optimizers", words_of), ("workers", numbers_of),
                       ("steps", numbers_of), ("methods", words_of)):
        parser.add_argument(f"--{name}", type=kind, metavar="A,B...", help="instead of the form's")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="trainings (one a processor)")
    options = parser.parse_args(words)
    for name in ("tasks", "optimizers"):
        unknown = set(getattr(options, name) or ()) - set({"tasks": ALL_TASKS, "optimizers": OPTIMIZERS}[name])
        if unknown:
            parser.error(f"--{name}: no {min(unknown)}")
    if not options.library.exists():
        parser.error(f"{options.library} is missing: build the target ringpress")
    return options


def chosen_form(options):
    """The form, with what the command line gives instead."""
    form = FORMS[options.form]
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(Form)}
    return dataclasses.replace(form, **{name: value for name, value in given.items() if value is not None})


def trials_of(form):
    """The exact ones first: what is compared with them means something early."""
    methods = (paired.EXACT, *(method for method in form.methods if method != paired.EXACT))
    names = ("steps", "method", "seed", "task", "optimizer", "workers")
    for values in itertools.product(form.steps, methods, range(1, form.seeds + 1), form.tasks, form.optimizers,
                                    form.workers):
        yield dict(zip(names, values))


def path_of(trial, folder):
    method = trial["method"].replace(":", "_").replace("=", "-").replace("/", "_")
    return folder / (f"{trial['task']}-{trial['optimizer']}-{trial['workers']}-{trial['steps']}-{method}-"
                     f"{trial['seed']}.json")


def run_trial(trial, library, folder):
    """What is wrong with it, or None. Its result is in its file when it is whole."""
    path = path_of(trial, folder)
    words = [sys.executable, "-B", str(HERE / "trial.py"), "--library", str(library)]
    for name, value in trial.items():
        words += [f"--{name}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=HERE)
    if done.returncode != 0:
        return f"{shlex.join(words)}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    fresh = path.with_suffix(".new")
    fresh.write_text(done.stdout, encoding="utf-8")
    fresh.rename(path)
    return None


def run_all(trials, options):
    """What went wrong. Shows how far it is."""
    options.folder.mkdir(parents=True, exist_ok=True)
    waiting = collections.deque(trial for trial in trials if not path_of(trial, options.folder).exists())
    total, problems = len(waiting), []
    print(f"{len(trials)} trainings, {len(trials) - total} of them are there", file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        runs = {pool.submit(run_trial, trial, options.library, options.folder): trial for trial in waiting}
        for number, run in enumerate(concurrent.futures.as_completed(runs), 1):
            trial = runs[run]
            if problem := run.result():
                problems.append(problem)
            print(f"[{number}/{total}] {trial['task']} {trial['optimizer']} {trial['steps']} steps, seed "
                  f"{trial['seed']}: {trial['method']}{' FAILED' if problem else ''}", file=sys.stderr, flush=True)
    return problems


def kept_results(trials, folder):
    paths = [path_of(trial, folder) for trial in trials]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def missing_module():
    """What trainings need and this Python does not have, or None."""
    return next((name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None), None)


def main(words):
    options = parse(words)
    if name := missing_module():
        print(f"perf/fidelity/run.py: {sys.executable} has no module {name}: install it, or run this file by another "
              "python3", file=sys.stderr)
        return 2
    trials = list(trials_of(chosen_form(options)))
    problems = run_all(trials, options)
    rows = paired.compare(kept_results(trials, options.folder))
    report = {"command": shlex.join(["perf/fidelity/run.py", *words]),
              "date": datetime.date.today().isoformat(), "rows": rows}
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"fidelity-{options.form}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(paired.table(rows) if rows else "nothing to compare")
    for problem in problems:
        print(f"perf/fidelity/run.py: {problem}", file=sys.stderr)
    idle = [row for row in rows if row["compressed_share"] == 0]
    for row in idle:
        print(f"perf/fidelity/run.py: {row['method']} compressed nothing of {row['task']}: its row says nothing of a "
              "codec", file=sys.stderr)
    differing = [row for row in rows if not row["ranks_agree"]]
    return 1 if problems or differing or idle else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("perf/fidelity/run.py: broken off; the same command goes on from here")
