#!/usr/bin/env python3
"""Automatic mode and one fixed setting alone, in turns, call by call, in several runs.

  python3 perf/automatic_pairs.py --sizes 8,4K,64K --rates none,10gbit --json FILE
  python3 perf/automatic_pairs.py --behind perf/results/automatic-fast-reno.json --between 256K,16M --json FILE

perf/automatic.py measures each cell once, most settings in runs of their own, so that what it finds of a cell
is as uncertain as a run. With --behind, the cells in which automatic mode was behind there are looked at again,
each beside the setting that was the best one.

Between those runs are runs with that setting twice, which show what such a ratio is worth: two connections
between the same processes can be a tenth apart for as long as they last. A run is two, in which either of the
two has the first communicator.
Ratios are the setting's time over automatic mode's, the geometric mean of the two. Calls of half the size come
first: TCP acknowledges otherwise, and sooner, where a connection's messages have all been of one size, as no
real program's are, nor automatic mode's, whose trials differ.
"""
import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import shlex
import statistics
import sys

import automatic

BEHIND_PLAIN, BEHIND_FIXED = 0.97, 0.95  # What automatic mode is to reach of the best.


def measure_pair(cell, setting, other):
    """The setting's time over that of the other one, with either of them first, and what the other one had in
    both runs."""
    calls = automatic.clamp(1 / cell.seconds, 10, 1000)
    ratio, codecs = 1, []
    for pair, place in (((setting, other), 0), ((other, setting), 1)):
        measured = cell.measure(pair, calls, cell.settled_calls(), first_size=cell.size // 2)
        one, two = measured[place], measured[1 - place]
        ratio *= one[0] / two[0]
        codecs.append(two[1])
    return math.sqrt(ratio), codecs


def run_pairs(cell, setting, runs):
    found = {"auto": [], "itself": []}
    for _ in range(runs):
        found["auto"].append(measure_pair(cell, setting, "auto"))
        found["itself"].append(measure_pair(cell, setting, setting))
    row = {"rate": cell.rate, "ranks": cell.ranks, "dtype": cell.dtype, "bytes": cell.size, "setting": setting,
           "choices": dict(collections.Counter(codec for _, codecs in found["auto"] for codec in codecs))}
    for other, pairs in found.items():
        row[f"ratios_to_{other}"] = [ratio for ratio, _ in pairs]
        row[f"over_{other}"] = statistics.median(row[f"ratios_to_{other}"])
    return row


def summary(rows):
    lines = []
    for other, name in (("auto", "automatic mode's"), ("itself", "its own in another communicator")):
        ratios = [row[f"over_{other}"] for row in rows]
        lines.append(f"{len(rows)} cells, the setting's time over {name}: least {min(ratios):.2f}, median "
                     f"{statistics.median(ratios):.2f}; below 0.97: {sum(ratio < 0.97 for ratio in ratios)}; below "
                     f"0.95: {sum(ratio < 0.95 for ratio in ratios)}")
    return lines


def print_row(row):
    choices = ", ".join(f"{name} {count}" for name, count in row["choices"].items())
    texts = [f"over {other} {row[f'over_{other}']:.3f} ({min(row[f'ratios_to_{other}']):.2f} to "
             f"{max(row[f'ratios_to_{other}']):.2f})" for other in ("auto", "itself")]
    print(f"{row['rate']:8} {row['ranks']} {row['dtype']:4} {row['bytes']:>10} {row['setting']:4} "
          f"{'; '.join(texts)}; auto chose {choices}", flush=True)


def cells_of(options):
    """(cell, setting beside which it is measured)."""
    if not options.behind:
        for rate in options.rates.split(","):
            for ranks in map(int, options.ranks.split(",")):
                for dtype in options.dtypes.split(","):
                    for size in map(automatic.peers.parse_bytes, options.sizes.split(",")):
                        yield automatic.Cell(options, rate, ranks, dtype, size), options.beside
        return
    least, most = map(automatic.peers.parse_bytes, options.between.split(","))
    for row in (row for file in options.behind for row in json.loads(file.read_text())["rows"]):
        is_behind = row["over_better_plain"] < BEHIND_PLAIN or row["over_best_fixed"] < BEHIND_FIXED
        if not is_behind or not least <= row["bytes"] <= most:
            continue
        fixed = {name: row[f"{name}_us"] for name in automatic.FIXED if f"{name}_us" in row}
        yield (automatic.Cell(options, row["rate"], row["ranks"], row["dtype"], row["bytes"]),
               min(fixed, key=fixed.get))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rates", default="none,10gbit,1gbit,100mbit")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--sizes", default="8,4K,64K")
    parser.add_argument("--beside", default="none", help="the fixed setting")
    parser.add_argument("--behind", type=pathlib.Path, nargs="+", metavar="JSON",
                        help="the cells of such files of perf/automatic.py in which automatic mode was behind")
    parser.add_argument("--between", default="8,64M", metavar="LEAST,MOST", help="sizes of these cells")
    parser.add_argument("--build", type=pathlib.Path, default=automatic.ROOT / "build")
    parser.add_argument("--congestion", default="", help="as perf/shaped.sh has it")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse_options()
    rows, commands = [], []
    for cell, setting in cells_of(options):
        rows.append(run_pairs(cell, setting, options.runs))
        print_row(rows[-1])
        commands += cell.commands[:1]
    lines = summary(rows)
    print("\n".join(lines))
    if options.json:
        record = {"command": shlex.join(["python3", "perf/automatic_pairs.py", *sys.argv[1:]]),
                  "time": datetime.datetime.now().isoformat(timespec="seconds"), "cores": os.cpu_count(),
                  "first_commands": [one.replace(f"{automatic.ROOT}/", "") for one in commands[:3]],
                  "summary": lines, "rows": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
