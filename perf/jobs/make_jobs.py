#!/usr/bin/env python3
"""Writes the job files beside this script: five models as Wang et al. (EuroSys 2023) train them.

  python3 perf/jobs/make_jobs.py            writes them
  python3 perf/jobs/make_jobs.py --check    fails if one differs from what it would write

Sizes and numbers of tensors are those of the models. Times are not measured: a layer's come from its
floating-point operations at RATE, backward taking twice forward's, and at least LAUNCH a tensor.
Batches are the paper's a GPU: 32 images, 1024 tokens. It says 80 tokens for GPT-2 and LSTM, which
would take a hundredth of the time that its scaling factors imply; here GPT-2 has 1024 tokens, the
LSTM 80 sequences of 35. Codecs on GPUs cost what the authors' published simulator assumes for 2^20
elements (that much to start, and so much more for each 4 MiB); on CPUs 3 GB/s to compress and 10 GB/s
to decompress, the middle of their log.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
RATE = 9.4e12  # 60 % of what a V100 does in single precision.
LAUNCH = 5e-6
MIB = 1 << 20

NVLINK = {"machines": 8, "gpus_per_machine": 8,
          "inside": {"latency_us": 5, "gigabytes_per_second": 120},
          "between": {"latency_us": 15, "gigabytes_per_second": 11}}
PCIE = {"machines": 8, "gpus_per_machine": 8,
        "inside": {"latency_us": 8, "gigabytes_per_second": 11},
        "between": {"latency_us": 15, "gigabytes_per_second": 2.8}}


def cost(start_us, gigabytes_per_second):
    return {"start_us": start_us, "gigabytes_per_second": round(gigabytes_per_second, 1)}


def compressor(name, ratio, compress_us, decompress_us):
    """Both times are those of 2^20 elements."""
    gpu = {"compress": cost(compress_us, 4 * MIB / compress_us / 1e3),
           "decompress": cost(decompress_us, 4 * MIB / decompress_us / 1e3)}
    cpu = {"compress": cost(20, 3), "decompress": cost(20, 10)}
    return {"name": name, "ratio": ratio, "gpu": gpu, "cpu": cpu}


RANDK = compressor("randk:density=0.01", 0.02, 54, 34)
DGC = compressor("topk:density=0.01", 0.02, 356, 34)
SIGN = compressor("sign", 1 / 32, 130, 140)


class Model:
    """Parameters in the order of forward: (name, elements, operations of forward)."""

    def __init__(self):
        self.parameters = []

    def add(self, name, elements, operations=0):
        self.parameters.append((name, elements, operations))

    def linear(self, name, inputs, outputs, rows):
        self.add(name + ".weight", inputs * outputs, 2 * inputs * outputs * rows)
        self.add(name + ".bias", outputs)

    def norm(self, name, width):
        self.add(name + ".weight", width)
        self.add(name + ".bias", width)

    def conv(self, name, shape, pixels, bias=False):
        inputs, outputs, side = shape
        weights = inputs * outputs * side * side
        self.add(name + ".weight", weights, 2 * weights * pixels)
        if bias:
            self.add(name + ".bias", outputs)

    def job(self, name, cluster, codec):
        """Backward makes the last parameters' gradients first."""
        forward = sum(operations for _, _, operations in self.parameters) / RATE
        launches = LAUNCH * len(self.parameters)
        tensors = [{"name": own, "bytes": 4 * elements,
                    "backward_us": round(1e6 * (2 * operations / RATE + LAUNCH), 1)}
                   for own, elements, operations in reversed(self.parameters)]
        return {"name": name,
                "note": "made by perf/jobs/make_jobs.py: times from operations, not measured",
                **cluster, "compressor": codec,
                "forward_ms": round(1e3 * (forward + launches), 3), "tensors": tensors}


def vgg16(images=32):
    model, inputs, side = Model(), 3, 224
    for block, (outputs, convs) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
        for i in range(convs):
            model.conv(f"conv{block + 1}_{i + 1}", (inputs, outputs, 3), images * side * side, True)
            inputs = outputs
        side //= 2
    for name, rows, columns in (("fc1", 25088, 4096), ("fc2", 4096, 4096), ("fc3", 4096, 1000)):
        model.linear(name, rows, columns, images)
    return model


def resnet101(images=32):
    model, inputs, side = Model(), 64, 56

    def conv(name, shape, pixels):
        model.conv(name, shape, pixels)
        model.norm(name + "_bn", shape[1])

    conv("conv1", (3, 64, 7), images * 112 * 112)
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 23), (512, 3)]):
        for block in range(blocks):
            name = f"layer{stage + 1}.{block}"
            # The first block of a stage halves the side, in its second convolution.
            before = images * side * side
            if block == 0 and stage > 0:
                side //= 2
            pixels = images * side * side
            conv(name + ".conv1", (inputs, width, 1), before)
            conv(name + ".conv2", (width, width, 3), pixels)
            conv(name + ".conv3", (width, 4 * width, 1), pixels)
            if block == 0:
                conv(name + ".downsample", (inputs, 4 * width, 1), pixels)
            inputs = 4 * width
    model.linear("fc", 2048, 1000, images)
    return model


def attention_operations(tokens, length, width):
    """Scores and weighted sums of all heads: no parameters of their own."""
    return 4 * tokens * length * width


def bert_base(tokens=1024, length=384, width=768, words=30522):
    model = Model()
    model.add("embeddings.word", words * width)
    model.add("embeddings.position", 512 * width)
    model.add("embeddings.type", 2 * width)
    model.norm("embeddings.norm", width)
    for layer in range(12):
        name = f"layer{layer}"
        for part in ("query", "key", "value"):
            model.linear(f"{name}.{part}", width, width, tokens)
        weights, elements, operations = model.parameters[-2]
        model.parameters[-2] = (weights, elements,
                                operations + attention_operations(tokens, length, width))
        model.linear(f"{name}.output", width, width, tokens)
        model.norm(f"{name}.norm1", width)
        model.linear(f"{name}.up", width, 4 * width, tokens)
        model.linear(f"{name}.down", 4 * width, width, tokens)
        model.norm(f"{name}.norm2", width)
    model.linear("pooler", width, width, tokens // length)
    # The words' output weights are the embedding's: their operations stand with the bias.
    model.linear("head.transform", width, width, tokens)
    model.norm("head.norm", width)
    model.add("head.bias", words)
    model.add("head.decoder_bias", words, 2 * width * words * tokens)
    model.linear("head.next_sentence", width, 2, tokens // length)
    return model


def gpt2(tokens=1024, width=768, words=50257):
    model = Model()
    model.add("wte", words * width)
    model.add("wpe", 1024 * width)
    for layer in range(12):
        name = f"h{layer}"
        model.norm(name + ".ln_1", width)
        model.linear(name + ".attn", width, 3 * width, tokens)
        model.linear(name + ".attn_proj", width, width, tokens)
        model.norm(name + ".ln_2", width)
        model.linear(name + ".up", width, 4 * width, tokens)
        model.linear(name + ".down", 4 * width, width, tokens)
    # The words' output weights are the embedding's: their operations stand with the last norm.
    model.add("ln_f.weight", width, 2 * width * words * tokens)
    model.add("ln_f.bias", width)
    return model


def lstm(tokens=80 * 35, width=1500, words=33278):
    model = Model()
    model.add("encoder.weight", words * width)
    for layer in range(2):
        for part in ("input", "hidden"):
            model.add(f"lstm{layer}.{part}", 4 * width * width, 8 * width * width * tokens)
        model.add(f"lstm{layer}.input_bias", 4 * width)
        model.add(f"lstm{layer}.hidden_bias", 4 * width)
    # Its weights are the encoder's.
    model.add("decoder.bias", words, 2 * width * words * tokens)
    return model


# File, title, model, its tensors and MiB as published, cluster, compressor.
JOBS = [
    ("vgg16", "VGG16, PCIe and 25 Gb/s, random-k", vgg16(), 32, 528, PCIE, RANDK),
    ("resnet101", "ResNet-101, PCIe and 25 Gb/s, top-k", resnet101(), 314, 170, PCIE, DGC),
    ("bert_base", "BERT-base, NVLink and 100 Gb/s, random-k", bert_base(), 207, 420, NVLINK, RANDK),
    ("gpt2", "GPT-2, NVLink and 100 Gb/s, sign", gpt2(), 148, 475, NVLINK, SIGN),
    ("lstm", "LSTM, PCIe and 25 Gb/s, top-k", lstm(), 10, 328, PCIE, DGC),
]


def text_of(job):
    """One line a tensor."""
    tensors = ",\n".join("    " + json.dumps(tensor) for tensor in job["tensors"])
    head = json.dumps({key: value for key, value in job.items() if key != "tensors"}, indent=2)
    return head[:-2] + ",\n  \"tensors\": [\n" + tensors + "\n  ]\n}\n"


def main():
    wrong = 0
    for name, title, model, count, mebibytes, cluster, codec in JOBS:
        job = model.job(title, cluster, codec)
        size = sum(tensor["bytes"] for tensor in job["tensors"]) / MIB
        if len(job["tensors"]) != count or abs(size - mebibytes) > 0.5:
            sys.exit(f"{name}: {len(job['tensors'])} tensors, {size:.1f} MiB")
        path, text = FOLDER / f"{name}.json", text_of(job)
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path}: differs from what make_jobs.py writes")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
