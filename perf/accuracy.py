#!/usr/bin/env python3
"""Error against bits of every codec, on gradients and on four laws.

  python3 perf/accuracy.py                     build/perf/codec_accuracy, gradients of
                                               shared/data/gradients if there, else of tests/data
  python3 perf/accuracy.py --data FOLDER       gradients in FOLDER (NAME_rank0.npy ...) instead

Writes perf/results/accuracy.json with the command; perf/plots/main.py error draws it. No package beyond the
standard library is needed.
"""
import argparse
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "perf" / "results"
PEERS = ["q4:grid=minmax,block=512", "q4:grid=minmax,block=1024"]
VARIANTS = [f"q{bits}:{parameters}" for parameters in
            ("grid=uniform", "grid=lloyd", "grid=lloyd,round=stochastic",
             "grid=uniform,round=stochastic") for bits in range(1, 9)]


def prefixes(folder):
    return sorted(str(path)[:-len("_rank0.npy")] for path in folder.glob("*_rank0.npy"))


def is_quantiser(codec):
    """q1 .. q8, which are measured by grid."""
    name = codec.partition(":")[0]
    return name[0] == "q" and name[1:].isdigit()


def rounded(row):
    """Numbers to four digits: more would be noise of the draw."""
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in row.items()}


def described(program):
    """The rows of the table in compress_kernels/codecs.md, in words."""
    text = subprocess.run([program, "--describe"], text=True, capture_output=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def measure(arguments):
    codecs = described(arguments.build / "perf" / "codec_accuracy")
    names = subprocess.run([arguments.build / "perf" / "codec_accuracy", "--list"], text=True,
                           capture_output=True, check=True).stdout.split()
    shared = ROOT / "shared" / "data" / "gradients"
    folder = arguments.data or (shared if shared.is_dir() else ROOT / "tests" / "data")
    gradients = prefixes(folder)
    command = [str(arguments.build / "perf" / "codec_accuracy"), "--codecs",
               *dict.fromkeys([name for name in names if not is_quantiser(name)] + VARIANTS + PEERS +
                              [row["codec"] for row in codecs]), "--gradients", *gradients]
    lines = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout
    names = [os.path.relpath(prefix, ROOT) for prefix in gradients]
    shown = shlex.join(["build/perf/codec_accuracy", *command[1:-len(gradients)], *names])
    return {"command": shown, "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "codecs": codecs,
            "rows": [rounded(json.loads(line)) for line in lines.splitlines()]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, help="folder of gradients")
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS / "accuracy.json")
    arguments = parser.parse_args()
    report = measure(arguments)
    rows = ",\n".join(json.dumps(row) for row in report.pop("rows"))
    arguments.json.write_text(json.dumps(report)[:-1] + ', "rows": [\n' + rows + "\n]}\n",
                              encoding="utf-8")
    print(f"written: {arguments.json}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
