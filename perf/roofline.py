#!/usr/bin/env python3
"""How fast the codec kernels can be on an H100 or H200 at most: a prediction, for machines without.

usage: roofline.py KERNELS... [--resources perf/results/kernels.json] [--output FILE]
KERNELS: uniform.o and lloyd.o of the target ringpress_cuda, built for 9.0, or their cubins. Needs
nvdisasm, and cuobjdump for .o files (CUDA's toolkit has them).

A warp takes tiles of 1024 values. For each operation the instructions of one tile are counted in the
compiled code (sass.py), and the bytes that it moves are known from the wire format. The time of a
tile is the longest of: bytes over the memory's rate; instructions over what schedulers issue; those
of each pipe over its rate; the latency of memory over the warps that registers and shared memory
leave room for. The prediction is the time that memory alone would take over that.
"""
import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import tempfile

import kernel_resources
import sass

TILE = 1024
LANES = 32
ARCHITECTURE = "sm_90"
CLOCK = 1.98e9           # Hz; what the peak of 66.9 TFLOP/s in float32 is counted with.
MULTIPROCESSORS = 132
LATENCY = 800e-9         # Seconds from a load to its value while memory is busy.
MEMORY = {"H200": 4.8e12, "H100": 3.35e12}  # Bytes a second.
WARPS = 4                # Of a block.
LLOYD_SHARED = WARPS * (4096 + 256)         # Bytes of a block.
# Warp instructions a clock of a multiprocessor: NVIDIA's table of throughputs for 9.0, over 32.
ISSUE = "issue"
RATES = {ISSUE: 4, "FMA": 4, "IMAD": 2, "ALU": 2, "XU": 0.5, "LSU": 1}
PIPES = {"FADD": "FMA", "FMUL": "FMA", "FFMA": "FMA", "IMAD": "IMAD", "MUFU": "XU", "F2I": "XU",
         "I2F": "XU", "FCHK": "XU", "F2F": "XU", "LDG": "LSU", "STG": "LSU", "LDS": "LSU",
         "STS": "LSU", "SHFL": "LSU"}
# Issued, and no more: branches, barriers, constants, the uniform path.
ISSUED_ALONE = {"BRA", "BRX", "BSSY", "BSYNC", "BREAK", "EXIT", "WARPSYNC", "NOP", "LDC", "S2R", "CS2R",
                "VOTE", "VOTEU", "R2UR", "DEPBAR", "YIELD"}
TARGETS = {"quantise": 0.95, "dequantise": 0.92, "hop": 0.93, "error feedback": 0.90}
ROTATED_TARGET = 0.80
ASSUMPTIONS = [
    f"{MULTIPROCESSORS} multiprocessors of 4 schedulers at {CLOCK / 1e9:g} GHz, one instruction a clock each",
    "the cheapest way through the code that does a tile's work, which no warp can undercut",
    "whole tiles of aligned arrays, finite values, blocks of 128 (grid=lloyd: 1024), one part in a hop",
    f"memory at its nominal rate, {LATENCY * 1e9:g} ns from a load to its value, one tile's under way a warp",
    "pipes overlap with each other and with memory without loss",
]
ELEMENTS = {"float32": ("float", 4), "bfloat16": ("Bfloat16", 2)}


def row_list():
    """(operation, codec, bits, element) of all that is predicted."""
    uniform = [(operation, f"q{bits}", bits, element) for operation in TARGETS for bits in (4, 8)
               for element in ELEMENTS]
    return uniform + [(operation, "q4:grid=lloyd", 4, element)
                      for operation in ("quantise", "dequantise") for element in ELEMENTS]


def kernel_name(operation, codec, bits, element):
    """As kernel_resources.readable() says it."""
    kind = {"dequantise": "decode", "hop": "hop"}.get(operation, "encode")
    form = "LloydFormat<AnyHardware,UsualParameters>" if "lloyd" in codec else \
        f"NearestFormat<AnyHardware,{bits}>"
    return f"{kind}_kernel<{form},{ELEMENTS[element][0]}>"


def work(operation, codec, bits, element):
    """What a lane does for a tile, as sass.cheapest_round() wants it: 32 values in 4 rows."""
    rotated = "lloyd" in codec
    values = 2 * ELEMENTS[element][1]  # Accesses of 16 bytes.
    scales = {} if rotated else {"STG.2": 1}  # Each lane stores, loads and divides for one row.
    written = {f"STG.{bits}": 4, **scales}
    # Rotated: 5 of the strides are between lanes, codes and levels are found in tables that lie across
    # lanes, and three sums end there. Else 16 lanes have one scale, found in 4 steps, and
    # each row then gets what one lane has worked out: its inverse, and its step where one decodes.
    steps = 4 if operation in ("hop", "error feedback") else 0
    shuffles = {"SHFL": (5 + 3) * 32 + 3 * 5} if rotated else {"SHFL": 4 * 4 + 4 + steps}
    if operation == "dequantise" and rotated:
        # The seed of the rotation; one scale; strides and levels.
        return {"LDG.4": 4 + 1, "LDG.2": 1, "STG.16": values, "SHFL": (5 + 1) * 32}
    if operation == "dequantise":
        return {f"LDG.{bits}": 4, "LDG.2": 1, "STG.16": values, "SHFL": 4}
    # A division for each scale (one by a constant takes none): else blocks of zeros are the cheapest.
    divisions = {} if rotated else {"MUFU": 1}
    found = {"LDG.16": values, **written, **shuffles, **divisions}
    if operation == "hop":
        found.update({f"LDG.{bits}": 4, "LDG.2": 1})
    if operation == "error feedback":
        found.update({"LDG.16": values + 8, "STG.16": 8})
    return found


def bytes_of_value(operation, codec, bits, element):
    """(read, written) of device memory."""
    size, wire = ELEMENTS[element][1], bits / 8 + (2 / 1024 if "lloyd" in codec else 2 / 128)
    return {"quantise": (size, wire), "dequantise": (wire, size), "hop": (size + wire, wire),
            "error feedback": (size + 4, wire + 4)}[operation]


def pipe_of(instruction):
    name = instruction.name
    return PIPES.get(name, None if name in ISSUED_ALONE or name.startswith("U") else "ALU")


def cycles(instructions):
    """Clocks of a multiprocessor that the instructions of a tile take in each pipe."""
    counts = collections.Counter(filter(None, map(pipe_of, instructions)))
    counts[ISSUE] = len(instructions)
    return {pipe: counts[pipe] / rate for pipe, rate in RATES.items()}


def resident_warps(registers, shared):
    """That a multiprocessor has room for."""
    by_registers = 65536 // (-(-registers // 8) * 8 * LANES * WARPS)
    by_shared = 233472 // (shared + 1024)
    return WARPS * min(by_registers, by_shared, 64 // WARPS)


def predict(moved, pipe_cycles, warps, memory):
    """(share of the memory's rate, what limits it)."""
    times = {"memory": TILE * sum(moved) / (memory / MULTIPROCESSORS), "latency": LATENCY / warps}
    times.update({pipe: clocks / CLOCK for pipe, clocks in pipe_cycles.items()})
    limit = max(times, key=times.get)
    return times["memory"] / times[limit], limit


def predicted_row(row, kernels, resources):
    operation, codec, _, _ = row
    name = kernel_name(*row)
    way = sass.cheapest_round(kernels[name], work(*row))
    pipe_cycles = cycles(way)
    registers = resources[name]
    warps = resident_warps(registers, LLOYD_SHARED if "lloyd" in codec else 0)
    moved = bytes_of_value(*row)
    found = {"operation": operation, "codec": codec, "element": row[3], "kernel": name,
             "instructions_per_value": round(len(way) / LANES, 2),
             "bytes_per_value": round(sum(moved), 3), "registers": registers, "warps": warps,
             "cycles_per_tile": {pipe: round(clocks) for pipe, clocks in pipe_cycles.items()},
             "target": ROTATED_TARGET if "lloyd" in codec else TARGETS[operation]}
    for machine, memory in MEMORY.items():
        share, limit = predict(moved, pipe_cycles, warps, memory)
        found[machine] = {"share": round(share, 3), "limit": limit}
    return found


def cubins(paths, folder):
    """Those that are for ARCHITECTURE."""
    for path in paths:
        if path.suffix != ".o":
            yield path
            continue
        place = folder / path.stem
        place.mkdir()
        subprocess.run(["cuobjdump", "-xelf", ARCHITECTURE, str(path.resolve())], cwd=place, check=True,
                       capture_output=True)
        yield from place.glob("*.cubin")


def load_kernels(paths):
    """{readable name: instructions}."""
    kernels = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in cubins(paths, pathlib.Path(folder)):
            found = sass.disassemble(path)
            for name, mangled in zip(kernel_resources.readable(list(found)), found):
                kernels[name.replace(" ", "")] = found[mangled]
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    results = pathlib.Path(__file__).resolve().parent / "results"
    parser.add_argument("kernels", type=pathlib.Path, nargs="+")
    parser.add_argument("--resources", type=pathlib.Path, default=results / "kernels.json")
    parser.add_argument("--output", type=pathlib.Path, default=results / "roofline.json")
    arguments = parser.parse_args()
    kept = kernel_resources.unpack(json.loads(arguments.resources.read_text(encoding="utf-8")))
    resources = {kernel["kernel"].replace(" ", ""): kernel["registers"] for kernel in kept
                 if kernel["architecture"] == ARCHITECTURE}
    kernels = load_kernels(arguments.kernels)
    rows = []
    for row in row_list():
        rows.append(predicted_row(row, kernels, resources))
        print(json.dumps(rows[-1]), flush=True)
    result = {"command": "perf/roofline.py", "date": datetime.date.today().isoformat(),
              "what": "a prediction from compiled code; nothing was measured on a GPU",
              "architecture": ARCHITECTURE, "assumptions": ASSUMPTIONS, "rows": rows}
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
