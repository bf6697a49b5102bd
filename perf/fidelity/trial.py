#!/usr/bin/env python3
"""One training of N workers in one process, whose gradients this library all-reduces on host memory.

usage: trial.py --task NAME --optimizer NAME --workers N --steps N --seed N --method METHOD [--library FILE]

METHOD: SPEC or SPEC+NAME=VALUE..., as RINGPRESS_CODEC=SPEC and RINGPRESS_NAME=VALUE; `none` is exact. Trials
that differ in METHOD alone begin alike and see the same batches. Prints one JSON object.

The workers share one model, as all ranks end a step with the same parameters: each computes its gradient of
a batch of its own, the buckets of 1 MiB are reduced in the order of backward, and one step is taken.
"""
import argparse
import ctypes
import json
import math
import os
import pathlib
import sys
import time

import torch
from torch import nn

import tasks

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf" / "train"))
import ringpress_api as api  # noqa: E402  pylint: disable=wrong-import-position

BUCKET_BYTES = 1 << 20
WARM_UP_STEPS, LEAST_RATE = 30, 0.1
NORM = 1.0          # Gradients are scaled down to.
LAST_LOSSES = 20    # Whose mean is the loss of training at the end.
TESTS = 10          # In a training, evenly.


class Workers:
    """The ranks of one communicator, each with its gradient in buckets."""

    def __init__(self, library, count, parameters):
        self.library = api.Library(library)
        self.handles = (ctypes.c_void_p * count)()
        unique_id = api.UniqueId()
        self.library.call("ncclGetUniqueId", ctypes.byref(unique_id))
        self.library.call("ncclGroupStart")
        for rank in range(count):
            # Each on a host of its own: automatic mode leaves calls within a host exact.
            with api.environment(NCCL_HOSTID=f"worker {rank}"):
                self.library.call("ncclCommInitRank", ctypes.byref(self.handles, rank * ctypes.sizeof(ctypes.c_void_p)),
                                  count, unique_id, rank)
        self.library.call("ncclGroupEnd")
        self.buckets = list(self.split(parameters))
        self.flat = [[torch.zeros(sum(p.numel() for p in bucket)) for bucket in self.buckets]
                     for _ in range(count)]

    @staticmethod
    def split(parameters):
        """As DistributedDataParallel does, from the last parameter on."""
        bucket, size = [], 0
        for parameter in reversed(parameters):
            bucket.append(parameter)
            size += 4 * parameter.numel()
            if size >= BUCKET_BYTES:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket

    def keep_gradient(self, worker):
        for flat, bucket in zip(self.flat[worker], self.buckets):
            torch.cat([p.grad.flatten() for p in bucket], out=flat)

    def reduce(self):
        """The mean of all workers' gradients becomes that of the parameters."""
        for index, bucket in enumerate(self.buckets):
            self.library.call("ncclGroupStart")
            for flat, handle in zip((of_rank[index] for of_rank in self.flat), self.handles):
                pointer = ctypes.c_void_p(flat.data_ptr())
                self.library.call("ncclAllReduce", pointer, pointer, ctypes.c_size_t(flat.numel()),
                                  api.FLOAT32, api.AVG, ctypes.c_void_p(handle), None)
            self.library.call("ncclGroupEnd")
            first = self.flat[0][index]
            for p, part in zip(bucket, first.split([p.numel() for p in bucket])):
                p.grad.copy_(part.view_as(p))

    def equal(self):
        """Whether all ranks ended the last step with the same bytes."""
        return all(torch.equal(of_rank[i].view(torch.int32), self.flat[0][i].view(torch.int32))
                   for of_rank in self.flat for i in range(len(self.buckets)))

    def statistics(self):
        found = api.Statistics(size=ctypes.sizeof(api.Statistics))
        self.library.call("ringpressGetStatistics", ctypes.c_void_p(self.handles[0]), ctypes.byref(found))
        return found

    def destroy(self):
        for handle in self.handles:
            self.library.call("ncclCommDestroy", ctypes.c_void_p(handle))


def rate_of(step, steps, largest):
    """Warm-up, then a cosine down to a tenth."""
    decay = 0.5 * (1 + math.cos(math.pi * step / steps)) * (1 - LEAST_RATE) + LEAST_RATE
    return largest * min(1, (step + 1) / WARM_UP_STEPS) * decay


def make_optimizer(name, parameters):
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1, weight_decay=0.01)
    return torch.optim.SGD(parameters, lr=1, momentum=0.9)


def loss_of(model, inputs, classes):
    found = model(inputs)
    return nn.functional.cross_entropy(found.flatten(0, -2), classes.flatten()), found


def test(model, batches):
    """(Loss, share of classes that are told right)."""
    model.eval()
    losses, right, all_classes = [], 0, 0
    with torch.no_grad():
        for inputs, classes in batches:
            loss, found = loss_of(model, inputs, classes)
            losses.append(loss.item())
            right += (found.argmax(-1) == classes).sum().item()
            all_classes += classes.numel()
    model.train()
    return sum(losses) / len(losses), right / all_classes


def train(options):
    torch.set_num_threads(1)
    task = tasks.TASKS[options.task]()
    torch.manual_seed(options.seed)
    model = task.model()
    parameters = list(model.parameters())
    optimizer = make_optimizer(options.optimizer, parameters)
    workers = Workers(options.library, options.workers, parameters)
    generators = [torch.Generator().manual_seed(1000 * options.seed + worker)
                  for worker in range(options.workers)]
    batches, losses, tests, seconds = task.test(), [], [], 0.0
    largest = tasks.RATES[options.optimizer][options.task]
    for step in range(options.steps):
        begin = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, options.steps, largest)
        total = 0.0
        for worker, generator in enumerate(generators):
            optimizer.zero_grad()
            loss, _ = loss_of(model, *task.batch(generator))
            loss.backward()
            total += loss.item()
            workers.keep_gradient(worker)
        workers.reduce()
        nn.utils.clip_grad_norm_(parameters, NORM)
        optimizer.step()
        losses.append(total / options.workers)
        seconds += time.monotonic() - begin
        if (step + 1) * TESTS // options.steps > step * TESTS // options.steps:
            tests.append((step + 1, *test(model, batches)))
    return report(options, workers, losses, tests, seconds)


def report(options, workers, losses, tests, seconds):
    counted, are_equal = workers.statistics(), workers.equal()
    workers.destroy()
    return {"task": options.task, "optimizer": options.optimizer, "workers": options.workers,
            "steps": options.steps, "seed": options.seed, "method": options.method,
            "parameters": sum(flat.numel() for flat in workers.flat[0]),
            "train_loss": sum(losses[-LAST_LOSSES:]) / len(losses[-LAST_LOSSES:]),
            "loss": tests[-1][1], "best_loss": min(loss for _, loss, _ in tests),
            "accuracy": tests[-1][2], "tests": tests, "losses": [round(loss, 5) for loss in losses],
            "ranks_agree": are_equal, "compressed_calls": counted.compressed_calls, "calls": counted.calls,
            "raw_bytes": counted.raw_bytes, "wire_bytes": counted.wire_bytes,
            "codec": counted.codec.decode(), "seconds": seconds}


def set_method(method):
    """The settings are this method's alone."""
    for name in [name for name in os.environ if name.startswith("RINGPRESS")]:
        del os.environ[name]
    specification, *variables = method.split("+")
    os.environ.update({"RINGPRESS_CODEC": specification, "RINGPRESS_BACKEND": "host", "RINGPRESS_CACHE": "off"})
    for variable in variables:
        name, value = variable.split("=", 1)
        os.environ[f"RINGPRESS_{name}"] = value


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=tasks.TASKS, required=True)
    parser.add_argument("--optimizer", choices=tasks.RATES, required=True)
    for name in ("workers", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--method", required=True)
    parser.add_argument("--library", default=ROOT / "build" / "lib" / "libringpress.so")
    return parser.parse_args(words)


def main():
    options = parse(sys.argv[1:])
    set_method(options.method)
    print(json.dumps(train(options)))


if __name__ == "__main__":
    main()
