#!/usr/bin/env python3
"""DistributedDataParallel on the back end, and with the hook on Gloo: the models of all ranks are equal, and near Gloo's.

Needs torch with its headers; without them it is skipped (exit status 77).
"""
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

SIZE = 2
STEPS = 40


def data_of(rank):
    """A teacher's answers, on inputs of the rank's own."""
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(64, 8, generator=generator)
    generator.manual_seed(10 + rank)
    inputs = torch.randn(STEPS, 32, 64, generator=generator)
    return inputs, torch.tanh(inputs @ teacher)


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
    weights = torch.cat([value.detach().flatten() for value in model.parameters()])
    return {"first": losses[0], "last": sum(losses[-5:]) / 5, "weights": weights.numpy().tobytes()}


def wrapped():
    torch.manual_seed(3)
    return DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8)),
                                   bucket_cap_mb=0.05)


def start(rank, size, folder, backend):
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{folder}/{backend}", rank=rank, world_size=size)


def on_gloo(rank, size, folder):
    start(rank, size, folder, "gloo")
    return train(wrapped(), rank)


def on_ringpress(rank, size, folder):
    os.environ["RINGPRESS"] = "off"
    start(rank, size, folder, "ringpress")
    return train(wrapped(), rank)


def compressed(rank, size, folder):
    os.environ.update(RINGPRESS_CODEC="q8", RINGPRESS_MIN_BYTES="1024")
    start(rank, size, folder, "ringpress")
    result = train(wrapped(), rank)
    assert ringpress.torch.communicator_of().statistics()["compressed_calls"] > STEPS / 2
    return result


def with_hook(rank, size, folder):
    os.environ.update(RINGPRESS_CODEC="q8", RINGPRESS_MIN_BYTES="1024")
    start(rank, size, folder, "gloo")
    model, state = wrapped(), ringpress.torch.HookState()
    model.register_comm_hook(state, ringpress.torch.ddp_hook)
    result = train(model, rank)
    assert state.communicator.statistics()["compressed_calls"] > STEPS / 2
    state.end()
    state.end()
    return result


def sharded(rank, size, folder):
    """FullyShardedDataParallel: all ranks' parts together are one model."""
    from torch.distributed.fsdp import FullyShardedDataParallel  # pylint: disable=import-outside-toplevel
    os.environ["RINGPRESS"] = "off"
    start(rank, size, folder, "ringpress")
    torch.manual_seed(3)
    model = FullyShardedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)),
                                     device_id=torch.device("cpu"))
    result = train(model, rank)
    with FullyShardedDataParallel.summon_full_params(model):
        weights = torch.cat([value.detach().flatten() for value in model.parameters()])
        result["weights"] = weights.numpy().tobytes()
    return result


class Training(unittest.TestCase):
    """Four trainings from one start."""

    @classmethod
    def setUpClass(cls):
        ringpress.torch.build()
        cls.gloo = ranks.run(on_gloo, SIZE)

    def expect_training(self, function, tolerance):
        """`tolerance`: of the last loss, relative to Gloo's."""
        results = ranks.run(function, SIZE)
        self.assertEqual(len({result["weights"] for result in results}), 1)
        for result, gloo in zip(results, self.gloo):
            self.assertLess(result["last"], result["first"] / 2)
            self.assertLess(abs(result["last"] - gloo["last"]), tolerance * gloo["last"])

    def test_exact(self):
        self.expect_training(on_ringpress, 0.001)

    def test_compressed(self):
        self.expect_training(compressed, 0.05)

    @unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "FSDP of torch 1.13 needs a GPU")
    def test_fully_sharded(self):
        results = ranks.run(sharded, SIZE)
        self.assertEqual(len({result["weights"] for result in results}), 1)
        for result in results:
            self.assertLess(result["last"], result["first"] / 2)

    def test_hook(self):
        self.expect_training(with_hook, 0.05)


if __name__ == "__main__":
    unittest.main()
