#!/usr/bin/env python3
"""Times the selection of the largest 1 % of 25 million values: topk's against torch.topk, in turn.

  taskset -c 1 /usr/bin/python3 perf/topk_selection.py [--rounds 7]

Both on one core. topk's is everything before its bytes are sent: it finds the threshold in the whole
tensor and encodes values and places. torch.topk gets magnitudes that were taken before. Needs
python3-torch and build/perf/codec_perf; prints the medians of both and of the ratios of neighbours.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNT = 25_000_000
BYTES = 4 * COUNT


def torch_seconds(magnitudes):
    begin = time.perf_counter()
    torch.topk(magnitudes, COUNT // 100)
    return time.perf_counter() - begin


def selection_seconds(build):
    """The median of a few, from the rate that codec_perf measures."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([build / "perf" / "codec_perf", "--codec", "topk:density=0.01", "--op", "select",
                        "--bytes", str(BYTES), "--reps", "5", "--json", file.name],
                       stdout=subprocess.DEVNULL, check=True)
        row = json.loads(pathlib.Path(file.name).read_text())["rows"][0]
    return BYTES / row["gigabytes_per_second"] * 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    magnitudes = torch.randn(COUNT).abs()
    torch_seconds(magnitudes)
    pairs = [(torch_seconds(magnitudes), selection_seconds(arguments.build))
             for _ in range(arguments.rounds)]
    ratios = [theirs / ours for theirs, ours in pairs]
    print(f"torch {torch.__version__} topk: {statistics.median(p[0] for p in pairs) * 1e3:.0f} ms")
    print(f"topk select: {statistics.median(p[1] for p in pairs) * 1e3:.2f} ms")
    print(f"ratio: {statistics.median(ratios):.1f}x ({min(ratios):.1f} to {max(ratios):.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
