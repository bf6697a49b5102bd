#!/usr/bin/env python3
"""Joins the JSON files of the demo's runs: prints the table, writes demo.json.

usage: report.py --rate RATE --json FILE "TITLE=run.json"...
Python's standard library only.
"""
import argparse
import json
import os
import pathlib
import platform
import sys


def read_run(title, path):
    """The rows of one all_reduce_perf run, as the demo shows them."""
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    rows = []
    for result in report["results"]:
        own = result["ringpress"]
        times = result["out_of_place_per_iter"]
        rows.append({
            "setting": own["setting"], "codec": own["codec"], "algorithm": own["algorithm"],
            "bytes": result["size"], "time_us": result["out_of_place"]["time"],
            "min_us": times["min_us"], "max_us": times["max_us"],
            "algbw": result["out_of_place"]["alg_bw"], "busbw": result["out_of_place"]["bus_bw"],
            "ratio": own["ratio"], "wire_bytes": own["wire_bytes"], "relerr": own["relerr"],
            "mean_relerr": own["mean_relerr"], "identical": own["identical"],
        })
    config = report["config"]
    return {"title": title, "ranks": len(config["devices"]), "mean_of": config["mean_of"], "rows": rows}


def machine():
    cpu = platform.processor()
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores, {cpu}, Linux {platform.release()}"


COLUMNS = ("setting", "time", "speed-up", "algbw", "busbw", "ratio", "sent/rank", "relerr", "of mean", "agree")


def cells(row, baseline):
    """One table row as text, in the order of COLUMNS."""
    return (row["setting"], f"{row['time_us'] / 1e3:.2f} ms",
            f"{baseline['time_us'] / row['time_us']:.2f}x", f"{row['algbw']:.3f}",
            f"{row['busbw']:.3f}", f"{row['ratio']:.2f}", f"{row['wire_bytes'] / 1e6:.3f} MB",
            f"{row['relerr']:.1e}", f"{row['mean_relerr']:.1e}",
            "yes" if row["identical"] else "NO")


def print_table(demo):
    print(f"{demo['ranks']} ranks, {demo['rate']} links, float32 sum; {demo['machine']}")
    print("time: median; algbw, busbw: GB/s of uncompressed bytes; relerr: ||y - exact|| / ||exact||"
          " of the worst timed call that was looked at; of mean: the same of the mean of several calls, whose errors"
          " error feedback makes up for; agree: all ranks bit for bit; auto: the default, after it has tried what pays")
    for run in demo["runs"]:
        print(f"\n{run['title']}: {run['rows'][0]['bytes'] / 1e6:.2f} MB a rank; of mean: of {run['mean_of']} calls")
        print("  " + " ".join(f"{column:>11}" for column in COLUMNS))
        for row in run["rows"]:
            print("  " + " ".join(f"{cell:>11}" for cell in cells(row, run["rows"][0])))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", required=True)
    parser.add_argument("--json", required=True, type=pathlib.Path)
    parser.add_argument("runs", nargs="+", metavar="TITLE=run.json")
    arguments = parser.parse_args()
    runs = [read_run(*text.rsplit("=", 1)) for text in arguments.runs]
    demo = {"machine": machine(), "rate": arguments.rate, "ranks": runs[0]["ranks"], "runs": runs}
    arguments.json.write_text(json.dumps(demo, indent=1) + "\n", encoding="utf-8")
    print_table(demo)
    return 0 if all(row["identical"] for run in runs for row in run["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
