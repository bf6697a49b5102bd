#!/usr/bin/env python3
"""Registers, shared memory and spills of each CUDA kernel, from the compiler's own report.

usage: kernel_resources.py BUILD [OUTPUT]     reads BUILD/compress_kernels/cuda/*.o.txt, which the
                                              target ringpress_cuda leaves
       kernel_resources.py --check FILE       fails on a kernel that uses local memory
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(sm_\d+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
NUMBERS = ["registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes",
           "static_shared_bytes"]
SHARED = re.compile(r"(\d+) bytes smem")


def readable(names):
    """Mangled names as C++ ones, without namespaces."""
    if not shutil.which("c++filt"):
        return names
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True)
    short = [re.sub(r"\([^()]*\)(\d+)", r"\1", line) for line in done.stdout.splitlines()]
    return [re.sub(r"\w+::", "", line.split("(")[0]).removeprefix("void ") for line in short]


def read_report(text):
    """One dictionary for each kernel and architecture."""
    kernels = []
    for line in text.splitlines():
        if match := ENTRY.search(line):
            kernels.append({"kernel": match.group(1), "architecture": match.group(2)})
        elif not kernels:
            continue
        elif match := STACK.search(line):
            kernels[-1].update(zip(("stack_bytes", "spill_store_bytes", "spill_load_bytes"),
                                   map(int, match.groups())))
        elif match := USED.search(line):
            kernels[-1]["registers"] = int(match.group(1))
            shared = SHARED.search(line)
            kernels[-1]["static_shared_bytes"] = int(shared.group(1)) if shared else 0
    return kernels


def collect(build):
    kernels = []
    for path in sorted((build / "compress_kernels" / "cuda").glob("*.o.txt")):
        found = read_report(path.read_text(encoding="utf-8"))
        for kernel, name in zip(found, readable([kernel["kernel"] for kernel in found])):
            kernel["kernel"] = name
        kernels += found
    return sorted(kernels, key=lambda kernel: (kernel["kernel"], kernel["architecture"]))


def offences(kernels):
    """What no kernel may do, as printable lines."""
    lines = []
    for kernel in kernels:
        name = f"{kernel['kernel']} for {kernel['architecture']}"
        if "registers" not in kernel or "stack_bytes" not in kernel:
            lines.append(f"{name}: the compiler's report is incomplete")
        elif kernel["stack_bytes"] or kernel["spill_store_bytes"] or kernel["spill_load_bytes"]:
            lines.append(f"{name}: {kernel['stack_bytes']} bytes of local memory, "
                         f"{kernel['spill_store_bytes']} spilled")
    return lines if kernels else ["there are no kernels"]


def toolkit(nvcc):
    """The toolkit's version."""
    path = shutil.which(nvcc) or shutil.which("/usr/local/cuda/bin/nvcc")
    if not path:
        return None
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return re.search(r"release ([\d.]+)", version.stdout).group(1)


def pack(kernels):
    """One row for each kernel: its numbers, in the order of NUMBERS, for each architecture."""
    rows = {}
    for kernel in kernels:
        numbers = [kernel.get(name) for name in NUMBERS]
        rows.setdefault(kernel["kernel"], {})[kernel["architecture"]] = numbers
    return [{"kernel": name, **architectures} for name, architectures in rows.items()]


def unpack(result):
    """The dictionaries that pack() was given."""
    kernels = []
    for row in result["kernels"]:
        for architecture, numbers in row.items():
            if architecture != "kernel":
                known = {name: n for name, n in zip(result["numbers"], numbers) if n is not None}
                kernels.append({"kernel": row["kernel"], "architecture": architecture, **known})
    return kernels


def write(kernels, path):
    rows = ",\n".join("  " + json.dumps(row) for row in pack(kernels))
    head = json.dumps({"toolkit": toolkit("nvcc"), "numbers": NUMBERS})[:-1]
    path.write_text(head + ', "kernels": [\n' + rows + "\n]}\n", encoding="utf-8")


def main(words):
    if len(words) == 2 and words[0] == "--check":
        wrong = offences(unpack(json.loads(pathlib.Path(words[1]).read_text(encoding="utf-8"))))
        print("\n".join(wrong) or "no kernel uses local memory")
        return 1 if wrong else 0
    if len(words) not in (1, 2) or words[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    root = pathlib.Path(__file__).resolve().parents[1]
    output = pathlib.Path(words[1]) if len(words) == 2 else root / "perf/results/kernels.json"
    kernels = collect(pathlib.Path(words[0]))
    write(kernels, output)
    wrong = offences(kernels)
    print("\n".join(wrong) or f"{len(kernels)} kernels, none uses local memory: {output}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
