#!/usr/bin/env python3
"""Steps that traces predict, beside those that were measured: perf/results/step_traces.txt.

Programs of several shapes (build/perf/step_program) run over shaped links with four settings: exact
(RINGPRESS_CODEC=none), RINGPRESS=observe, q4 and auto. Each writes a trace; `ringpress plan` says of
each trace what the step takes exact and with q4. Both are compared with the steps that were measured
exact and with q4, medians over runs; programs and settings take turns. A figure of a program whose
runs differ by more than --noise is marked: the machine was busy.

usage: step_traces.py [--rates 100mbit,1gbit,10gbit,none] [--runs 3] [--shapes waits,...] [--build build]
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPES = ("waits", "end", "group", "thread", "thread-long", "nonblocking", "nonblocking-waits")
# With three times the compute for each gradient, so that with q4 it takes longer than the calls.
LONG = "-long"
LONGER = 3
COMPUTES = ("sleeps", "burns")
SETTINGS = {
    "exact": {"RINGPRESS_CODEC": "none"},
    "observe": {"RINGPRESS": "observe", "RINGPRESS_CODEC": "q4"},
    "q4": {"RINGPRESS_CODEC": "q4"},
    "auto": {"RINGPRESS_CODEC": "auto"},
}
STEPS = {"exact": 30, "observe": 30, "q4": 30, "auto": 60}
# Per rate: the tensors in KB, ms of forward and of each tensor's backward. Exact, the network takes
# most of the step; with q4 compute does. (Not over quick links, which hosts with two cores cannot fill.)
PROGRAMS = {
    "100mbit": ((600, 1200, 800, 1000), 24, 6),
    "1gbit": ((6000, 12000, 8000, 10000), 24, 6),
    "10gbit": ((6000, 12000, 8000, 10000), 24, 6),
    "none": ((6000, 12000, 8000, 10000), 24, 6),
}
# Of the shaper: what passes at once after a pause. No link has that, so it is as small as works:
# with 16kb at 1 Gb/s the shaper itself lets through half of that only.
BURSTS = {"100mbit": "16kb", "1gbit": "128kb", "10gbit": "1mb", "none": "1mb"}
WITHIN = 0.10


def run(options, rate, shape, compute, setting, folder):
    """Seconds of a step, and the trace or None."""
    trace, results = folder / "trace.json", folder / "results.json"
    for path in (trace, results):
        path.unlink(missing_ok=True)
    kilobytes, forward, backward = PROGRAMS[rate]
    if shape.endswith(LONG):
        shape, backward = shape.removesuffix(LONG), LONGER * backward
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("RINGPRESS")}
    environment.update(SETTINGS[setting], RINGPRESS_TRACE=str(trace), RINGPRESS_CACHE="off")
    command = [ROOT / "perf" / "shaped.sh", "--ranks", "2", "--rate", rate, "--burst",
               BURSTS[rate], "--",
               ROOT / options.build / "perf" / "step_program", "--shape", shape, "--compute", compute,
               "--forward", str(forward), "--backward", str(backward), "-n", str(STEPS[setting]),
               "--last", "15", "-J", results, *map(str, kilobytes)]
    done = subprocess.run([str(word) for word in command], env=environment, check=False,
                          capture_output=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{shape} {compute} {setting}: {done.stderr.decode(errors='replace')}")
    text = trace.read_text() if trace.exists() else None
    return json.loads(results.read_text())["seconds"], text


def planned(options, trace, folder):
    """What the plan says of a trace: seconds of the step, exact and with q4."""
    path = folder / "planned.json"
    path.write_text(trace)
    done = subprocess.run([str(ROOT / options.build / "perf" / "ringpress"), "plan", "--json",
                           "--codec", "q4", str(path)], check=True, capture_output=True, timeout=60)
    plan = json.loads(done.stdout)
    return 1e-3 * plan["nothing_ms"], 1e-3 * plan["everything_ms"]


Case = collections.namedtuple("Case", "rate shape compute")


def measure(options, cases, folder):
    """By case and setting: lists of measured steps and of predictions."""
    steps = collections.defaultdict(list)
    predictions = collections.defaultdict(list)
    for _ in range(options.runs):
        for case in cases:
            for setting in SETTINGS:
                seconds, trace = run(options, *case, setting, folder)
                steps[case, setting].append(seconds)
                if trace is not None:
                    predictions[case, setting].append(planned(options, trace, folder))
    return steps, predictions


def cell(predictions, truth):
    """Predicted over measured, in the median; and whether that is as near as was asked for."""
    if not predictions:
        return "no trace", False
    ratio = statistics.median(predictions) / truth
    return f"{ratio:.3f}", abs(ratio - 1) <= WITHIN


def spread(values):
    return max(values) / min(values) - 1


def print_table(options, cases, steps, predictions):
    print("| link | program | computes | measured exact, q4, auto ms | "
          + " | ".join(f"{setting}: exact, q4" for setting in SETTINGS) + " |")
    print("|---|---|---|---|" + "---|" * len(SETTINGS))
    near = collections.Counter()
    for case in cases:
        exact, q4, auto = (statistics.median(steps[case, name]) for name in ("exact", "q4", "auto"))
        noisy = any(spread(steps[case, name]) > options.noise for name in ("exact", "q4"))
        cells = []
        for setting in SETTINGS:
            found = predictions[case, setting]
            pair = [cell([one[i] for one in found], truth) for i, truth in enumerate((exact, q4))]
            near.update((what, is_near) for what, (_, is_near) in zip(("exact", "q4"), pair))
            cells.append(", ".join(text if is_near else f"**{text}**" for text, is_near in pair))
        print(f"| {case.rate} | {case.shape} | {case.compute} | {1e3 * exact:.1f}, {1e3 * q4:.1f}, "
              f"{1e3 * auto:.1f}{' (noisy)' if noisy else ''} | " + " | ".join(cells) + " |")
    for what in ("exact", "q4"):
        within, all_of_them = near[what, True], near[what, True] + near[what, False]
        print(f"\npredicted {what} steps within {100 * WITHIN:.0f} %: {within} of {all_of_them}", end="")
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="100mbit")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--computes", default=",".join(COMPUTES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--noise", type=float, default=0.10)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    cases = [Case(rate, shape, compute) for rate in options.rates.split(",")
             for shape in options.shapes.split(",") for compute in options.computes.split(",")]
    print(f"perf/step_traces.py {' '.join(sys.argv[1:])}    ({datetime.date.today()}, "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before)\n")
    print(f"Two ranks, {STEPS['exact']} steps ({STEPS['auto']} with auto), medians of {options.runs} runs. Of each trace: the step "
          "that the plan predicts\nover the one that was measured, exact and with q4; bold: more than "
          f"{100 * WITHIN:.0f} % away. \"Noisy\": runs differ by\nmore than {100 * options.noise:.0f} %, "
          "as the machine was busy.\n")
    with tempfile.TemporaryDirectory() as folder:
        steps, predictions = measure(options, cases, pathlib.Path(folder))
    print_table(options, cases, steps, predictions)


if __name__ == "__main__":
    main()
