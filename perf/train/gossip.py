#!/usr/bin/env python3
"""Training by gossip on host memory: every step, fixed periods, by change, by change with a codec;
beside all-reduces, of every gradient and lazy ones (RINGPRESS_LAZY).

  perf/shaped.sh --ranks 4 --rate 10mbit -- python3 perf/train/gossip.py --folder EMPTY_FOLDER

Needs PyTorch and scikit-learn (Debian: python3-torch, python3-sklearn) and build/lib/libringpress.so.
Every worker trains one model on its part of the data, in this process. Tasks: `digits`, the 1797
handwritten digits of scikit-learn and a network of one hidden layer; `text`, the next character of a text
that ships with Debian, from the 12 before it; `uneven`, the digits with a learning rate that is high in
short bursts alone, and workers that each see few of the ten digits. Accuracy is of the mean of all models
(flushed at the end) on data that nobody trained on; for `uneven` the mean of what workers' own models
have at the end of each burst. With --seeds it is the mean over as many trainings, that differ in what is
random; the rest is of the first one. Prints a line a method; --json writes all numbers.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import statistics
import sys
import time

import numpy
import torch

import ringpress_api as api

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = "/usr/share/common-licenses/GPL-3"
CONTEXT = 12


class Network:
    """A network of one hidden layer, all of whose parameters are one array."""

    def __init__(self, inputs, hidden, outputs):
        self.shapes = [(inputs, hidden), (hidden,), (hidden, outputs), (outputs,)]
        self.count = sum(int(numpy.prod(shape)) for shape in self.shapes)

    def start(self, seed):
        generator = torch.Generator().manual_seed(seed)
        parts = [torch.randn(shape, generator=generator) * (2 / shape[0]) ** 0.5 if len(shape) == 2
                 else torch.zeros(shape) for shape in self.shapes]
        return torch.cat([part.flatten() for part in parts]).numpy().copy()

    def outputs_of(self, weights, inputs):
        parts, first = [], 0
        for shape in self.shapes:
            count = int(numpy.prod(shape))
            parts.append(weights[first:first + count].view(shape))
            first += count
        hidden = torch.relu(inputs @ parts[0] + parts[1])
        return hidden @ parts[2] + parts[3]


class Data:
    def __init__(self, inputs, labels, test_inputs, test_labels, network):
        self.inputs, self.labels = inputs, labels
        self.test_inputs, self.test_labels, self.network = test_inputs, test_labels, network

    def accuracy(self, weights):
        with torch.no_grad():
            outputs = self.network.outputs_of(torch.from_numpy(weights), self.test_inputs)
            return float((outputs.argmax(1) == self.test_labels).float().mean())


def load_digits(rank, size, hidden, sorted_by_label):
    from sklearn.datasets import load_digits as load  # pylint: disable=import-outside-toplevel
    loaded = load()
    order = numpy.random.default_rng(1).permutation(len(loaded.target))
    inputs = torch.tensor(loaded.data[order] / 16, dtype=torch.float32)
    labels = torch.tensor(loaded.target[order])
    train = 1400
    own = numpy.arange(train)
    if sorted_by_label:  # Each worker has few of the ten digits.
        own = numpy.argsort(labels[:train].numpy(), kind="stable")
    own = numpy.array_split(own, size)[rank] if sorted_by_label else own[rank::size]
    return Data(inputs[own], labels[own], inputs[train:], labels[train:], Network(64, hidden, 10))


def load_text(rank, size, hidden):
    text = pathlib.Path(TEXT).read_text(encoding="utf-8")
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(letter) for letter in text])
    windows = codes.unfold(0, CONTEXT + 1, 1)
    inputs = torch.nn.functional.one_hot(windows[:, :CONTEXT], len(letters)).float().flatten(1)
    labels = windows[:, CONTEXT]
    train = len(labels) * 9 // 10
    own = numpy.array_split(numpy.arange(train), size)[rank]
    return Data(inputs[own], labels[own], inputs[train:], labels[train:],
                Network(inputs.shape[1], hidden, len(letters)))


def load(options, rank, size):
    if options.task == "text":
        return load_text(rank, size, options.hidden)
    return load_digits(rank, size, options.hidden, options.task == "uneven")


def learning_rate(options, step):
    """Bursts of a tenth of the time, five of them, for the task whose change is uneven."""
    if options.task != "uneven":
        return options.rate * (0.1 if step >= options.steps * 2 // 3 else 1)
    position = step % (options.steps // 5)
    return options.rate if position < options.steps // 50 else options.rate * 1e-3


def ends_burst(options, step):
    return options.task == "uneven" and step % (options.steps // 5) == options.steps // 50 - 1


class Run:
    """One method, from the same start, on all workers."""

    def __init__(self, options, communicator, data, seed):
        self.options, self.communicator, self.data = options, communicator, data
        self.weights = data.network.start(seed)
        self.velocity = numpy.zeros_like(self.weights)
        self.own = numpy.zeros_like(self.weights)  # Of every gradient: the library knows it again.
        self.draw = numpy.random.default_rng([seed, communicator.rank + 10])

    def gradient(self):
        chosen = self.draw.integers(len(self.data.labels), size=self.options.batch)
        weights = torch.from_numpy(self.weights).requires_grad_()
        outputs = self.data.network.outputs_of(weights, self.data.inputs[chosen])
        torch.nn.functional.cross_entropy(outputs, self.data.labels[chosen]).backward()
        self.own[:] = weights.grad.numpy()
        return self.own

    def train(self, exchange_gradient, exchange_model):
        """Seconds in all and in communication, and the accuracies at the ends of bursts."""
        talking, bursts = 0.0, []
        begin = time.perf_counter()
        for step in range(self.options.steps):
            gradient = self.gradient()
            talk = time.perf_counter()
            exchange_gradient(gradient)
            talking += time.perf_counter() - talk
            self.velocity = 0.9 * self.velocity + gradient
            self.weights -= numpy.float32(learning_rate(self.options, step)) * self.velocity
            talk = time.perf_counter()
            exchange_model(self.weights)
            talking += time.perf_counter() - talk
            if ends_burst(self.options, step):
                bursts.append(self.data.accuracy(self.weights))
        return time.perf_counter() - begin, talking, bursts


def average(communicator, value):
    values = numpy.array([value], dtype=numpy.float32)
    communicator.all_reduce(values)
    return float(values[0])


def measure_lazy(options, communicator, data, seed, threshold):
    """All-reduces on a communicator of their own, which puts them off."""
    folder = pathlib.Path(options.folder) / f"lazy-{threshold}-{seed}"
    folder.mkdir(exist_ok=True)
    # Models of some ten thousand parameters are below the size from which calls are put off.
    with api.environment(RINGPRESS_LAZY=str(threshold), RINGPRESS_MIN_BYTES="0"):
        lazy = api.Communicator(options.library, folder)
    run = Run(options, communicator, data, seed)
    average(communicator, 0)  # All begin together.
    sent = []

    def exchange(gradient):
        if len(sent) == options.steps - 1:
            lazy.flush_lazy()
        lazy.all_reduce(gradient)
        sent.append(gradient.any())
    seconds, talking, bursts = run.train(exchange, lambda model: None)
    result = {"method": "all-reduce, lazy", "lazy": threshold, "exchanges": float(sum(sent))}
    own = data.accuracy(run.weights)
    result |= figures(communicator, run, seconds, talking, lazy.sent_bytes(), own, bursts)
    lazy.destroy()
    return result


def figures(communicator, run, seconds, talking, sent, own, bursts):
    result = {"seconds": seconds, "communicating_seconds": average(communicator, talking),
              "sent_bytes": average(communicator, sent / 1e6) * 1e6,
              "own_accuracy": average(communicator, own), "accuracy": run.data.accuracy(run.weights)}
    if bursts:
        result["accuracy"] = average(communicator, statistics.mean(bursts))
    return result


def measure(options, communicator, data, seed, method, **gossip_options):
    run = Run(options, communicator, data, seed)
    average(communicator, 0)  # All begin together.
    before = communicator.sent_bytes()
    result = {"method": method, **gossip_options}
    if method == "all-reduce":
        seconds, talking, bursts = run.train(communicator.all_reduce, lambda model: None)
        result["exchanges"] = float(options.steps)
    else:
        gossip = api.Gossip(communicator, run.weights, seed=seed + 1, **gossip_options)
        seconds, talking, bursts = run.train(lambda gradient: None, gossip.step)
        result["exchanges"] = average(communicator, gossip.statistics().exchanges)
    sent = communicator.sent_bytes() - before
    own = data.accuracy(run.weights)
    if method != "all-reduce":
        gossip.flush(run.weights)
        gossip.destroy()
    return result | figures(communicator, run, seconds, talking, sent, own, bursts)


def compare_once(options, communicator, data, seed):
    def of(method, **gossip_options):
        return measure(options, communicator, data, seed, method, **gossip_options)
    results = [of("all-reduce"), of("gossip, every step", theta=0.0)]
    results += [measure_lazy(options, communicator, data, seed, threshold) for threshold in options.lazy]
    for theta in options.theta:
        adaptive = of("gossip, by change", theta=theta, t_max=options.t_max)
        period = max(1, round(options.steps / max(adaptive["exchanges"], 1)))
        results += [adaptive, of("gossip, fixed period", period=period)]
        if options.codec != "none":
            results.append(of("gossip, by change", theta=theta, t_max=options.t_max, codec=options.codec))
    results += [of("gossip, fixed period", period=period, codec=options.codec) for period in options.periods]
    return results


def compare(options, communicator, data):
    runs = [compare_once(options, communicator, data, seed) for seed in range(options.seeds)]
    for method, results in enumerate(zip(*runs)):
        first = runs[0][method]
        first["accuracies"] = [result["accuracy"] for result in results]
        first["accuracy"] = statistics.mean(first["accuracies"])
        first["own_accuracy"] = statistics.mean(result["own_accuracy"] for result in results)
    return runs[0]


def describe(result, every_step):
    parameters = ", ".join(f"{name} {result[name]}" for name in ("theta", "period", "codec", "lazy")
                           if name in result)
    return (f"| {result['method']}{', ' + parameters if parameters else ''} | {result['exchanges']:.0f} "
            f"| {result['sent_bytes'] / 1e6:.2f} | {result['sent_bytes'] / every_step['sent_bytes']:.3f} "
            f"| {result['seconds']:.2f} | {result['seconds'] / every_step['seconds']:.2f} "
            f"| {result['communicating_seconds'] / result['seconds']:.2f} "
            f"| {100 * result['accuracy']:.2f} | {100 * result['own_accuracy']:.2f} |")


def settings_of(words):
    """Without folders and files."""
    return [word for before, word in zip(["", *words], words)
            if not {before, word} & {"--folder", "--json", "--library"}]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="an empty folder that all ranks see")
    parser.add_argument("--library", default=str(ROOT / "build" / "lib" / "libringpress.so"))
    parser.add_argument("--task", choices=("digits", "text", "uneven"), default="digits")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.05, help="of learning")
    parser.add_argument("--theta", type=float, nargs="*", default=[0.03])
    parser.add_argument("--periods", type=int, nargs="*", default=[], help="fixed periods with the codec")
    parser.add_argument("--t-max", type=int, default=200)
    parser.add_argument("--codec", default="q8", help="of the differences of models, by change; none: no such")
    parser.add_argument("--lazy", type=float, nargs="*", default=[2, 4], help="RINGPRESS_LAZY of lazy all-reduces")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each method")
    parser.add_argument("--link", default="unknown", help="what links are limited to, for --json")
    parser.add_argument("--json", help="file for all numbers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    communicator = api.Communicator(options.library, options.folder)
    data = load(options, communicator.rank, communicator.size)
    results = compare(options, communicator, data)
    communicator.destroy()
    if communicator.rank != 0:
        return
    print("| method | exchanges | sent MB | of every step's | s | of every step's | communicating "
          "| accuracy % | own models' % |\n|---|---|---|---|---|---|---|---|---|")
    for result in results:
        print(describe(result, results[1]))
    if options.json:
        report = {"task": options.task, "ranks": communicator.size, "link": options.link,
                  "cores": os.cpu_count(), "date": datetime.date.today().isoformat(),
                  "command": "perf/train/gossip.py " + shlex.join(settings_of(sys.argv[1:])),
                  "steps": options.steps, "batch": options.batch, "learning_rate": options.rate,
                  "seeds": options.seeds, "parameters": data.network.count,
                  "test_samples": len(data.test_labels), "results": results}
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
