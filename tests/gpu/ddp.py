"""Data-parallel training of a small transformer with PyTorch, as anybody writes it.

usage: ddp.py --output FILE [--steps N]     with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
It learns to predict the bytes of Python's own library. Rank 0 writes the loss of each step, the mean
of all ranks', as JSON.
"""
import argparse
import json
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CONTEXT, WIDTH, LAYERS, HEADS, BATCH = 128, 256, 4, 4, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.position = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text):
        hidden = self.embedding(text) + self.position
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True))


def corpus():
    folder = pathlib.Path(os.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def batch(text, generator, device):
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator).tolist()
    rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts]).long().to(device)
    return rows[:, :-1], rows[:, 1:]


def train(steps, device):
    torch.manual_seed(1)
    model = DistributedDataParallel(Model().to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    text, losses = corpus(), []
    tokens = torch.zeros(1, dtype=torch.int64, device=device)
    for _ in range(steps):
        inputs, targets = batch(text, generator, device)
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        tokens += targets.numel()
        losses.append(mean.item())
    dist.all_reduce(tokens)
    return losses, int(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    losses, tokens = train(options.steps, device)
    if dist.get_rank() == 0:
        options.output.write_text(json.dumps({"losses": losses, "tokens": tokens}),
                                  encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
