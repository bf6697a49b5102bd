#!/usr/bin/env python3
"""How frameworks reach NCCL, from their wheels, and which door of this library is before them there.

usage: frameworks.py measure LIBRARY_FOLDER RESULT [--wheels FOLDER] [--only torch,jax-cuda13-pjrt]
`measure` makes RESULT from wheels (see tests/frameworks.sh); LIBRARY_FOLDER is a build's lib/.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import framework_binding
import framework_elf

NCCL_PACKAGE = "nvidia-nccl-cu13"
NCCL_MEMBER = "nvidia/nccl/lib/libnccl.so.2"
# What wheels of this processor call themselves; pip takes none that is not named.
GLIBC = ["manylinux2014"] + [f"manylinux_2_{minor}" for minor in (17, 24, 26, 27, 28, 31, 34, 35)]
PYTHON = "3.12"

# The framework, its package, the files of the wheel that reach NCCL, the one that calls it before
# one that it is passed on through; and whether NCCL's wheel has been opened by its path before.
FRAMEWORKS = [
    ("PyTorch", "torch", [r"torch/lib/libtorch_cuda\.so"], False),
    ("CuPy, CUDA 13", "cupy-cuda13x", [r"cupy_backends/cuda/libs/nccl\..*\.so"], True),
    ("CuPy, CUDA 12", "cupy-cuda12x", [r"cupy_backends/cuda/libs/nccl\..*\.so"], True),
    ("JAX, CUDA 13", "jax-cuda13-pjrt", [r"jax_plugins/xla_cuda13/xla_cuda_plugin\.so"], True),
    ("JAX, CUDA 12", "jax-cuda12-pjrt", [r"jax_plugins/xla_cuda12/xla_cuda_plugin\.so"], True),
    ("vLLM, its own calls", "vllm", [r"vllm/distributed/device_communicators/pynccl_wrapper\.py",
                                     r"vllm/utils/nccl\.py"], True),
    ("TensorFlow", "tensorflow", [r"tensorflow/libtensorflow_cc\.so\.2",
                                  r"tensorflow/libtensorflow_framework\.so\.2"], False),
    ("XGBoost", "xgboost", [r"xgboost/lib/libxgboost\.so", r"xgboost/collective\.py"], False),
]
PROOFS = {
    "linked": "its undefined functions, bound by the dynamic linker",
    "trampoline": "a call of its own trampoline",
    "opened": "a program that opens what it opens",
}


def download(package, folder):
    """The wheel of the newest release, in the folder; None where the registry has none."""
    name = re.sub(r"[-_.]+", "_", package)
    found = sorted(folder.glob(f"{name}-*.whl"))
    if found:
        return found[-1]
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
             "--python-version", PYTHON, "--dest", str(folder)]
    for platform in [f"{glibc}_x86_64" for glibc in GLIBC] + ["any"]:
        words += ["--platform", platform]
    subprocess.run([*words, package], check=False)
    return next(iter(sorted(folder.glob(f"{name}-*.whl"))), None)


def unpack(wheel, patterns, folder):
    """The members that match, at their places below the folder, in the patterns' order."""
    unpacked = []
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if any(re.fullmatch(pattern, member) for pattern in patterns):
                unpacked.append(pathlib.Path(archive.extract(member, folder)))
    order = [next(i for i, pattern in enumerate(patterns)
                  if re.fullmatch(pattern, str(path.relative_to(folder)))) for path in unpacked]
    return [path for _, path in sorted(zip(order, unpacked))]


def describe(paths):
    """The Way of a wheel's files, of which the shared objects come first."""
    sources = [path.read_text(encoding="utf-8") for path in paths if path.suffix == ".py"]
    if len(sources) == len(paths):
        return framework_elf.describe_python(sources)
    way = framework_elf.describe(paths[0])
    if way.reaches == "opened" and framework_elf.hands_over_path(sources):
        return dataclasses.replace(way, opens="path")
    return way


def bind(target, paths, way):
    """(proof, library): where calls go, and how that is known."""
    if way.trampoline is not None:
        return "trampoline", framework_binding.called(target, way.trampoline)
    if way.reaches == "opened":
        name = str(target.nccl) if way.opens == "path" else way.opens
        return "opened", framework_binding.opened(target, name, way.functions)
    library = framework_binding.linked(target, way.functions)
    for path in paths[1:]:
        if library == os.path.realpath(path):  # Trampolines of another library of the wheel.
            return bind(dataclasses.replace(target, path=path), [path], framework_elf.describe(path))
    return "linked", library


def examine(paths, shims, nccl, opens_first):
    """The Way, the proof, and for each door the library that calls go to."""
    way = describe(paths)
    proofs, bound = [], {}
    if way.reaches in ("linked", "opened"):
        for door, environment in framework_binding.doors(shims).items():
            target = framework_binding.Target(paths[0], nccl, opens_first, environment)
            proof, bound[door] = bind(target, paths, way)
            proofs += [proof] * (proof not in proofs)
    return way, "; ".join(PROOFS[proof] for proof in proofs), bound


def doors_that_work(bound, reaches):
    """Those by which all calls come to this library. NCCL itself looks for the plugin."""
    working = [door for door, library in bound.items() if library == "ringpress"]
    return working + ([framework_binding.PLUGIN] if reaches != "no" else [])


def contradictions(rows):
    """Rows that cannot be right, as printable lines."""
    lines = []
    for row in rows:
        without = row["bound"].get("none")
        if row["reaches"] == "no":
            lines.append(f"{row['package']}: {row['evidence']}")
        elif row["reaches"] != "contained" and without != "NCCL":
            lines.append(f"{row['package']}: without this library its calls go to {without}")
    return lines


def row_of(entry, wheel, shims, nccl, site):
    title, package, patterns, opens_first = entry
    paths = unpack(wheel, patterns, site)
    if len(paths) != len(patterns):
        raise ValueError(f"{wheel.name}: not all of {patterns} are in it")
    way, proof, bound = examine(paths, shims, nccl, opens_first)
    return {"framework": title, "package": package, "version": wheel.name.split("-")[1],
            "wheel": wheel.name, "file": str(paths[0].relative_to(site)), "reaches": way.reaches,
            "evidence": way.evidence, "opens": way.opens, "functions": way.functions,
            "proof": proof, "bound": bound, "doors": doors_that_work(bound, way.reaches)}


def measure(options):
    chosen = options.only.split(",") if options.only else [entry[1] for entry in FRAMEWORKS]
    shims = pathlib.Path(options.library).resolve()
    rows, absent = [], []
    with tempfile.TemporaryDirectory() as temporary:
        wheels = pathlib.Path(options.wheels or temporary)
        wheels.mkdir(parents=True, exist_ok=True)
        nccl_wheel = download(NCCL_PACKAGE, wheels)
        if nccl_wheel is None:
            print("pip reaches no package registry that has NCCL", file=sys.stderr)
            sys.exit(3)
        for entry in FRAMEWORKS:
            if entry[1] not in chosen:
                continue
            wheel = download(entry[1], wheels)
            if wheel is None:
                absent.append(entry[1])
                continue
            with tempfile.TemporaryDirectory(dir=wheels) as folder:
                site = pathlib.Path(folder)
                nccl = unpack(nccl_wheel, [re.escape(NCCL_MEMBER)], site)[0]
                rows.append(row_of(entry, wheel, shims, nccl, site))
            print(f"{entry[1]}: {rows[-1]['reaches']}; {rows[-1]['bound']}", flush=True)
            if not options.wheels:
                wheel.unlink()
        result = {"command": "tests/frameworks.sh", "date": datetime.date.today().isoformat(),
                  "nccl": "-".join(nccl_wheel.name.split("-")[:2]), "absent": absent,
                  "frameworks": rows}
    if not options.only:
        text = json.dumps(result, indent=1) + "\n"
        pathlib.Path(options.result).write_text(text, encoding="utf-8")
    wrong = contradictions(rows)
    print("\n".join(wrong) or f"{len(rows)} frameworks")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measurer = commands.add_parser("measure")
    measurer.add_argument("library")
    measurer.add_argument("result")
    measurer.add_argument("--wheels")
    measurer.add_argument("--only")
    return measure(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
