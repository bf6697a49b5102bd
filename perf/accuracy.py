#!/usr/bin/env python3
"""Error against bits of every codec, on gradients and on four laws.

  python3 perf/accuracy.py                     build/perf/codec_accuracy, gradients of
                                               shared/data/gradients if there, else of tests/data
  python3 perf/accuracy.py --data FOLDER       gradients in FOLDER (NAME_rank0.npy ...) instead

Writes perf/results/accuracy.json with the command, and perf/results/accuracy.svg: one panel per
law, single shot. No package beyond the standard library is needed.
"""
import argparse
import json
import math
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
WIDTH, HEIGHT, MARGIN = 420, 300, 48
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf",
           "#7f7f7f", "#bcbd22", "#000000", "#aec7e8", "#ffbb78", "#98df8a", "#c5b0d5", "#f7b6d2",
           "#9edae5", "#dbdb8d", "#8c6d31", "#393b79"]


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


def family(codec):
    """What is drawn in one colour: the grid of a quantiser, or the codec's name."""
    name, _, parameters = codec.partition(":")
    values = dict(part.split("=") for part in parameters.split(",") if part)
    if is_quantiser(codec):
        block = f" of {values['block']}" if "block" in values else ""
        return f"qB {values.get('grid', 'uniform')}{block}" + (
            ", unbiased" if values.get("round") == "stochastic" else "")
    return name


def panel(rows, law, colours):
    points = [row for row in rows if row["mode"] == "single" and row["data"] == law and
              row["error"] > 0]
    low, high = -8, 0
    x = lambda bits: MARGIN + (WIDTH - 1.4 * MARGIN) * min(bits, 17) / 17
    y = lambda error: (HEIGHT - MARGIN) - (HEIGHT - 1.8 * MARGIN) * (
        max(low, min(high, math.log10(error))) - low) / (high - low)
    parts = [f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-weight="bold">{law}</text>']
    for exponent in range(low, high + 1):
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - 0.4 * MARGIN}" y1="{y(10 ** exponent)}" '
                     f'y2="{y(10 ** exponent)}" stroke="#ddd"/>'
                     f'<text x="{MARGIN - 4}" y="{y(10 ** exponent) + 4}" text-anchor="end">'
                     f'1e{exponent}</text>')
    for bits in (0, 2, 4, 8, 16):
        parts.append(f'<text x="{x(bits)}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">'
                     f'{bits}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">bits per value'
                 '</text>')
    if law == "gaussian":
        ends = [(0, 1), (13, 2 ** -26)]
        parts.append('<polyline fill="none" stroke="#999" stroke-dasharray="4 3" points="' +
                     " ".join(f"{x(b):.1f},{y(e):.1f}" for b, e in ends) + '"/>')
    for name, colour in colours.items():
        line = sorted((row["bits"], row["error"]) for row in points
                      if family(row["codec"]) == name)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-opacity="0.5" points="' +
                     " ".join(f"{x(b):.1f},{y(e):.1f}" for b, e in line) + '"/>')
    for row in points:
        parts.append(f'<circle cx="{x(row["bits"]):.1f}" cy="{y(row["error"]):.1f}" r="4" '
                     f'fill="{colours[family(row["codec"])]}"><title>{row["codec"]}: '
                     f'{row["error"]:.2e} at {row["bits"]:.2f} bits</title></circle>')
    return parts


def draw(rows):
    laws = list(dict.fromkeys(row["data"] for row in rows))[:4]
    families = list(dict.fromkeys(family(row["codec"]) for row in rows
                                  if row["mode"] == "single" and row["error"] > 0))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(families)}
    total_width, total_height = 2 * WIDTH, 2 * HEIGHT + 20 * ((len(families) + 4) // 4) + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" '
             f'height="{total_height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{total_width}" height="{total_height}" fill="white"/>']
    for i, law in enumerate(laws):
        parts += [f'<g transform="translate({i % 2 * WIDTH},{i // 2 * HEIGHT})">',
                  *panel(rows, law, colours), "</g>"]
    for i, name in enumerate(families + ["no quantiser is below (Gaussian)"]):
        left, top = 20 + i % 4 * 200, 2 * HEIGHT + 14 + i // 4 * 20
        parts.append(f'<circle cx="{left}" cy="{top}" r="5" fill="{colours.get(name, "#999")}"/>'
                     f'<text x="{left + 10}" y="{top + 4}">{name}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, help="folder of gradients")
    parser.add_argument("--json", type=pathlib.Path, default=RESULTS / "accuracy.json")
    arguments = parser.parse_args()
    report = measure(arguments)
    picture = draw(report["rows"])
    rows = ",\n".join(json.dumps(row) for row in report.pop("rows"))
    arguments.json.write_text(json.dumps(report)[:-1] + ', "rows": [\n' + rows + "\n]}\n",
                              encoding="utf-8")
    arguments.json.with_suffix(".svg").write_text(picture, encoding="utf-8")
    print(f"written: {arguments.json} and {arguments.json.with_suffix('.svg')}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
