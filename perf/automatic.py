#!/usr/bin/env python3
"""Automatic mode (RINGPRESS_CODEC=auto) beside each fixed codec within its budget, no codec, and Gloo.

  python3 perf/automatic.py --json perf/results/automatic.json       half an hour

Of each rate, number of ranks, type and size: all_reduce_perf over shaped links, a run a setting (what one
leaves of the link's burst is not the next one's to have); over unshaped ones a run in which all settings
take turns call by call, in an order by chance. Automatic mode is measured when it has settled. Rank 0's
times: means without the slowest tenth, of shaped links plain means from 16 KB on.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "perf" / "peers"))
import peers  # pylint: disable=wrong-import-position

BYTES_PER_SECOND = {"none": 1.5e9, "10gbit": 1.25e9, "1gbit": 125e6, "100mbit": 12.5e6}
TYPES = {"f32": ("float", 4, "float32"), "bf16": ("bfloat16", 2, "bfloat16")}
FIXED = ("none", "bf16", "q8", "q4")  # What automatic mode chooses from with the default budget.
LONGEST_SECONDS = 7
SMALLEST_COMPRESSED = 65536
SETTLED_CALLS = 600  # 20 trials of 13, 4 of 80.
SHORT_SETTLED_CALLS = 3000  # Of short calls: until no step is looked for any more, which is after 2048.
SLOW_SETTLED_CALLS = 80  # Of long ones: three a trial, at most 24 trials, and some.


def plain_seconds(rate, ranks, size):
    return 60e-6 + 2 * (ranks - 1) / ranks * size / BYTES_PER_SECOND[rate]


def mean_without_slowest(times):
    """Without the slowest tenth: what something else on the machine has held up."""
    return statistics.mean(sorted(times)[:len(times) - len(times) // 10])


def clamp(value, low, high):
    return int(max(low, min(high, value)))


def codecs_of(result):
    """What timed calls went by, such as `q4` or, where not all did by one, `q4+none`."""
    calls = collections.Counter()
    for codec, times in result["codecs"].items():
        calls[codec.split(":")[0]] += times
    return "+".join(codec for codec, _ in calls.most_common())


def require_codecs(settings, results):
    """A time stands under the name of a fixed setting only if its calls went by that."""
    for setting, result in zip(settings, results):
        codecs = codecs_of(result["ringpress"])
        if setting != "auto" and codecs != setting.partition("@")[0].partition(":")[0]:
            raise RuntimeError(f"{setting}, {result['size']} bytes: calls went by {codecs}: "
                               f"{result['ringpress']['reason']}")


class Cell:
    """One rate, number of ranks, type and size."""

    def __init__(self, options, rate, ranks, dtype, size):
        self.options, self.rate, self.ranks, self.dtype, self.size = options, rate, ranks, dtype, size
        self.seconds = plain_seconds(rate, ranks, size)
        self.commands = []

    def shaped(self):
        command = [str(ROOT / "perf" / "shaped.sh"), "--ranks", str(self.ranks), "--rate", self.rate]
        return command + (["--congestion", self.options.congestion] if self.options.congestion else [])

    def measure(self, settings, calls, warm_up, first_size=0):
        """Of each setting the average time, and the codecs of the calls that it is of, the most frequent
        first. Calls of `first_size` bytes come before, if any."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            command = self.shaped()
            command += ["--pin"] if self.ranks <= os.cpu_count() else []
            command += ["--", str(self.options.build / "perf" / "all_reduce_perf"), "-d",
                        TYPES[self.dtype][0], "-b", str(first_size or self.size), "-e", str(self.size), "-f", "2",
                        "-n", str(calls), "-w", str(warm_up), "-c", "0", "-a", "0", "--placement", "in-place",
                        "--compare", ",".join(settings), "-J", report.name]
            self.commands.append(shlex.join(command))
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800,
                                  env={**os.environ, "RINGPRESS_CACHE": "off"})
            if done.returncode != 0:
                raise RuntimeError(f"{shlex.join(command)}\n{done.stderr[-2000:]}")
            results = json.loads(pathlib.Path(report.name).read_text())["results"][-len(settings):]
        require_codecs(settings, results)
        return [(self.average()(result["in_place_per_iter"]["times_us"]),
                 codecs_of(result["ringpress"])) for result in results]

    def all_reduce(self, settings, calls, warm_up, first_size=0):
        measured = self.measure(settings, calls, warm_up, first_size)
        found = {setting: average for setting, (average, _) in zip(settings, measured)}
        if "auto" in settings:
            found["choice"] = measured[settings.index("auto")][1]
        return found

    def gloo(self):
        command = [*self.shaped(), "--", peers.PYTHON_WITH_TORCH,
                   str(ROOT / "perf" / "peers" / "gloo_all_reduce.py"),
                   f"{self.size}:{clamp(1 / self.seconds, 3, 50)}"]
        if self.dtype != "f32":
            command += ["--dtype", TYPES[self.dtype][2]]
        self.commands.append(shlex.join(command))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        times = peers.Contender.parse_lines(done.stdout).get(self.size)
        return self.average()(times) if times else None

    def average(self):
        """A shaped link lets bursts pass: of sizes that take them, only the mean tells. Small calls take
        longer where an acknowledgement comes meanwhile, as every other one does: what a median of such
        times is, is chance."""
        has_bursts = self.rate != "none" and self.size >= 16 << 10
        return statistics.mean if has_bursts else mean_without_slowest

    def settled_calls(self):
        """After so many automatic mode is measured."""
        most = max(SETTLED_CALLS, clamp(1 / self.seconds, 0, SHORT_SETTLED_CALLS))
        return clamp(14 / self.seconds, SLOW_SETTLED_CALLS, most)

    def run(self):
        """{setting: microseconds}, and automatic mode's choice."""
        if self.size < SMALLEST_COMPRESSED:
            found = self.all_reduce(("none", "auto"), 2000, 500)
        elif self.rate == "none":
            # Calls of half the size come first: TCP acknowledges otherwise, and sooner, where a connection's
            # messages have all been of one size, as no real program's are, nor automatic mode's.
            found = self.all_reduce((*FIXED, "auto"), clamp(1 / self.seconds, 5, 500), self.settled_calls(),
                                    self.size // 2)
        else:
            found = {}
            for setting in FIXED:
                calls = clamp(1 / self.seconds, 3, 100)
                # As long as automatic mode, where that is not long: links are quick at first.
                warm_up = clamp(2 / self.seconds, calls, self.settled_calls())
                found |= self.all_reduce((setting,), calls, warm_up if warm_up > 3 else 1)
            found |= self.all_reduce(("auto",), clamp(1 / self.seconds, 3, 100), self.settled_calls())
        found["gloo"] = self.gloo()
        return found


def row_of(cell, found):
    fixed = {name: found[name] for name in FIXED if name in found}
    row = {"rate": cell.rate, "ranks": cell.ranks, "dtype": cell.dtype, "bytes": cell.size,
           "choice": found["choice"], "auto_us": found["auto"], "gloo_us": found["gloo"],
           **{f"{name}_us": time for name, time in fixed.items()}}
    plain = [time for time in (found["none"], found["gloo"]) if time]
    row["over_better_plain"] = min(plain) / found["auto"]
    row["over_best_fixed"] = min(fixed.values()) / found["auto"]
    return row


def summary(rows):
    """What the figures are about."""
    lines = [f"{len(rows)} cells; least over the better of no codec and Gloo: "
             f"{min(row['over_better_plain'] for row in rows):.2f}; below 0.97: "
             f"{sum(row['over_better_plain'] < 0.97 for row in rows)}"]
    for dtype in TYPES:
        large = [row["over_better_plain"] for row in rows
                 if row["dtype"] == dtype and row["bytes"] >= 256 << 10]
        if large:
            lines.append(f"{dtype}: geometric mean from 256 KB up {statistics.geometric_mean(large):.2f}x")
    near = [row["over_best_fixed"] for row in rows]
    lines.append(f"over the best fixed setting: least {min(near):.2f}, below 0.95: "
                 f"{sum(one < 0.95 for one in near)}")
    return lines


def table(rows):
    """Of each rate, number of ranks and type, from 256 KB up; below, all is as without a codec."""
    lines = ["| link | ranks | type | over the better of no codec and Gloo: geometric mean, least | over the best "
             "fixed setting: least | chosen |", "|---|---|---|---|---|---|"]
    for rate in dict.fromkeys(row["rate"] for row in rows):
        for ranks in sorted({row["ranks"] for row in rows}):
            for dtype in TYPES:
                cells = [row for row in rows if (row["rate"], row["ranks"], row["dtype"]) == (rate, ranks, dtype)
                         and row["bytes"] >= 256 << 10]
                if not cells:
                    continue
                gains = [row["over_better_plain"] for row in cells]
                chosen = ", ".join(dict.fromkeys(row["choice"] for row in cells))
                lines.append(f"| {'unshaped' if rate == 'none' else rate} | {ranks} | {dtype} | "
                             f"{statistics.geometric_mean(gains):.2f}x, {min(gains):.2f}x | "
                             f"{min(row['over_best_fixed'] for row in cells):.2f} | {chosen} |")
    return "\n".join(lines)


def print_row(row):
    cells = " ".join(f"{name} {row[name + '_us']:.0f}" for name in (*FIXED, "gloo")
                     if row.get(name + "_us"))
    print(f"{row['rate']:8} {row['ranks']} {row['dtype']:4} {row['bytes']:>10} auto {row['auto_us']:.0f} "
          f"({row['choice']}) us; {cells}; {row['over_better_plain']:.2f}x the better plain, "
          f"{row['over_best_fixed']:.2f} of the best fixed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rates", default="none,10gbit,1gbit,100mbit")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--sizes", default="8,4K,64K,256K,1M,4M,16M,64M,256M")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--congestion", default="", help="as perf/shaped.sh has it")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path, nargs="+", metavar="JSON",
                        help="measure nothing: the table and figures of perf/measured.md from such files, of a cell\n"
                             "those of the last one")
    options = parser.parse_args()
    if options.table:
        cells = {(row["rate"], row["ranks"], row["dtype"], row["bytes"]): row
                 for file in options.table for row in json.loads(file.read_text())["rows"]}
        rows = list(cells.values())
        print("\n".join([table(rows), "", *summary(rows)]))
        return
    rows, left_out, commands = [], [], []
    for rate in options.rates.split(","):
        for ranks in map(int, options.ranks.split(",")):
            for dtype in options.dtypes.split(","):
                for size in map(peers.parse_bytes, options.sizes.split(",")):
                    cell = Cell(options, rate, ranks, dtype, size)
                    if cell.seconds > LONGEST_SECONDS:
                        left_out.append(f"{rate}, {ranks} ranks, {dtype}, {size} bytes: a call without a codec "
                                        f"takes {cell.seconds:.0f} s")
                        continue
                    rows.append(row_of(cell, cell.run()))
                    print_row(rows[-1])
                    commands += cell.commands[:1]
    lines = summary(rows)
    print("\n".join(lines + ["left out: " + one for one in left_out]))
    if options.json:
        measured = {name: value for name, value in vars(options).items()
                    if name in ("rates", "ranks", "dtypes", "sizes", "congestion")
                    and value != parser.get_default(name)}
        words = [word for name, value in measured.items() for word in (f"--{name}", value)]
        record = {"command": shlex.join(["python3", "perf/automatic.py", *words]),
                  "time": datetime.datetime.now().isoformat(timespec="seconds"),
                  "cores": os.cpu_count(),
                  "first_commands": [one.replace(f"{ROOT}/", "") for one in commands[:3]],
                  "summary": lines, "left_out": left_out, "rows": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
