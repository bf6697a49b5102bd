#!/usr/bin/env python3
"""What `ringpress explain` predicts of codecs and algorithms beside what all-reduces take.

  python3 perf/explain_check.py --rates 1gbit,10gbit --ranks 2,4 --sizes 4M,32M --json FILE

Of a rate, a number of ranks and a size all settings have calls in turns in one run. The link's latency is what an
uncompressed call of 8 bytes takes, over the steps in which it is exchanged; its rate is what uncompressed calls of the largest
size by sra show; codecs are measured by `explain` after that. So what is predicted of that one setting and size is
true by construction, everything else is not.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODECS = "none,q4,qsgd,qsgd:norm=global,qsgd-ms:bits=4/8,tern,topk:density=0.01,randk:density=0.01,powersgd:rank=4"
# A call of so many bytes is exchanged whole, in so many steps.
LATENCY_BYTES = 8


def exchange_steps(ranks):
    doubled = ranks.bit_length() - 1
    if ranks & (ranks - 1) == 0:
        return doubled
    return doubled + 2 if ranks > 16 else 1


def parse_bytes(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def shaped(options, rate, ranks):
    words = ["bash", str(ROOT / "perf/shaped.sh"), "--ranks", str(ranks), "--rate", rate, "--pin"]
    return words + (["--congestion", options.congestion] if options.congestion else []) + ["--"]


def measure(options, rate, ranks, settings, size, calls, commands):
    """Seconds and bytes that a rank sends, by setting."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        words = shaped(options, rate, ranks) + [
            str(options.build / "perf/all_reduce_perf"), "-b", str(size), "-e", str(size), "-n", str(calls), "-w",
            "3", "-c", "0", "--placement", "in-place", "--p50", "--require-codec", "--compare", ",".join(settings),
            "-J", str(out)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"RINGPRESS_MIN_BYTES": "0"})
        commands.append(shlex.join(words))
        found = {}
        for result in json.loads(out.read_text())["results"]:
            own = result["ringpress"]
            found[own["setting"]] = (result["in_place"]["time"] * 1e-6, round(own["wire_bytes"]))
        return found


def explained(options, size, ranks, rate, latency):
    words = [str(options.build / "perf/ringpress"), "explain", str(size), "float32", str(ranks), "--rate",
             f"{rate * 8 / 1e6:.3f}mbit", "--latency", f"{latency * 1e6:.3f}us", "--codecs", options.codecs, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGPRESS")}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return {f'{call["codec"]}@{call["algorithm"]}': call for call in json.loads(done.stdout)["calls"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rates", default="1gbit")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default="4M,32M")
    parser.add_argument("--codecs", default=CODECS)
    parser.add_argument("--calls", type=int, default=21)
    parser.add_argument("--congestion", default="", help="as perf/shaped.sh has it")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    settings = [f"{codec}@{algorithm}" for codec in options.codecs.split(",") for algorithm in ("sra", "ring")]
    rows, commands = [], []
    for rate in options.rates.split(","):
        for ranks in map(int, options.ranks.split(",")):
            sizes = sorted(map(parse_bytes, options.sizes.split(",")))
            small = measure(options, rate, ranks, ["none@sra"], LATENCY_BYTES, 501, commands)
            latency = small["none@sra"][0] / exchange_steps(ranks)
            calls = {size: measure(options, rate, ranks, settings, size, options.calls, commands) for size in sizes}
            seconds, _ = calls[sizes[-1]]["none@sra"]
            link = 2 * (ranks - 1) / ranks * sizes[-1] / (seconds - 2 * latency)
            for size in sizes:
                predicted = explained(options, size, ranks, link, latency)
                for name, (seconds, sent) in calls[size].items():
                    call = predicted[name]
                    rows.append({"rate": rate, "ranks": ranks, "bytes": size, "setting": name, "measured_ms":
                                 1e3 * seconds, "predicted_ms": 1e3 * call["seconds"],
                                 "predicted_over_measured": call["seconds"] / seconds, "sent_bytes": sent,
                                 "predicted_bytes": call["wire_bytes"], "codec_ms": 1e3 * call["codec_seconds"]})
                    row = rows[-1]
                    print(f'{rate:8} {ranks} {size:>9} {name:26} {row["measured_ms"]:9.3f} ms, predicted '
                          f'{row["predicted_ms"]:9.3f} ({row["predicted_over_measured"]:.2f}); sent {sent:>9}, '
                          f'predicted {call["wire_bytes"]:>9}', flush=True)
    ratios = [row["predicted_over_measured"] for row in rows]
    within = [sum(abs(ratio - 1) <= limit for ratio in ratios) for limit in (0.1, 0.2, 0.5)]
    text = (f"{len(rows)} calls: predicted over measured {min(ratios):.2f} to {max(ratios):.2f}, median "
            f"{statistics.median(ratios):.2f}; within 10 % {within[0]}, 20 % {within[1]}, 50 % {within[2]}")
    print(text)
    if options.json:
        options.json.write_text(json.dumps({
            "command": shlex.join(["python3", *sys.argv]),
            "commands": [command.replace(f"{ROOT}/", "") for command in commands[:2]], "processors": os.cpu_count(),
            "date": datetime.date.today().isoformat(), "summary": text, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
