#!/usr/bin/env python3
"""Measures the same all-reduce by Gloo, Open MPI and ringpress, in turn, and prints ratios.

Each round runs every contender once over all sizes (A B C A B C ...); samples of all rounds are pooled.
All contenders are timed alike: float32 sum, every call timed by rank 0, calls back to back.
Open MPI runs in several configurations (algorithms, in place and not); per size its best one counts.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHAPED = ROOT / "perf" / "shaped.sh"
PYTHON_WITH_TORCH = "/usr/bin/python3"
TIMEOUT_SECONDS = 600
SMALL_BYTES = 256 << 10
ALGORITHM = "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm"
YIELD = "--mca mpi_yield_when_idle 1"


def parse_bytes(text):
    units = {"K": 10, "M": 20, "G": 30}
    text = text.upper().rstrip("B")
    if text and text[-1] in units:
        return int(float(text[:-1]) * (1 << units[text[-1]]))
    return int(text)


def iterations_for(size, local):
    """Enough calls for a median, few enough for large sizes on slow links."""
    return max(8 if local else 2, min(200, (32 << 20) // max(size, 1)))


def statistic_for(size, local, rate):
    """What a cell shows. A shaped link lets a burst pass at full speed after each pause, so sizes
    between latency and 100 MB have fast calls after slow ones: there only the mean tells."""
    between = 16 << 10 <= size < 100_000_000
    return "mean" if not local and rate != "none" and between else "median"


class Contender:
    """One program with one configuration. run() returns {bytes: [times in us]}."""

    def __init__(self, name, group, arguments):
        self.name, self.group, self.arguments = name, group, arguments
        self.command = None

    def prefix(self):
        if self.arguments.local:
            return []
        paced = ["--congestion", self.arguments.congestion] if self.arguments.congestion else []
        return [str(SHAPED), "--ranks", str(self.arguments.ranks), "--rate", self.arguments.rate,
                *paced, *self.shaping(), "--"]

    def shaping(self):
        """More options of shaped.sh."""
        return []

    def execute(self, command, environment=None):
        self.command = shlex.join(command)
        if environment:
            self.command = " ".join(f"{k}={shlex.quote(v)}" for k, v in environment.items()) + \
                " " + self.command
        result = subprocess.run(command, env={**os.environ, **(environment or {})}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                                timeout=TIMEOUT_SECONDS)
        if result.returncode != 0:
            raise RuntimeError(f"{self.name} failed ({result.returncode}): {self.command}\n"
                               f"{result.stderr[-2000:]}")
        return result.stdout

    def sizes(self, sizes):
        return sizes

    def plan(self, sizes):
        return [f"{size}:{iterations_for(size, self.arguments.local)}" for size in sizes]

    @staticmethod
    def parse_lines(text):
        found = {}
        for line in text.splitlines():
            if line.startswith("{"):
                record = json.loads(line)
                found[record["bytes"]] = record["times_us"]
        return found


class Gloo(Contender):
    def run(self, sizes):
        program = [PYTHON_WITH_TORCH, str(HERE / "gloo_all_reduce.py"), *self.plan(sizes)]
        environment = {"OMP_NUM_THREADS": "1"}
        if not self.arguments.local:
            return self.parse_lines(self.execute(self.prefix() + program, environment))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment.update(WORLD_SIZE=str(self.arguments.ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        others = [subprocess.Popen(program, env={**os.environ, **environment, "RANK": str(rank)})
                  for rank in range(1, self.arguments.ranks)]
        try:
            text = self.execute(program, {**environment, "RANK": "0"})
            for process in others:
                process.wait(timeout=60)
        finally:
            for process in others:
                process.kill()
        return self.parse_lines(text)


class OpenMpi(Contender):
    def __init__(self, name, group, arguments, options, small_only=False, large_only=False):
        super().__init__(name, group, arguments)
        self.options, self.small_only, self.large_only = options, small_only, large_only

    def sizes(self, sizes):
        if self.small_only:
            return [size for size in sizes if size <= SMALL_BYTES]
        if self.large_only:
            return [size for size in sizes if size >= SMALL_BYTES // 4]
        return sizes

    def run(self, sizes):
        program = [str(self.arguments.work / "mpi_all_reduce"), *self.plan(sizes)]
        if self.arguments.local:
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np",
                       str(self.arguments.ranks), *self.options.split(), *program]
            return self.parse_lines(self.execute(command))
        mailbox = tempfile.mkdtemp(dir=self.arguments.work)
        command = [str(HERE / "mpi_shaped.sh"), mailbox, *program]
        return self.parse_lines(
            self.execute(self.prefix() + command, {"MPI_SHAPED_OPTIONS": self.options}))


class Ringpress(Contender):
    def __init__(self, name, group, arguments, codec):
        super().__init__(name, group, arguments)
        self.codec = codec

    def shaping(self):
        # A core of its own for each rank, as mpirun binds; Gloo's two threads a rank do better free.
        return ["--pin"] if self.arguments.ranks <= os.cpu_count() else []

    def sizes(self, sizes):
        # Below 64 KiB every codec is "none".
        return sizes if self.codec == "none" else [size for size in sizes if size >= 65536]

    def run(self, sizes):
        found = {}
        for size in sizes:
            report = self.arguments.work / "report.json"
            # One process per size, where a peer's process has done the smaller sizes before: as many
            # calls of warm-up bring our connections to the same age (their windows grow with it,
            # the burst of a shaped link is used up). Before the smallest, peers have two calls.
            iterations = str(iterations_for(size, self.arguments.local))
            warmup = "2" if size == min(sizes) and self.codec == "none" else iterations
            command = [str(self.arguments.build / "perf" / "all_reduce_perf"), "--codec",
                       self.codec, "-b", str(size), "-e", str(size), "-n", iterations, "-w",
                       warmup, "-c", "0", "-a", "0", "--placement", "in-place", "--require-codec",
                       "-J", str(report)]
            if self.arguments.local:
                command += ["--ranks", str(self.arguments.ranks)]
            self.execute(self.prefix() + command)
            result = json.loads(report.read_text())["results"][0]
            found[size] = result["in_place_per_iter"]["times_us"]
        return found


def contenders(arguments):
    """What can be measured here; says what cannot."""
    found = []
    torch = subprocess.run([PYTHON_WITH_TORCH, "-c", "import torch"], capture_output=True,
                           check=False).returncode == 0
    if torch:
        found.append(Gloo("gloo", "gloo", arguments))
    else:
        print("peers: no Gloo: python3-torch is not installed", file=sys.stderr)
    if not arguments.mpi:
        pass
    elif shutil.which("mpirun") and shutil.which("mpicc"):
        subprocess.run(["mpicc", "-O2", str(HERE / "mpi_all_reduce.c"), "-o",
                        str(arguments.work / "mpi_all_reduce")], check=True)
        found += [
            OpenMpi("openmpi default", "openmpi", arguments, YIELD),
            OpenMpi("openmpi recursive doubling", "openmpi", arguments, f"{YIELD} {ALGORITHM} 3",
                    small_only=True),
            OpenMpi("openmpi segmented ring", "openmpi", arguments, f"{YIELD} {ALGORITHM} 5",
                    large_only=True),
        ]
        if arguments.local:
            found.append(OpenMpi("openmpi busy", "openmpi", arguments, ""))
    else:
        print("peers: no Open MPI: openmpi-bin and libopenmpi-dev are not installed",
              file=sys.stderr)
    found += [Ringpress(f"ringpress {codec}", f"ringpress {codec}", arguments, codec)
              for codec in arguments.codecs.split(",")]
    return found


def measure(arguments, sizes):
    """samples[contender name][bytes]: times of all rounds, in us."""
    entries = contenders(arguments)
    samples = {entry.name: {} for entry in entries}
    for round_number in range(1, arguments.rounds + 1):
        for entry in entries:
            print(f"peers: round {round_number}/{arguments.rounds}: {entry.name}", file=sys.stderr,
                  flush=True)
            chosen = entry.sizes(sizes)
            for size, times in (entry.run(chosen) if chosen else {}).items():
                samples[entry.name].setdefault(size, []).extend(times)
    return entries, samples


def summarize(entries, samples, sizes, statistic_of):
    """Per size: the best configuration of each group, by the statistic of that size."""
    rows = []
    for size in sizes:
        best, statistic = {}, statistic_of(size)
        for entry in entries:
            times = samples[entry.name].get(size)
            if not times:
                continue
            cell = {"configuration": entry.name, "median_us": statistics.median(times),
                    "mean_us": statistics.fmean(times), "min_us": min(times),
                    "max_us": max(times), "samples": len(times)}
            cell["time_us"] = cell[f"{statistic}_us"]
            if entry.group not in best or cell["time_us"] < best[entry.group]["time_us"]:
                best[entry.group] = cell
        rows.append({"bytes": size, "statistic": statistic, "best": best, "ratios": ratios(best)})
    return rows


def ratios(best):
    """How many times faster than each peer every ringpress setting is."""
    found = {}
    for peer in ("gloo", "openmpi"):
        for group, cell in best.items():
            if group.startswith("ringpress") and peer in best:
                found[f"{group} over {peer}"] = best[peer]["time_us"] / cell["time_us"]
    return found


def human(size):
    for shift, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size / 1e6:g} MB" if size >= 1000000 else f"{size} B"


def table(rows):
    groups = sorted({group for row in rows for group in row["best"]},
                    key=lambda group: (group.startswith("ringpress"), group))
    lines = ["time (us) of one all-reduce; (x): times faster than the better peer",
             f"{'size':>9}  {'':>6}  " + "  ".join(f"{group:>20}" for group in groups)]
    for row in rows:
        peers = [row["best"][peer]["time_us"] for peer in ("gloo", "openmpi")
                 if peer in row["best"]]
        cells = []
        for group in groups:
            cell = row["best"].get(group)
            text = "" if cell is None else f"{cell['time_us']:.1f}"
            if cell and peers and group.startswith("ringpress"):
                text += f" ({min(peers) / cell['time_us']:.2f}x)"
            cells.append(f"{text:>20}")
        lines.append(f"{human(row['bytes']):>9}  {row['statistic']:>6}  " + "  ".join(cells))
    return "\n".join(lines)


def first_line(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return (result.stdout or result.stderr).strip().split("\n")[0]


def machine():
    model = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.processor())
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo", encoding="utf-8"))
    return {"cpu": model, "cores": os.cpu_count(), "memory_gb": round(memory / 1e6, 1),
            "kernel": platform.release(), "load_average": os.getloadavg()[0]}


def versions():
    found = {"ringpress": first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])}
    if shutil.which("mpirun"):
        found["openmpi"] = first_line(["mpirun", "--version"])
    found["torch"] = first_line([PYTHON_WITH_TORCH, "-c", "import torch; print(torch.__version__)"])
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(prog="perf/peers.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--local", action="store_true", help="one host, each peer at its best")
    where.add_argument("--rate", default="1gbit", help="shaped links (default 1gbit; none: veth)")
    parser.add_argument("--congestion", default="", help="as shaped.sh has it; default: the machine's")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="4K,64K,1M,16M,100000000,256M")
    parser.add_argument("--codecs", default="none,q8,q4,q2")
    parser.add_argument("--no-mpi", dest="mpi", action="store_false", help="Gloo is the only peer")
    parser.add_argument("--json", type=pathlib.Path, help="default perf/results/peers-*.json")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    sizes = [parse_bytes(text) for text in arguments.sizes.split(",")]
    link = "local" if arguments.local else arguments.rate
    link += f"-{arguments.congestion}" if arguments.congestion else ""
    output = arguments.json or \
        ROOT / "perf" / "results" / f"peers-{link}-n{arguments.ranks}.json"
    with tempfile.TemporaryDirectory(prefix="ringpress-peers.") as work:
        arguments.work = pathlib.Path(work)
        started = datetime.datetime.now().isoformat(timespec="seconds")
        entries, samples = measure(arguments, sizes)
        rows = summarize(entries, samples, sizes,
                         lambda size: statistic_for(size, arguments.local, arguments.rate))
        print(table(rows))
        report = {
            "link": link, "ranks": arguments.ranks, "rounds": arguments.rounds,
            "start_time": started, "command": shlex.join(["perf/peers.sh", *sys.argv[1:]]),
            "machine": machine(), "versions": versions(),
            "commands": {entry.name: (entry.command or "").replace(str(ROOT) + "/", "")
                         for entry in entries},
            "rows": rows,
            "samples_us": {name: {str(size): [round(time, 2) for time in times]
                                  for size, times in by_size.items()}
                           for name, by_size in samples.items()},
        }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.SubprocessError) as error:
        print(f"peers: {error}", file=sys.stderr)
        sys.exit(1)
