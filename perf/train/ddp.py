#!/usr/bin/env python3
"""A data-parallel training with PyTorch on host memory, with and without compression.

  perf/shaped.sh --ranks 2 --rate 100mbit --pin -- python3 perf/train/ddp.py --folder EMPTY_FOLDER

Needs PyTorch (Debian: python3-torch, and libopenblas0-pthread, without which it takes ten times as long) and
build/lib/libringpress.so. The training is one that DistributedDataParallel does, buckets and overlap with
backward included; a communication hook has the buckets reduced by this library. A network learns to predict the
next byte of Python's own library, and is tested on a tenth of it that nobody trains on: two LSTM layers, or
(--model mlp) linear layers over the bytes before, whose steps are mostly network as they compute little.
Each method is a training of its own from the same start, on the same batches:

  gloo                 DistributedDataParallel as it comes
  SPEC                 RINGPRESS_CODEC=SPEC: none, q4, auto ...
  SPEC+NAME=VALUE...   and RINGPRESS_NAME=VALUE, such as auto+ADJUST_STEPS=50+ADJUST_GRIDS=both

Seconds a step are the median of the second half of the steps, when what is tuned has settled; bytes are
those that a rank sent in these. Time to loss: until the mean loss of 20 steps was what the first method had
after nine tenths of its steps. At the end the parameters of all ranks must be the same bytes. Rank 0
prints a line a method; --json writes all numbers.
"""
import argparse
import contextlib
import datetime
import functools
import hashlib
import json
import os
import pathlib
import queue
import shlex
import statistics
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ddp_report
import ringpress_api as api

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST_BATCHES = 20


OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": functools.partial(torch.optim.SGD, momentum=0.9)}


class Lstm(nn.Module):
    def __init__(self, width, _):
        super().__init__()
        self.embedding = nn.Embedding(256, 128)
        self.layers = nn.LSTM(128, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 256)

    def forward(self, text):
        return self.head(self.layers(self.embedding(text))[0])


class Mlp(nn.Module):
    """Predicts what comes after the last byte, of each text once."""

    def __init__(self, width, context):
        super().__init__()
        self.embedding = nn.Embedding(256, 32)
        self.layers = nn.Sequential(nn.Linear(32 * context, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                    nn.Linear(width, 256))

    def forward(self, text):
        return self.layers(self.embedding(text).flatten(1)).unsqueeze(1)


def network_of(options):
    return {"lstm": Lstm, "mlp": Mlp}[options.model](options.width, options.context)


class Reducer:
    """DistributedDataParallel's buckets are reduced by a thread, in the order in which they come, which is
    the same on all ranks; backward goes on meanwhile."""

    def __init__(self, communicator):
        self.communicator, self.buckets = communicator, queue.SimpleQueue()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while (handed := self.buckets.get()) is not None:
            buffer, future = handed
            try:
                self.communicator.all_reduce_at(buffer.data_ptr(), buffer.numel())
                future.set_result(buffer)
            except api.RingpressError as error:
                future.set_exception(error)

    def hook(self, _, bucket):
        future = torch.futures.Future()
        self.buckets.put((bucket.buffer(), future))
        return future

    def end(self):
        self.buckets.put(None)
        self.thread.join()
        self.communicator.destroy()


def corpus():
    """Bytes to train on, and to test."""
    folder = pathlib.Path(os.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    values = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    train = len(values) * 9 // 10
    return values[:train], values[train:]


def batch_of(text, options, generator):
    context = options.context
    starts = torch.randint(len(text) - context - 1, (options.batch,), generator=generator).tolist()
    rows = torch.stack([text[start:start + context + 1] for start in starts]).long()
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, batch):
    inputs, targets = batch
    predicted = model(inputs)
    return nn.functional.cross_entropy(predicted.flatten(0, 1), targets[:, -predicted.size(1):].flatten())


def test_loss(model, text, options):
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        return statistics.mean(float(loss_of(model, batch_of(text, options, generator)))
                               for _ in range(TEST_BATCHES))


def train(model, text, options, sent_bytes):
    """Seconds and loss of each step, this rank's, and the bytes sent until each of them began."""
    optimizer = OPTIMIZERS[options.optimizer](model.parameters(), lr=options.rate)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    seconds, losses, sent = [], [], []
    dist.barrier()
    for _ in range(options.steps):
        sent.append(sent_bytes())
        begin = time.perf_counter()
        loss = loss_of(model, batch_of(text, options, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return seconds, losses, sent


def is_same_on_all_ranks(model):
    content = b"".join(value.detach().numpy().tobytes() for value in model.parameters())
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, hashlib.sha256(content).hexdigest())
    return len(set(digests)) == 1


@contextlib.contextmanager
def reducer_of(method, number, options):
    """None for gloo."""
    if method == "gloo":
        yield None
        return
    codec, *settings = method.split("+")
    variables = {f"RINGPRESS_{name}": value for name, value in (setting.split("=") for setting in settings)}
    folder = pathlib.Path(options.folder) / str(number)
    folder.mkdir(exist_ok=True)
    with api.environment(RINGPRESS_CODEC=codec, **variables):
        reducer = Reducer(api.Communicator(options.library, folder))
    try:
        yield reducer
    finally:
        reducer.end()


def mean_of_ranks(values):
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return (tensor / dist.get_world_size()).tolist()


def described(reducer):
    if not reducer:
        return {}
    found = reducer.communicator.statistics()
    return {"calls": found.calls, "compressed_calls": found.compressed_calls,
            "last_codec": found.codec.decode(), "last_reason": found.reason.decode()}


def measure(method, number, options, texts):
    torch.manual_seed(1)
    network = network_of(options)
    model = DistributedDataParallel(network, bucket_cap_mb=options.bucket_mb)
    with reducer_of(method, number, options) as reducer:
        if reducer:
            model.register_comm_hook(None, reducer.hook)
        sent_bytes = reducer.communicator.sent_bytes if reducer else lambda: 0
        seconds, losses, sent = train(model, texts[0], options, sent_bytes)
        sent.append(sent_bytes())
        half = options.steps // 2
        result = {"method": method, "seconds_a_step": statistics.median(seconds[half:]),
                  "sent_bytes_a_step": (sent[-1] - sent[half]) / (options.steps - half),
                  "test_loss": test_loss(network, texts[1], options),
                  "ranks_agree": is_same_on_all_ranks(network),
                  "losses": mean_of_ranks(losses), "seconds": seconds, **described(reducer)}
    result["loss"] = ddp_report.loss_after(result, options.steps)
    return result


def print_row(row):
    print(f"| {' | '.join(row)} |", flush=True)


def report(options, network, results):
    # The folder, the file and the library are of this machine.
    own = {"folder", "json", "library"}
    words = [word for name, value in vars(options).items() if name not in own
             for word in (f"--{name.replace('_', '-')}", *(value if isinstance(value, list) else [value]))]
    return {"command": shlex.join(["perf/train/ddp.py", *map(str, words)]), "ranks": dist.get_world_size(),
            "link": options.link, "cores": os.cpu_count(), "date": datetime.date.today().isoformat(),
            "torch": torch.__version__, "parameters": sum(value.numel() for value in network.parameters()),
            "results": results}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", required=True, help="an empty folder that all ranks see")
    parser.add_argument("--library", default=str(ROOT / "build" / "lib" / "libringpress.so"))
    parser.add_argument("--methods", nargs="+",
                        default=["none", "q4", "auto", "auto+ADJUST_STEPS=50+ADJUST_GRIDS=both"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--model", choices=["lstm", "mlp"], default="lstm")
    parser.add_argument("--width", type=int, default=512, help="of the layers")
    parser.add_argument("--context", type=int, default=64, help="bytes of a text")
    parser.add_argument("--bucket-mb", type=int, default=2, help="DistributedDataParallel's bucket_cap_mb")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adam", help="sgd: with momentum")
    parser.add_argument("--rate", type=float, default=2e-3, help="of learning")
    parser.add_argument("--threads", type=int, default=1, help="that compute, of each rank")
    parser.add_argument("--link", default="unknown", help="what links are limited to, for --json")
    parser.add_argument("--json", type=pathlib.Path, help="file for all numbers")
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    texts, results = corpus(), []
    if dist.get_rank() == 0:
        print_row(ddp_report.HEADER)
        print_row(["---"] * len(ddp_report.HEADER))
    for number, method in enumerate(options.methods):
        results.append(measure(method, number, options, texts))
        if dist.get_rank() == 0:
            print_row(ddp_report.cells(results[-1], results[0]))
    if dist.get_rank() == 0 and options.json:
        options.json.write_text(json.dumps(report(options, network_of(options), results), indent=1) + "\n",
                                encoding="utf-8")
    dist.barrier()
    status = 0 if all(result["ranks_agree"] for result in results) else 1
    # Not destroy_process_group(): the ranks end together after the barrier.
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
