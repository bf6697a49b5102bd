#!/usr/bin/env python3
"""What libringpress-preload.so adds to calls that it does not compress, and to the start of a program.

usage: perf/interposer_overhead.py [--build DIR] [--rounds N] [--output FILE]
A program of two ranks that knows nothing of ringpress (tests/nccl_plugin/preload/client.c) times
its calls, each the least of many rounds, with the library before it and without, in turn. The NCCL
that both call is the stand-in of the tests, on host memory. Then a program that does nothing is
started many times, with the library before it and without in turn: until it has ended, the median of
each round. Needs a build with tests.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = {"query": "ncclCommCount", "nothing": "ncclAllReduce of count 0",
         "one-integer": "ncclAllReduce of one int32", "one-float": "ncclAllReduce of one float, on "
         "a communicator whose large calls are compressed"}
STARTS = 200  # A round.
ON = {"RINGPRESS_BACKEND": "host", "RINGPRESS_CODEC": "q4", "RINGPRESS_SOCKET_IFNAME": "lo"}


def run_once(build, is_on):
    """Nanoseconds of a call of rank 0, by kind."""
    variables = {**os.environ}
    if is_on:
        variables |= {**ON, "LD_PRELOAD": str(build / "lib" / "libringpress-preload.so")}
    done = subprocess.run([build / "tests/nccl_plugin/preload_client", "2", "time"], text=True,
                          env=variables, capture_output=True, check=True, timeout=300)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {kind: float(text) for rank, kind, text in lines if rank == "0"}


def start_once(program, variables):
    """Microseconds until it has ended."""
    start = time.perf_counter_ns()
    process = os.posix_spawn(program, [program], variables)
    _, status = os.waitpid(process, 0)
    taken = (time.perf_counter_ns() - start) / 1000
    if status != 0:
        raise RuntimeError(f"{program} ends with status {status}")
    return taken


def measure_starts(build, rounds):
    program = shutil.which("true")
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environments = {False: variables, True: {**variables, "LD_PRELOAD": str(build / "lib" /
                                                                            "libringpress-preload.so")}}
    medians = {True: [], False: []}
    for _ in range(rounds):
        taken = {True: [], False: []}
        for _ in range(STARTS):
            for is_on, environment in environments.items():
                taken[is_on].append(start_once(program, environment))
        for is_on, samples in taken.items():
            medians[is_on].append(round(statistics.median(samples), 1))
    added = statistics.median(medians[True]) - statistics.median(medians[False])
    print(f"start of {program}: {statistics.median(medians[False]):.0f} us, with the library "
          f"{statistics.median(medians[True]):.0f} us: {added:.0f} us more")
    return {"program": program, "starts_a_round": STARTS, "without_us": medians[False],
            "with_us": medians[True], "added_us": round(added, 1)}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def measure(build, rounds):
    samples = {True: [], False: []}
    for _ in range(rounds):
        for is_on in (False, True):
            samples[is_on].append(run_once(build, is_on))
    results = []
    for kind, what in KINDS.items():
        with_it, without = ([one[kind] for one in samples[is_on]] for is_on in (True, False))
        added = statistics.median(with_it) - statistics.median(without)
        results.append({"call": what, "without_ns": without, "with_ns": with_it,
                        "added_ns": round(added, 1)})
        print(f"{what}: {statistics.median(without):.0f} ns, with the library "
              f"{statistics.median(with_it):.0f} ns: {added:.0f} ns more")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "perf/results/interposer_overhead.json")
    options = parser.parse_args()
    results = measure(options.build.resolve(), options.rounds)
    content = {"command": f"perf/interposer_overhead.py --rounds {options.rounds}",
               "date": datetime.date.today().isoformat(), "cores": os.cpu_count(),
               "processor": processor(), "kernel": platform.release(), "results": results,
               "start": measure_starts(options.build.resolve(), options.rounds)}
    options.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
