#!/usr/bin/env python3
"""All-reduces round a ring over shaped links, beside what a job's model says of them.

The model is what RINGPRESS_TRACE writes of one run: 4 ranks, 8 MB. All times of 2 to 8 ranks and of
three sizes come from it alone, uncompressed and compressed. Bytes do not: a partial sum of more
ranks has more bits, so the ratio is the one that the library reports of each number of ranks.
Measured: medians of calls of all_reduce_perf, out-of-place and in-place.

usage: ring_times.py [--rate 200mbit] [--build build]      writes perf/results/gadget_tau.json
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = range(2, 9)
SIZES_MB = (4, 8, 16)
CODECS = ("none", "q4")
MODEL_RANKS, MODEL_MB = 4, 8
RUNS = {"none": 4, "q4": 10}


def shaped(options, ranks, environment, *arguments):
    command = [ROOT / "perf" / "shaped.sh", "--ranks", str(ranks), "--rate", options.rate, "--",
               "env", "RINGPRESS_ALGO=ring", *environment,
               ROOT / options.build / "perf" / "all_reduce_perf", "-w", "1", "--require-codec",
               *arguments]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def measured_rings(options, ranks, codec):
    """Seconds and ratio of each size, in the order of SIZES_MB."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        shaped(options, ranks, ["RINGPRESS_EF=0"], "-b", f"{SIZES_MB[0]}M", "-e",
               f"{SIZES_MB[-1]}M", "-f", "2", "-n", RUNS[codec], "--codec", codec, "-J", report)
        results = json.loads(report.read_text())["results"]
    rings = []
    for result in results:
        times = [time for place in ("out_of_place_per_iter", "in_place_per_iter")
                 for time in result[place]["times_us"]]
        rings.append((1e-6 * statistics.median(times), result["ringpress"]["ratio"]))
    return rings


def measured_model(options, codec):
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "job.json"
        shaped(options, MODEL_RANKS, [f"RINGPRESS_TRACE={trace}", "RINGPRESS_EF=0"],
               "-b", f"{MODEL_MB}M", "-e", f"{MODEL_MB}M", "-n", 12, "--codec", codec)
        return json.loads(trace.read_text())["model"]


def predicted_seconds(model, ranks, megabytes, ratio):
    """The formula of include/ringpress/internal/job_model.h, of one call and no compute."""
    per_byte = 2 / ratio / (1e9 * model["link_gigabytes_per_second"])
    if "codec_gigabytes_per_second" in model:
        per_byte += 1e-9 / model["codec_gigabytes_per_second"]
    calls = model["bytes_per_step"] / (MODEL_MB * 2 ** 20)
    return (megabytes * 2 ** 20 * (ranks - 1) / ranks * per_byte
            + 1e-3 * model["overhead_ms"] / calls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    print(f"perf/gadget/ring_times.py: links of {options.rate}, model of {MODEL_RANKS} ranks and "
          f"{MODEL_MB} MB\n")
    print("| codec | ranks | " + " | ".join(f"{size} MB: predicted / measured ms" for size in SIZES_MB)
          + " |\n|---|---|" + "---|" * len(SIZES_MB))
    rows, worst = [], 0
    models = {codec: measured_model(options, codec) for codec in CODECS}
    for codec in CODECS:
        for ranks in RANKS:
            cells = []
            for size, (measured, ratio) in zip(SIZES_MB, measured_rings(options, ranks, codec)):
                predicted = predicted_seconds(models[codec], ranks, size, ratio)
                rows.append({"codec": codec, "ranks": ranks, "megabytes": size, "ratio": ratio,
                             "measured_seconds": measured, "predicted_seconds": predicted})
                worst = max(worst, abs(predicted / measured - 1))
                cells.append(f"{1e3 * predicted:.1f} / {1e3 * measured:.1f} "
                             f"({predicted / measured:.3f})")
            print(f"| `{codec}` | {ranks} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nlargest difference: {100 * worst:.1f} %")
    result = {"rate": options.rate, "models": models, "rings": rows}
    (ROOT / "perf" / "results" / "gadget_tau.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
