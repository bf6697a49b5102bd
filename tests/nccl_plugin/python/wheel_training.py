#!/usr/bin/env python3
"""Trains by Gloo and by ringpress, from the installed wheel, with the two programs of nccl_plugin/python/examples.

usage: wheel_training.py EXAMPLES FOLDER

Fails if the programs differ in more than 5 lines; if a loss does not fall; if ranks end with other parameters, or with a
loss far from Gloo's; or if gradients were not compressed. wheel.sh calls it.
"""
import difflib
import json
import os
import pathlib
import socket
import subprocess
import sys

import torch
import ringpress

RANKS = 2
CHANGED_LINES = 5
FARTHEST = 1.05  # The last loss, as a multiple of Gloo's.
ALL_COMPRESSED = 0.9  # The share of calls: torch makes a few of its own when it starts.


def changed_lines(before, after):
    """Those that diff has added and those that it has removed."""
    lines = difflib.ndiff(before.read_text(encoding="utf-8").splitlines(), after.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line[0] in "+-"]


def by_torchrun(program):
    return [[sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc_per_node", str(RANKS),
             "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", str(program)]], [{}]


def one_by_one(program):
    """For torch 1.13, whose torchrun does not run in Python 3.11."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(RANKS)}
    return [[sys.executable, str(program)]] * RANKS, [{**meeting, "RANK": str(rank)} for rank in range(RANKS)]


def trained(program, settings):
    """What each rank has printed, in their order."""
    commands, places = (one_by_one if torch.__version__.startswith("1.") else by_torchrun)(program)
    jobs = [subprocess.Popen(command, env={**os.environ, **settings, **place}, stdout=subprocess.PIPE, text=True)
            for command, place in zip(commands, places)]
    lines = [line for job in jobs for line in job.communicate(timeout=900)[0].splitlines()]
    assert all(job.returncode == 0 for job in jobs), f"{program}: {[job.returncode for job in jobs]}"
    results = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(results) == RANKS, lines
    return sorted(results, key=lambda result: result["rank"])


def check_training(results):
    for result in results:
        print("{backend:10} rank {rank}: loss {first:.4f} -> {last:.4f}, parameters {parameters:.16}".format(**result))
        assert result["last"] < 0.8 * result["first"], result
    assert len({result["parameters"] for result in results}) == 1, results


def check_statistics(path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == RANKS, lines
    for line in lines:
        print("rank {rank}: {compressed_calls} of {calls} calls compressed by {last_codec}, "
              "{raw_bytes} bytes of calls, {wire_bytes} bytes sent".format(**line))
        reduced = line["calls"] - sum(line["exact_calls"].values())
        assert line["compressed_calls"] >= ALL_COMPRESSED * reduced > 0, line
        assert line["wire_bytes"] < line["raw_bytes"] / 4, line


def main():
    examples, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    before, after = examples / "train_gloo.py", examples / "train_ringpress.py"
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, {ringpress.library_path().name} of the wheel")
    assert str(ringpress.library_path()).startswith(sys.prefix), ringpress.library_path()
    lines = changed_lines(before, after)
    print(f"{len(lines)} lines of diff:", *lines, sep="\n  ")
    assert 0 < len(lines) <= CHANGED_LINES, lines
    gloo = trained(before, {})
    check_training(gloo)
    statistics = folder / "statistics.jsonl"
    # Ranks of one host are left exact unless a codec is named.
    found = trained(after, {"RINGPRESS_CODEC": "q4", "RINGPRESS_STATS": str(statistics)})
    check_training(found)
    for result, wanted in zip(found, gloo):
        assert result["last"] < FARTHEST * wanted["last"], (result, wanted)
    check_statistics(statistics)


if __name__ == "__main__":
    main()
