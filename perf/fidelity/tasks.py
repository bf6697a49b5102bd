"""What is learned: four models and their data, small enough for many trainings on one processor.

A task has `model()`, `batch(generator)` and `test()`: batches of inputs and of classes that they belong to.
"""
import functools
import glob
import math

import torch
from torch import nn

CONTEXT, TEXT_BATCH, TEXT_CLASSES = 64, 8, 256
IMAGE_BATCH, IMAGE_CLASSES, IMAGE_SIDE = 16, 10, 8
TEST_BATCHES, TEST_BATCH, TEST_SEED = 20, 32, 7
TRAINED_PART = 0.9


class Transformer(nn.Module):
    """Of characters: 3 layers of 128."""

    def __init__(self, width=128, layers=3, heads=4):
        super().__init__()
        self.embedding = nn.Embedding(TEXT_CLASSES, width)
        self.position = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True,
                                       activation="gelu") for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, TEXT_CLASSES)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), -math.inf), 1))

    def forward(self, text):
        hidden = self.embedding(text) + self.position
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask)
        return self.head(self.norm(hidden))


class Lstm(nn.Module):
    """Of characters: 2 layers of 256."""

    def __init__(self, width=256, embedding=64):
        super().__init__()
        self.embedding = nn.Embedding(TEXT_CLASSES, embedding)
        self.layers = nn.LSTM(embedding, width, 2, batch_first=True)
        self.head = nn.Linear(width, TEXT_CLASSES)

    def forward(self, text):
        return self.head(self.layers(self.embedding(text))[0])


class Convolutions(nn.Module):
    """Of digits: 3 layers of 64 to 128 channels."""

    def __init__(self, channels=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.BatchNorm2d(2 * channels), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, IMAGE_CLASSES))

    def forward(self, images):
        return self.layers(images.unflatten(1, (1, IMAGE_SIDE, IMAGE_SIDE)))


class Mlp(nn.Sequential):
    """Of digits: 2 hidden layers of 256."""

    def __init__(self, width=256):
        super().__init__(nn.Linear(IMAGE_SIDE * IMAGE_SIDE, width), nn.ReLU(), nn.Linear(width, width),
                         nn.ReLU(), nn.Linear(width, IMAGE_CLASSES))


@functools.cache
def library_text():
    """Python's own library, as bytes."""
    folder = glob.glob("/usr/lib/python3.*/argparse.py")[0].rsplit("/", 1)[0]
    parts = []
    for path in sorted(glob.glob(f"{folder}/*.py")):
        with open(path, "rb") as file:
            parts.append(file.read())
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)


class Text:
    """Each byte of Python's library is told from those before it."""

    def __init__(self, make_model):
        self.model = make_model
        text = library_text()
        cut = int(len(text) * TRAINED_PART)
        self.trained, self.tested = text[:cut], text[cut:]

    def batch(self, generator):
        return self.draw(self.trained, TEXT_BATCH, generator)

    def test(self):
        generator = torch.Generator().manual_seed(TEST_SEED)
        return [self.draw(self.tested, TEST_BATCH, generator) for _ in range(TEST_BATCHES)]

    @staticmethod
    def draw(text, count, generator):
        starts = torch.randint(len(text) - CONTEXT - 1, (count,), generator=generator).tolist()
        rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts]).long()
        return rows[:, :-1], rows[:, 1:]


class Digits:
    """The 1797 digits of scikit-learn, 8 by 8 points, moved by a point at most while they are trained."""

    def __init__(self, make_model):
        from sklearn.datasets import load_digits  # pylint: disable=import-outside-toplevel
        self.model = make_model
        digits = load_digits()
        order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(TEST_SEED))
        images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
        classes = torch.tensor(digits.target)[order]
        cut = int(len(classes) * 0.75)
        self.trained, self.tested = (images[:cut], classes[:cut]), (images[cut:], classes[cut:])

    def batch(self, generator):
        images, classes = self.trained
        chosen = torch.randint(len(classes), (IMAGE_BATCH,), generator=generator)
        moves = torch.randint(-1, 2, (2,), generator=generator).tolist()
        square = images[chosen].unflatten(1, (IMAGE_SIDE, IMAGE_SIDE))
        return torch.roll(square, moves, (1, 2)).flatten(1), classes[chosen]

    def test(self):
        return [self.tested]


TASKS = {"transformer": lambda: Text(Transformer), "lstm": lambda: Text(Lstm),
         "tiny": lambda: Text(lambda: Transformer(64, 2, 4)),
         "convolutions": lambda: Digits(Convolutions), "mlp": lambda: Digits(Mlp)}
# The largest learning rates of each optimizer.
RATES = {"adamw": {"transformer": 2e-3, "tiny": 2e-3, "lstm": 2e-3, "convolutions": 2e-3, "mlp": 2e-3},
         "sgd": {"transformer": 0.5, "tiny": 0.5, "lstm": 0.5, "convolutions": 0.1, "mlp": 0.1}}
