#!/usr/bin/env python3
"""What RINGPRESS_ENCRYPT=on adds to all-reduces over shaped links.

usage: perf/encryption.py [--rates none,10gbit,1gbit] [--codecs q4,none] [--size 64M] [--ranks 2] [--rounds 7]
                          [--build DIR] [--output perf/results/encryption.json]

Of each rate and codec, runs with and without encryption take turns; a run gives the median of its calls. What
is printed is the median of the rounds' ratios, and the smallest and the largest. Needs a build with
RINGPRESS_PERF=ON, and the rights of perf/shaped.sh.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_once(options, rate, codec, encrypt):
    """Microseconds of a call, out of place."""
    burst = "1mb" if rate in ("10gbit", "none") else "128kb"
    variables = {**os.environ, "RINGPRESS_ENCRYPT": encrypt}
    command = [ROOT / "perf/shaped.sh", "--ranks", str(options.ranks), "--rate", rate, "--burst", burst, "--",
               options.build / "perf/all_reduce_perf", "-b", options.size, "-e", options.size, "-n",
               str(options.calls), "-w", "3", "-c", "0", "--p50", "--placement", "out-of-place", "--codec", codec]
    done = subprocess.run(command, text=True, env=variables, capture_output=True, timeout=600)
    rows = [line.split() for line in done.stdout.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if done.returncode != 0 or not rows:
        raise RuntimeError(done.stdout + done.stderr)
    return float(rows[-1][5])


def measure(options, rate, codec):
    times = {"off": [], "on": []}
    for turn in range(options.rounds):
        for encrypt in ("off", "on") if turn % 2 == 0 else ("on", "off"):
            times[encrypt].append(run_once(options, rate, codec, encrypt))
    ratios = sorted(on / off for on, off in zip(times["on"], times["off"]))
    row = {"rate": rate, "codec": codec, "size": options.size, "ranks": options.ranks,
           "plain_us": statistics.median(times["off"]), "encrypted_us": statistics.median(times["on"]),
           "ratio": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]}
    print(f"{rate:>7} {codec:6} {row['plain_us']:10.0f} us, encrypted {row['ratio']:.3f} times as long "
          f"({row['least']:.3f} to {row['most']:.3f})", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="none,10gbit,1gbit")
    parser.add_argument("--codecs", default="q4,none")
    parser.add_argument("--size", default="64M")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "perf/results/encryption.json")
    options = parser.parse_args()
    rows = [measure(options, rate, codec) for rate in options.rates.split(",") for codec in options.codecs.split(",")]
    options.output.write_text(json.dumps(
        {"command": shlex.join(["perf/encryption.py", *sys.argv[1:]]), "machine": platform.processor() or
         platform.machine(), "processors": os.cpu_count(), "date": str(datetime.date.today()), "rows": rows},
        indent=1) + "\n")


if __name__ == "__main__":
    main()
