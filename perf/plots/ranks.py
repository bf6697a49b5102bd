#!/usr/bin/env python3
"""Time of one all-reduce against the number of ranks: measured as far as this machine goes, then the model.

usage: ranks.py [--build FOLDER] [--rate 1gbit] [--bytes 16M] [--measured 2,4,8] [--model 2,...,1024]
                [--settings none,q8,q4,q2] [--json FILE]

Each rank has a network namespace and a link of its own (perf/shaped.sh), all share this machine's cores. The
model is that of `ringpress explain`, with codecs as quick as they are on this machine alone. Both take `sra`.
`main.py ranks FILE` draws it.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALGORITHM = "sra"


def numbers(text):
    return [int(word) for word in text.split(",")]


def run(command):
    print(shlex.join(command), file=sys.stderr)
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT).stdout


def measured(options, ranks):
    settings = ",".join(f"{setting}@{ALGORITHM}" for setting in options.settings.split(","))
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        run(["bash", "perf/shaped.sh", "--ranks", str(ranks), "--rate", options.rate, "--",
             str(options.build / "perf" / "all_reduce_perf"), "-b", options.bytes, "-e", options.bytes, "-n", "9", "-w", "2",
             "-c", "0", "--placement", "in-place", "--p50", "--compare", settings, "-J", report.name])
        results = json.loads(pathlib.Path(report.name).read_text(encoding="utf-8"))["results"]
    return [row(result["ringpress"]["setting"].partition("@")[0], ranks, result["in_place"]["time"] / 1e3, True) for result in results]


def predicted(options, ranks):
    text = run([str(options.build / "perf" / "ringpress"), "explain", options.bytes, "float32", str(ranks), "--rate",
                options.rate, "--codecs", options.settings, "--json"])
    calls = [call for call in json.loads(text)["calls"] if call["algorithm"] == ALGORITHM]
    return [row(call["codec"].partition(":")[0], ranks, 1e3 * call["seconds"], False) for call in calls]


def row(setting, ranks, milliseconds, is_measured):
    return {"setting": setting, "ranks": ranks, "milliseconds": round(milliseconds, 3), "is_measured": is_measured}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--bytes", default="16M")
    parser.add_argument("--measured", type=numbers, default=[2, 4, 8])
    parser.add_argument("--model", type=numbers, default=[2 ** power for power in range(1, 11)])
    parser.add_argument("--settings", default="none,q8,q4,q2")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "perf" / "results" / "ranks.json")
    options = parser.parse_args()
    rows = [row for ranks in options.measured for row in measured(options, ranks)]
    rows += [row for ranks in options.model for row in predicted(options, ranks)]
    order = options.settings.split(",")
    rows.sort(key=lambda row: (not row["is_measured"], order.index(row["setting"]), row["ranks"]))
    report = {"title": f"One all-reduce of {options.bytes} of float32 over {options.rate} links",
              "command": shlex.join(["perf/plots/ranks.py", *sys.argv[1:]]), "rows": rows}
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.json}", file=sys.stderr)


if __name__ == "__main__":
    main()
