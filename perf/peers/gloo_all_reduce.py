#!/usr/bin/env python3
"""One rank of the peer measurement with Gloo, through torch.distributed.

usage: gloo_all_reduce.py [--dtype NAME] BYTES:ITERATIONS...   (rank and address from torchrun's variables)
Rank 0 prints one JSON line per size: {"bytes", "times_us"}; times are its own, per call, in place.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist

WARMUP = 2


def measure(count, iterations, dtype):
    tensor = torch.full((count,), 1e-3, dtype=dtype)
    times = []
    for iteration in range(-WARMUP, iterations):
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        elapsed = time.perf_counter() - begin
        if iteration >= 0:
            times.append(elapsed * 1e6)
        if iteration % 16 == 0:
            tensor.fill_(1e-3)  # Keeps the sums finite.
            dist.barrier()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32", help="torch's name")
    parser.add_argument("plans", nargs="+", metavar="BYTES:ITERATIONS")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for plan in options.plans:
        size, iterations = (int(part) for part in plan.split(":"))
        times = measure(size // torch.tensor([], dtype=dtype).element_size(), iterations, dtype)
        if dist.get_rank() == 0:
            print(json.dumps({"bytes": size, "times_us": times}), flush=True)
    dist.barrier()
    # Not destroy_process_group(): the ranks end together after the barrier.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
