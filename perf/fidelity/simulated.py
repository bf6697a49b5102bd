#!/usr/bin/env python3
"""Rules of compression that the library does not have, or not yet, in trainings of small models.

usage: simulated.py MODEL OPTIMIZER STEPS SEEDS RULE... [--workers N] [--kept FILE]
       simulated.py shadow MODEL OPTIMIZER STEPS SEED RULE...

MODEL: transformer (48 wide), words (an MLP of 8 characters, with rare rows), or tiny (tasks.py's
transformer, 64 wide). SEEDS: FIRST-LAST. One JSON object a training goes to FILE (perf/out/simulated.jsonl);
those that are there are not done again. A table of losses against exact ones follows. `shadow` trains exactly
and tells how far the updates of optimizers that see a rule's results are from the exact ones: few steps do.

RULE: exact, perturbed (a relative noise of 1e-3: what chance does) or NAME=VALUE,...:
  bits=4 grid=uniform|lloyd block=128    as q1 to q8
  sum_bits=bits   of the sum's encoding; 32: exact
  feedback=1      share of the residual that is kept; 0: no error feedback
  projects=0      1: decoded with the scale of least squares; between: partly; 2: beyond it
  decay=0         of v, the second moment of results that coordinates are scaled by; 0: no scales
  power=0.5 floor=0.1    the scale of a coordinate: (v / mean v of its block + floor^2) ^ power
  exact_steps=0   at the start; frozen=0: v stays as it is after so many steps
  learns=result   or sum: v learns from what the owner knows before it encodes the sum
  rate=1          times the optimizer's rate (exact only)
"""
import argparse
import collections
import json
import math
import pathlib
import sys
import time

import torch
from torch.nn import functional

import paired
import simulated_models

WARM_UP_STEPS, LEAST_RATE, NORM = 30, 0.1, 1.0
RATES = {"adamw": collections.defaultdict(lambda: 2e-3),
         "sgd": collections.defaultdict(lambda: 0.2, tiny=0.5)}
SHARD_UNIT = 1024
KEPT = pathlib.Path(__file__).resolve().parents[1] / "out" / "simulated.jsonl"
SMALLEST_MEAN = 1e-30
DEFAULTS = {"bits": 4, "sum_bits": 0, "grid": "uniform", "block": 128, "feedback": 1.0, "projects": 0.0,
            "decay": 0.0, "power": 0.5, "floor": 0.1, "exact_steps": 0, "frozen": 0, "learns": "result",
            "rate": 1.0, "noise": 0.0, "exact": 0}
NAMED = {"exact": "exact=1", "perturbed": "exact=1,noise=0.001"}


def options_of(text):
    found = dict(DEFAULTS)
    for word in NAMED.get(text, text).split(","):
        name, _, value = word.partition("=")
        if name not in DEFAULTS:
            raise ValueError(f"{text}: no {name}")
        found[name] = type(DEFAULTS[name])(value)
    return argparse.Namespace(**found)


def lloyd_levels(bits, rounds=3000):
    """Of least squared error for a Gaussian of variance 1."""
    x = torch.linspace(-6, 6, 200001, dtype=torch.float64)
    weight = torch.exp(-x * x / 2)
    levels = torch.linspace(-2, 2, 2 ** bits, dtype=torch.float64)
    for _ in range(rounds):
        cell = torch.bucketize(x, (levels[1:] + levels[:-1]) / 2)
        zeros = torch.zeros(2 ** bits, dtype=torch.float64)
        levels = zeros.index_add(0, cell, weight * x) / zeros.index_add(0, cell, weight)
    return levels.float()


class Quantiser:
    """Rows of values to what a codec makes of them."""

    def __init__(self, bits, options):
        self.bits, self.options = bits, options
        self.levels = lloyd_levels(bits) if options.grid == "lloyd" else None

    def __call__(self, rows):
        blocks = rows.view(len(rows), -1, self.options.block)
        if self.levels is not None:
            return self.nearest_levels(blocks).view_as(rows)
        if self.bits == 1:
            return (torch.where(blocks >= 0, 1., -1.) * blocks.abs().mean(-1, keepdim=True)).view_as(rows)
        most = 2 ** (self.bits - 1) - 1
        step = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-30) / most
        codes = torch.round(blocks / step).clamp(-most, most)
        step = step + self.options.projects * (projected(blocks, codes) - step)
        return (codes * step).view_as(rows)

    def nearest_levels(self, blocks):
        """The scale is that of least squares, of the second choice of levels."""
        scale = blocks.pow(2).mean(-1, keepdim=True).sqrt().clamp(min=1e-30)
        for _ in range(2):
            cells = torch.bucketize(blocks / scale, (self.levels[1:] + self.levels[:-1]) / 2)
            codes = self.levels[cells]
            scale = projected(blocks, codes).clamp(min=1e-30)
        return codes * scale


def projected(blocks, codes):
    return (blocks * codes).sum(-1, keepdim=True) / codes.pow(2).sum(-1, keepdim=True).clamp(min=1e-30)


class Exact:
    """The mean."""

    def __init__(self, options, count, seed):
        self.padded, self.options = count, options
        self.generator = torch.Generator().manual_seed(seed)

    def reduce(self, gradients, _step):
        mean = gradients.mean(0)
        if self.options.noise:
            mean = mean * (1 + self.options.noise * torch.randn(mean.shape, generator=self.generator))
        return mean


class Compressed:
    """The all-reduce `sra`: contributions are encoded, but the owner's; its sum is encoded once more."""

    def __init__(self, options, workers, count):
        self.options = options
        unit = SHARD_UNIT * workers
        self.padded = -(-count // unit) * unit
        self.quantise = Quantiser(options.bits, options)
        sum_bits = options.sum_bits or options.bits
        self.quantise_sum = None if sum_bits == 32 else Quantiser(sum_bits, options)
        owner = torch.arange(self.padded) // (self.padded // workers)
        self.owned = torch.arange(workers)[:, None] == owner
        self.residuals, self.sum_residual = torch.zeros(workers, self.padded), torch.zeros(1, self.padded)
        self.moments, self.learnt = torch.zeros(self.padded), 0

    def scales(self):
        """The same on all ranks: they come of results."""
        blocks = self.moments.view(-1, self.options.block)
        mean = blocks.mean(-1, keepdim=True)
        relative = blocks / mean.clamp(min=SMALLEST_MEAN) + self.options.floor ** 2
        return torch.where(mean > SMALLEST_MEAN, relative, torch.ones(())).pow(self.options.power).view(-1)

    def learn(self, result):
        if not self.options.decay or (self.options.frozen and self.learnt >= self.options.frozen):
            return
        self.moments.mul_(self.options.decay).add_(result * result, alpha=1 - self.options.decay)
        self.learnt += 1

    def encode(self, quantise, values, residual, scales):
        """(What is decoded, the residual of the next call)."""
        wanted = values + residual
        decoded = quantise(wanted / scales) * scales
        return decoded, (wanted - decoded) * self.options.feedback

    def reduce(self, gradients, step):
        if step < self.options.exact_steps:
            mean = gradients.mean(0)
            self.learn(mean)
            return mean
        scales = self.scales()
        decoded, self.residuals = self.encode(self.quantise, gradients, self.residuals, scales)
        total = torch.where(self.owned, gradients, decoded).mean(0, keepdim=True)
        result = total
        if self.quantise_sum:
            result, self.sum_residual = self.encode(self.quantise_sum, total, self.sum_residual, scales)
        self.learn((total if self.options.learns == "sum" else result)[0])
        return result[0]


def make_rule(text, workers, count, seed):
    options = options_of(text)
    return Exact(options, count, seed) if options.exact else Compressed(options, workers, count)


class Optimizer:
    """AdamW, or SGD with momentum; gradients are scaled down to a norm of 1."""

    def __init__(self, name, count):
        self.name, self.step = name, 0
        self.mean, self.square = torch.zeros(count), torch.zeros(count)

    def update(self, gradient):
        """What the rate is multiplied with."""
        gradient = gradient / max(1, gradient.norm().item() / NORM)
        self.step += 1
        if self.name == "sgd":
            return self.mean.mul_(0.9).add_(gradient)
        self.mean.mul_(0.9).add_(gradient, alpha=0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        size = (self.square / (1 - 0.999 ** self.step)).sqrt_().add_(1e-8)
        return self.mean / (1 - 0.9 ** self.step) / size

    def apply(self, parameters, update, rate):
        if self.name == "adamw":
            parameters.mul_(1 - 0.01 * rate)
        parameters.sub_(update, alpha=rate)


def rate_of(step, steps):
    """Of the largest: warm-up, then a cosine down to a tenth."""
    decay = 0.5 * (1 + math.cos(math.pi * step / steps)) * (1 - LEAST_RATE) + LEAST_RATE
    return min(1, (step + 1) / WARM_UP_STEPS) * decay


def reduced(rule, gradients, step):
    padded = functional.pad(gradients, (0, rule.padded - gradients.shape[1]))
    return rule.reduce(padded, step)[:gradients.shape[1]]


def train(model, optimizer_name, steps, seed, rule_text, workers):
    torch.set_num_threads(1)
    source = simulated_models.make_workers(model, workers, seed)
    parameters = source.start.clone()
    rule = make_rule(rule_text, workers, len(parameters), seed)
    optimizer = Optimizer(optimizer_name, len(parameters))
    largest, losses, begin = RATES[optimizer_name][model] * rule.options.rate, [], time.monotonic()
    for step in range(steps):
        gradients, loss = source.gradients(parameters)
        losses.append(loss)
        update = optimizer.update(reduced(rule, gradients, step))
        optimizer.apply(parameters, update, largest * rate_of(step, steps))
    last = losses[-max(1, steps // 10):]
    return {"task": model, "optimizer": optimizer_name, "workers": workers, "steps": steps, "seed": seed,
            "method": rule_text, "loss": source.test(parameters), "last_losses": sum(last) / len(last),
            "mean_loss": sum(losses) / steps, "seconds": time.monotonic() - begin}


def gain_and_noise(found, exact):
    """found = gain * exact + noise; the noise's square is over that of `exact`."""
    square = exact @ exact
    gain = found @ exact / square
    return torch.stack([gain, (found - gain * exact).pow(2).sum() / square])


class Shadow:
    """Optimizers that see a rule's results and move nothing."""

    def __init__(self, rule, count):
        self.rule, self.sums, self.count = rule, torch.zeros(5), 0
        self.optimizers = {name: Optimizer(name, count) for name in RATES}

    def follow(self, gradients, exact_updates, step, counts):
        result, exact = reduced(self.rule, gradients, step), gradients.mean(0)
        pairs = [gain_and_noise(optimizer.update(result), exact_updates[name])
                 for name, optimizer in self.optimizers.items()]
        if counts:
            self.sums += torch.cat([((result - exact).pow(2).sum() / exact.pow(2).sum())[None], *pairs])
            self.count += 1


def shadow(model, optimizer_name, steps, seed, rule_texts, workers):
    """A line a rule: squared error; gain and noise of AdamW's updates and of SGD's with momentum."""
    torch.set_num_threads(1)
    source = simulated_models.make_workers(model, workers, seed)
    parameters = source.start.clone()
    count = len(parameters)
    shadows = [Shadow(make_rule(text, workers, count, seed), count) for text in rule_texts]
    optimizers = {name: Optimizer(name, count) for name in RATES}
    for step in range(steps):
        gradients, _ = source.gradients(parameters)
        updates = {name: optimizer.update(gradients.mean(0)) for name, optimizer in optimizers.items()}
        for one in shadows:
            one.follow(gradients, updates, step, step >= steps // 3)
        optimizers[optimizer_name].apply(parameters, updates[optimizer_name],
                                         RATES[optimizer_name][model] * rate_of(step, steps))
    names = ("squared_error", "adamw_gain", "adamw_noise", "sgd_gain", "sgd_noise")
    return [{"rule": text, **dict(zip(names, (one.sums / one.count).tolist()))}
            for text, one in zip(rule_texts, shadows)]


def kept_trainings(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def print_table(trainings):
    found = collections.defaultdict(dict)
    for one in trainings:
        found[one["task"], one["optimizer"], one["workers"], one["steps"], one["method"]][one["seed"]] = one
    print("| model | optimizer | workers | steps | rule | seeds | loss | of the last tenth | of all steps |")
    print("|---" * 9 + "|")
    for (*case, method), by_seed in sorted(found.items()):
        exact = found.get((*case, "exact"), {})
        pairs = [(one, exact[seed]) for seed, one in by_seed.items() if seed in exact]
        if method == "exact" or not pairs:
            continue
        cells = []
        for name in ("loss", "last_losses", "mean_loss"):
            percent = [100 * (one[name] / beside[name] - 1) for one, beside in pairs]
            cells.append(paired.cell({"loss_percent": sum(percent) / len(percent),
                                      "standard_error": paired.standard_error(percent)}))
        print("| " + " | ".join(str(word) for word in (*case, f"`{method}`", len(pairs), *cells)) + " |")


def parse(words):
    parser = argparse.ArgumentParser(prog="simulated.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("transformer", "words", "tiny"))
    parser.add_argument("optimizer", choices=RATES)
    parser.add_argument("steps", type=int)
    parser.add_argument("seeds")
    parser.add_argument("rules", nargs="+")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kept", type=pathlib.Path, default=KEPT)
    return parser.parse_args(words)


def main(words):
    if words[:1] == ["shadow"]:
        options = parse(words[1:])
        for line in shadow(options.model, options.optimizer, options.steps, int(options.seeds), options.rules,
                           options.workers):
            print(json.dumps(line))
        return
    options = parse(words)
    first, _, last = options.seeds.partition("-")
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    case = (options.model, options.optimizer, options.workers, options.steps)
    names = (*paired.CASE, "seed", "method")
    done = {tuple(one[name] for name in names) for one in kept_trainings(options.kept)}
    for seed in range(int(first), int(last or first) + 1):
        for rule in dict.fromkeys(("exact", *options.rules)):
            if (*case, seed, rule) in done:
                continue
            line = json.dumps(train(options.model, options.optimizer, options.steps, seed, rule,
                                    options.workers))
            with options.kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    print_table(kept_trainings(options.kept))


if __name__ == "__main__":
    main(sys.argv[1:])
