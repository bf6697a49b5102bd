"""Models of simulated.py, and the gradients of all workers as rows of one tensor."""
import math

import torch
from torch.nn import functional

import tasks


class Model:
    """All workers at once: each has parameters of its own, whose gradients are its gradient."""
    length, batch = 33, 6
    shapes = {}

    def start(self, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.cat([torch.ones(math.prod(shape)) if deviation < 0 else
                          torch.randn(math.prod(shape), generator=generator) * deviation
                          for shape, deviation in self.shapes.values()])

    def loss(self, parameters, rows):
        """Of all workers, added. `parameters`: a row a worker; `rows`: (worker, text, character)."""
        sizes = [math.prod(shape) for shape, _ in self.shapes.values()]
        parts = parameters.split(sizes, 1)
        named = {name: part.view(-1, *shape) for (name, (shape, _)), part in zip(self.shapes.items(), parts)}
        outputs, classes = self.outputs(named, rows)
        total = functional.cross_entropy(outputs.flatten(0, 1), classes, reduction="sum")
        return total * len(rows) / len(classes)

    def outputs(self, named, rows):
        raise NotImplementedError


def embedded(named, text):
    table = named["embedding"]
    first = tasks.TEXT_CLASSES * torch.arange(len(table))
    return functional.embedding(text + first[:, None, None], table.reshape(-1, table.shape[-1]))


class Words(Model):
    """The next character after 8: an embedding, two layers of 128."""
    batch, before, width, hidden = 2, 8, 24, 128

    def __init__(self):
        hidden, entry = self.hidden, self.before * self.width
        self.shapes = {"head": ((hidden, 256), .02), "head0": ((1, 256), 0),
                       "second": ((hidden, hidden), (2 / hidden) ** .5), "second0": ((1, hidden), 0),
                       "first": ((entry, hidden), (2 / entry) ** .5), "first0": ((1, hidden), 0),
                       "embedding": ((256, self.width), 1)}

    def outputs(self, named, rows):
        before = rows.unfold(2, self.before, 1)[:, :, :-1].reshape(len(rows), -1, self.before)
        entry = embedded(named, before).reshape(len(rows), -1, self.before * self.width)
        hidden = torch.relu(torch.baddbmm(named["first0"], entry, named["first"]))
        hidden = hidden + torch.relu(torch.baddbmm(named["second0"], hidden, named["second"]))
        return torch.baddbmm(named["head0"], hidden, named["head"]), rows[:, :, self.before:].reshape(-1)


class Transformer(Model):
    """2 layers of 48."""
    width, layers, heads = 48, 2, 3

    def __init__(self):
        width = self.width
        shapes = {"head": ((width, 256), .02), "head0": ((1, 256), 0),
                  "norm": ((1, width), -1), "norm0": ((1, width), 0)}
        for layer in range(self.layers):
            of_layer = {"down": ((4 * width, width), .02), "down0": ((1, width), 0),
                        "up": ((width, 4 * width), width ** -.5), "up0": ((1, 4 * width), 0),
                        "norm_up": ((1, width), -1), "norm_up0": ((1, width), 0),
                        "mix": ((width, width), .03), "mix0": ((1, width), 0),
                        "ask": ((width, 3 * width), width ** -.5), "ask0": ((1, 3 * width), 0),
                        "norm_ask": ((1, width), -1), "norm_ask0": ((1, width), 0)}
            shapes.update({f"{name}.{layer}": shape for name, shape in of_layer.items()})
        self.shapes = {**shapes, "position": ((self.length - 1, width), .02), "embedding": ((256, width), 1)}
        self.mask = torch.triu(torch.full((self.length - 1, self.length - 1), -math.inf), 1)

    def normed(self, named, name, hidden):
        return functional.layer_norm(hidden, (self.width,)) * named[name] + named[self.bias(name)]

    @staticmethod
    def bias(name):
        first, dot, layer = name.partition(".")
        return f"{first}0{dot}{layer}"

    def linear(self, named, name, hidden):
        return torch.baddbmm(named[self.bias(name)], hidden, named[name])

    def attention(self, named, layer, hidden, texts):
        workers, size = len(hidden), self.width // self.heads
        asked = self.linear(named, f"ask.{layer}", self.normed(named, f"norm_ask.{layer}", hidden))
        parts = asked.view(texts, -1, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        query, key, value = parts.reshape(3, texts * self.heads, -1, size)
        weights = torch.softmax(torch.baddbmm(self.mask, query, key.transpose(1, 2), alpha=size ** -.5), -1)
        mixed = (weights @ value).view(texts, self.heads, -1, size).transpose(1, 2)
        return self.linear(named, f"mix.{layer}", mixed.reshape(workers, -1, self.width))

    def outputs(self, named, rows):
        hidden = embedded(named, rows[:, :, :-1]) + named["position"][:, None]
        hidden = hidden.flatten(1, 2)
        for layer in range(self.layers):
            hidden = hidden + self.attention(named, layer, hidden, rows.shape[0] * rows.shape[1])
            up = self.linear(named, f"up.{layer}", self.normed(named, f"norm_up.{layer}", hidden))
            hidden = hidden + self.linear(named, f"down.{layer}", functional.gelu(up))
        return self.linear(named, "head", self.normed(named, "norm", hidden)), rows[:, :, 1:].reshape(-1)


class AtOnce:
    """Gradients of all workers in one pass."""
    tested, test_batch = 2000, 200

    def __init__(self, model, workers, seed):
        self.model, self.workers, self.start = model, workers, model.start(seed)
        text = tasks.library_text().long()
        cut = int(len(text) * tasks.TRAINED_PART)
        self.trained = text[:cut]
        self.generator = torch.Generator().manual_seed(1000 * seed)
        seven = torch.Generator().manual_seed(tasks.TEST_SEED)
        self.tests = self.draw(text[cut:], self.tested, seven).view(-1, 1, self.test_batch, model.length)

    def draw(self, text, count, generator):
        starts = torch.randint(len(text) - self.model.length, (count,), generator=generator)
        return text[starts[:, None] + torch.arange(self.model.length)]

    def gradients(self, flat):
        rows = self.draw(self.trained, self.workers * self.model.batch, self.generator)
        parameters = flat.expand(self.workers, -1).contiguous().requires_grad_()
        loss = self.model.loss(parameters, rows.view(self.workers, -1, self.model.length))
        loss.backward()
        return parameters.grad, loss.item() / self.workers

    def test(self, flat):
        with torch.no_grad():
            return sum(self.model.loss(flat[None], rows).item() for rows in self.tests) / len(self.tests)


class OneByOne:
    """Gradients of a task's model, one worker after the other."""

    def __init__(self, task, workers, seed):
        self.task, self.tests = task, task.test()
        torch.manual_seed(seed)
        self.model = task.model()
        self.parameters = list(self.model.parameters())[::-1]
        self.start = torch.cat([parameter.data.flatten() for parameter in self.parameters])
        self.generators = [torch.Generator().manual_seed(1000 * seed + worker) for worker in range(workers)]

    def load(self, flat):
        sizes = [parameter.numel() for parameter in self.parameters]
        for parameter, part in zip(self.parameters, flat.split(sizes)):
            parameter.data = part.view_as(parameter)

    def loss(self, inputs, classes):
        return functional.cross_entropy(self.model(inputs).flatten(0, -2), classes.flatten())

    def gradients(self, flat):
        self.load(flat)
        rows, total = [], 0.0
        for generator in self.generators:
            self.model.zero_grad()
            loss = self.loss(*self.task.batch(generator))
            loss.backward()
            total += loss.item()
            rows.append(torch.cat([parameter.grad.flatten() for parameter in self.parameters]))
        return torch.stack(rows), total / len(rows)

    def test(self, flat):
        self.load(flat)
        with torch.no_grad():
            return sum(self.loss(*batch).item() for batch in self.tests) / len(self.tests)


def make_workers(name, workers, seed):
    if name == "tiny":
        return OneByOne(tasks.Text(lambda: tasks.Transformer(64, 2, 4)), workers, seed)
    return AtOnce({"transformer": Transformer, "words": Words}[name](), workers, seed)
