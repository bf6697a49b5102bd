#!/usr/bin/env python3
"""Plans the jobs in perf/jobs and puts what comes of it into perf/jobs/README.md.

  python3 perf/plan_report.py            runs build/perf/ringpress plan, writes the table between
                                         <!-- plans --> and its end, and perf/results/plan-JOB.svg
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "perf" / "ringpress"
PAGE = ROOT / "perf" / "jobs" / "README.md"
BEGIN, END = "<!-- plans -->\n", "<!-- /plans -->"
HEADER = ["job", "no compression", "all, gathered whole", "all, each its best way", "plan",
          "bound", "compressed", "on the CPU", "smallest compressed", "before a bubble"]


def plan(job):
    picture = f"plan-{job.stem}.svg"
    done = subprocess.run([PROGRAM, "plan", "--json", "--svg", ROOT / "perf/results" / picture, job],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout), picture


def row(job):
    found, picture = plan(job)
    name = json.loads(job.read_text())["name"]
    times = [f"{found[key]:.1f} ms ({found['nothing_ms'] / found[key]:.2f}x)"
             for key in ("naive_ms", "everything_ms", "plan_ms", "bound_ms")]
    smallest = f"{found['smallest_compressed_bytes'] / 1e6:.1f} MB" if found["compressed"] else ""
    return [f"[{name}](../results/{picture})", f"{found['nothing_ms']:.1f} ms", *times,
            f"{found['compressed']} of {len(found['tensors'])}", str(found["on_cpu"]), smallest,
            f"{found['before_bubble']}, {found['before_bubble_compressed']} compressed"]


def main():
    rows = [HEADER, ["---"] * len(HEADER), *map(row, sorted((ROOT / "perf/jobs").glob("*.json")))]
    table = "".join("| " + " | ".join(cells) + " |\n" for cells in rows)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{PAGE} has no {BEGIN.strip()} with an end")
    PAGE.write_text(before + BEGIN + table + END + after)


if __name__ == "__main__":
    main()
