#!/usr/bin/env python3
"""DistributedDataParallel and FSDP on the back end, and DDP with the hook on Gloo: the models of all ranks are equal, and
near Gloo's.

Needs torch with its headers; without them it is skipped (exit status 77).
"""
import functools
import os
import sys
import unittest

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    print("there is no torch: nothing was tested")
    sys.exit(77)
import ranks
ranks.need_headers()
import ringpress.torch

try:
    from torch.distributed import fsdp
except (ImportError, ValueError):  # That of torch 1.13 does not load in Python 3.11.
    fsdp = None

SIZE = 2
STEPS = 40
OFF = {"RINGPRESS": "off"}
COMPRESSED = {"RINGPRESS_CODEC": "q8", "RINGPRESS_MIN_BYTES": "1024"}


def data_of(rank):
    """A teacher's answers, on inputs of the rank's own."""
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(64, 8, generator=generator)
    generator.manual_seed(10 + rank)
    inputs = torch.randn(STEPS, 32, 64, generator=generator)
    return inputs, torch.tanh(inputs @ teacher)


def full_weights(model):
    """All ranks' parts together."""
    if hasattr(next(model.parameters()), "full_tensor"):
        return [value.full_tensor() for value in model.parameters()]
    if not hasattr(model, "summon_full_params"):
        return list(model.parameters())
    with model.summon_full_params(model):
        return [value.detach().clone() for value in model.parameters()]


def train(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, wanted = data_of(rank)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[step]), wanted[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([value.detach().flatten() for value in full_weights(model)])
    return {"first": losses[0], "last": sum(losses[-5:]) / 5, "weights": weights.numpy().tobytes()}


def wrapped():
    torch.manual_seed(3)
    return DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8)),
                                   bucket_cap_mb=0.05)


def start(rank, size, folder, backend):
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{folder}/{backend}", rank=rank, world_size=size)


def trained(backend, wrap, settings, rank, size, folder):
    os.environ.update(settings)
    start(rank, size, folder, backend)
    result = train(wrap(), rank)
    if "RINGPRESS_CODEC" in settings:
        assert ringpress.torch.communicator_of().statistics()["compressed_calls"] > STEPS / 2
    return result


def on(backend, wrap, size, settings=None):
    """What each rank's training returned."""
    return ranks.run(functools.partial(trained, backend, wrap, settings or OFF), size)


def with_hook(rank, size, folder):
    os.environ.update(COMPRESSED)
    start(rank, size, folder, "gloo")
    model, state = wrapped(), ringpress.torch.HookState()
    model.register_comm_hook(state, ringpress.torch.ddp_hook)
    result = train(model, rank)
    assert state.communicator.statistics()["compressed_calls"] > STEPS / 2
    state.end()
    state.end()
    return result


def layers():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))


def fsdp1():
    return fsdp.FullyShardedDataParallel(layers(), device_id=torch.device("cpu"))


def fsdp2():
    """Each linear layer is gathered when it is needed."""
    model = layers()
    for layer in (model[0], model[2]):
        fsdp.fully_shard(layer)
    return fsdp.fully_shard(model)


SHARDED = unittest.skipIf(fsdp is None or int(torch.__version__.split(".")[0]) < 2,
                          "FSDP of torch 1.13 needs a GPU, and an older Python")


class Training(unittest.TestCase):
    """Trainings from one start, each beside Gloo's."""

    @classmethod
    def setUpClass(cls):
        ringpress.torch.build()
        cls.gloo = on("gloo", wrapped, SIZE)

    def expect_training(self, results, tolerance, gloo=None):
        """`tolerance`: of the last loss, relative to Gloo's."""
        self.assertEqual(len({result["weights"] for result in results}), 1)
        for result, wanted in zip(results, gloo or self.gloo):
            self.assertLess(result["last"], result["first"] / 2)
            self.assertLess(abs(result["last"] - wanted["last"]), tolerance * wanted["last"])

    def expect_sharded(self, wrap):
        """On 2 and 4 ranks."""
        for size in (2, 4):
            gloo = on("gloo", wrap, size)
            self.expect_training(on("ringpress", wrap, size), 0.001, gloo)
            self.expect_training(on("ringpress", wrap, size, COMPRESSED), 0.05, gloo)

    def test_exact(self):
        self.expect_training(on("ringpress", wrapped, SIZE), 0.001)

    def test_exact_on_four_ranks(self):
        self.expect_training(on("ringpress", wrapped, 4), 0.001, on("gloo", wrapped, 4))

    def test_compressed(self):
        self.expect_training(on("ringpress", wrapped, SIZE, COMPRESSED), 0.05)

    @SHARDED
    def test_fully_sharded_data_parallel(self):
        self.expect_sharded(fsdp1)

    @SHARDED
    @unittest.skipUnless(hasattr(fsdp, "fully_shard"), "this torch has no fully_shard")
    def test_fully_shard(self):
        self.expect_sharded(fsdp2)

    def test_hook(self):
        self.expect_training(ranks.run(with_hook, SIZE), 0.05)


if __name__ == "__main__":
    unittest.main()
