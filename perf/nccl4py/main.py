#!/usr/bin/env python3
"""NVIDIA's newest Python package for NCCL, nccl4py, over this library on host memory.

usage: perf/nccl4py/main.py [LIBRARY_FOLDER]
Installs nccl4py and what it needs into a folder that is removed at the end, runs ranks.py with 1,
2, 3, 4 and 8 ranks over LIBRARY_FOLDER/libnccl.so.2 (default build/lib/host), and prints a table of its
checks. The exit status is 1 if one of them fails.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEEDED = ["nccl4py", "numpy", "packaging", "cuda-core~=1.0", "cuda-pathfinder<2.0.0,>=1.5.4",
          "cuda-bindings~=13.0"]
SIZES = (1, 2, 3, 4, 8)
PATIENCE_S = 120


def install(folder):
    """Its extra packages for a GPU are left out."""
    venv.create(folder, with_pip=True)
    python = pathlib.Path(folder) / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    *NEEDED], check=True)
    return python


def version_of(python):
    code = "import importlib.metadata as m; print(m.version('nccl4py'))"
    return subprocess.run([python, "-c", code], check=True, text=True,
                          capture_output=True).stdout.strip()


def run_ranks(python, library, size, folder):
    """What each rank says of each check: "ok" or what was wrong."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library), RINGPRESS_SOCKET_IFNAME="lo")
    identifier = pathlib.Path(folder) / f"id{size}"
    ranks = [subprocess.Popen([python, HERE / "ranks.py", str(rank), str(size), identifier],
                              env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for rank in range(size)]
    said = []
    for rank in ranks:
        output, errors = rank.communicate(timeout=PATIENCE_S)
        lines = [line.replace(" ok", ": ok") for line in output.splitlines()]
        said.append(dict(line.split(": ", 1) for line in lines if ": " in line))
        if rank.returncode != 0:
            said[-1]["all checks"] = f"exit status {rank.returncode}: {errors[-300:]}"
    return said


def main():
    library = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/lib/host").resolve()
    with tempfile.TemporaryDirectory() as folder:
        python = install(pathlib.Path(folder) / "venv")
        print(f"perf/nccl4py/main.py    nccl4py {version_of(python)}")
        table, wrong = {}, []
        for size in SIZES:
            for rank, said in enumerate(run_ranks(python, library, size, folder)):
                for name, text in said.items():
                    row = table.setdefault(name, {})
                    row[size] = row.get(size, 0) + (text == "ok")
                    if text != "ok":
                        wrong.append(f"{size} ranks, rank {rank}, {name}: {text}")
    print("ranks for which a check holds, of " + ", ".join(str(size) for size in SIZES))
    for name, row in table.items():
        print(f"{name:32}" + "".join(f"{row.get(size, 0):4}" for size in SIZES))
    for line in wrong:
        print(line)
    return 1 if wrong or not table else 0


if __name__ == "__main__":
    sys.exit(main())
