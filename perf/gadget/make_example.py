#!/usr/bin/env python3
"""Writes the example for `ringpress schedule`: cluster.json and jobs.json beside this script.

usage: make_example.py [--check]      --check: says whether the files are what it would write
"""
import json
import pathlib
import random
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
# What the paper's jobs look like: workers, GPUs of a worker, Gb/s of the ring, iterations.
KINDS = [("resnet", 4, 1, 2.0, 180), ("bert", 5, 2, 4.5, 60), ("lstm", 3, 1, 1.0, 240),
         ("gpt2", 5, 2, 5.0, 40)]


def cluster():
    servers = []
    for i, gpus in enumerate([8, 4, 4, 2, 8, 4, 2, 1]):
        servers.append({"name": f"node{i}", "rack": f"rack{i // 4}", "gigabits_per_second": 10,
                        "has": {"gpus": gpus, "memory_gb": 64 * gpus}})
    return {"name": "two racks of four servers", "resources": ["gpus", "memory_gb"],
            "racks": [{"name": "rack0", "gigabits_per_second": 20},
                      {"name": "rack1", "gigabits_per_second": 20}], "servers": servers}


def utility(draw, number):
    scale = draw.randrange(5, 50)
    return [{"kind": "sqrt", "scale": scale}, {"kind": "log", "scale": 10 * scale},
            {"kind": "sigmoid", "scale": 50 * scale, "steepness": 0.005, "midpoint": 1500},
            {"kind": "energy", "scale": round(0.01 * scale, 2), "cost": 1e-6 * scale}][number % 4]


def model():
    """As RINGPRESS_TRACE writes it: a ResNet-50 with `q4`."""
    return {"workers": 4, "codec": "q4", "bytes_per_step": 102228128,
            "ratio_reduce_scatter": 0.151, "ratio_all_gather": 0.129,
            "link_gigabytes_per_second": 0.118, "codec_gigabytes_per_second": 2.1,
            "compute_ms": 310, "overhead_ms": 1.2}


def jobs():
    draw = random.Random(4)
    found = []
    for i in range(16):
        kind, workers, gpus, rate, iterations = KINDS[draw.randrange(4)]
        found.append({"name": f"{kind}-{i}", "arrival": i // 2, "workers": workers,
                      "needs": {"gpus": gpus, "memory_gb": 32 * gpus},
                      "lifetime": {"gpus": 20 * gpus}, "ring_gigabits_per_second": rate,
                      "ratio": [1, 0.25][i % 2], "iterations_per_worker_slot": iterations,
                      "utility": utility(draw, i)})
    for job in found[5::8]:
        del job["ratio"], job["iterations_per_worker_slot"]
        job["model"] = model()
    return {"name": "sixteen jobs", "slot_seconds": 60, "jobs": found}


def text(document):
    """A line for each item of a list."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            items = ",\n".join("    " + json.dumps(item) for item in value)
            lines.append(f"  {json.dumps(name)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    status = 0
    for name, document in (("cluster.json", cluster()), ("jobs.json", jobs())):
        path = FOLDER / name
        if sys.argv[1:] != ["--check"]:
            path.write_text(text(document))
        elif not path.is_file() or path.read_text() != text(document):
            print(f"{path} is not what this script writes", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
