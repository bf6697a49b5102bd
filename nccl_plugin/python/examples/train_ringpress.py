"""Trains a small classifier on CPUs by DistributedDataParallel. torchrun starts it:

torchrun --standalone --nproc_per_node 2 FILE
"""
import hashlib
import json

import torch
import torch.distributed as dist
import ringpress.torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 40
BATCH = 64
INPUTS, HIDDEN, CLASSES = 256, 512, 10


def batches(rank):
    """Inputs of the rank's own, in the classes that one random network gives them."""
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(INPUTS, CLASSES, generator=generator)
    generator.manual_seed(100 + rank)
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, INPUTS, generator=generator)
        yield inputs, (inputs @ teacher).argmax(1)


def train(model, rank):
    """The loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for inputs, classes in batches(rank):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def digest(model):
    """Equal on two ranks if each bit of their parameters is."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


def main():
    dist.init_process_group("ringpress")
    rank = dist.get_rank()
    torch.manual_seed(rank)  # DistributedDataParallel gives all ranks the parameters of rank 0.
    layers = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    model = DistributedDataParallel(layers)
    losses = train(model, rank)
    print(json.dumps({"rank": rank, "backend": dist.get_backend(), "first": sum(losses[:5]) / 5, "last": sum(losses[-5:]) / 5,
                      "parameters": digest(model)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
