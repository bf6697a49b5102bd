"""The command behind run.sh: arguments, what the machine has, areas in turn, their reports."""
import argparse
import datetime
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import bench
import ddp_run
import interposer
import jobs
import kernels
import machine
import plugin

AREAS = {"kernels": kernels.KERNELS, "sanitize": kernels.SANITIZE, "bench": bench,
         "plugin": plugin, "nccl": interposer, "torch": ddp_run}
PASSED, FAILED, CANNOT_RUN, NO_GPU = 0, 1, 2, 3


def rank_counts(text):
    """Of "2,4": (2, 4)."""
    counts = tuple(int(word) for word in text.split(","))
    if min(counts) < 2:
        raise ValueError("fewer than 2 ranks")
    return counts


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="tests/gpu/run.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Tries on a GPU what only a GPU can prove. Without AREA: all areas.\n"
                    "Areas: " + ", ".join(AREAS) + ". Writes gpu-AREA.json.",
        epilog="Exit status: 0 all passed, 1 something failed, 2 it cannot run, 3 no GPU.")
    parser.add_argument("area", nargs="*", metavar="AREA", help="what to try")
    parser.add_argument("--build", type=pathlib.Path, default=jobs.ROOT / "build", metavar="DIR",
                        help="build tree, or what pack.sh made of one (default: build)")
    parser.add_argument("--nccl", type=pathlib.Path, metavar="FILE",
                        help="the libnccl.so.2 to use (default: looked for)")
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR",
                        default=jobs.ROOT / "perf" / "results", help="default: perf/results")
    parser.add_argument("--logs", type=pathlib.Path, metavar="FILE.tar.gz",
                        help="keep NCCL's logs and all output in this file")
    parser.add_argument("--limit", type=int, default=540, metavar="SECONDS",
                        help="begin nothing after so long (default 540)")
    parser.add_argument("--repetitions", type=int, default=plugin.REPETITIONS, metavar="N",
                        help="timed calls of each setting (default %(default)s)")
    parser.add_argument("--ranks", type=rank_counts, metavar="N[,N]",
                        help="numbers of ranks to try (default: 2,4)")
    parser.add_argument("--seconds", type=int, default=kernels.SECONDS, metavar="N",
                        help="how long kernels are compared (default %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    options = parser.parse_args(words)
    unknown = [area for area in options.area if area not in AREAS]
    if unknown:
        parser.error(f"no area {unknown[0]}; there are: {', '.join(AREAS)}")
    if min(options.repetitions, options.limit, options.seconds) < 1:
        parser.error("--repetitions, --limit and --seconds are at least 1")
    options.area = options.area or list(AREAS)
    options.build = options.build.resolve()
    return options


def complain(text, status=CANNOT_RUN):
    print(f"tests/gpu/run.sh: {text}", file=sys.stderr)
    sys.exit(status)


def find_setup(options):
    """Where things are; ends the program where something is missing."""
    environment = jobs.Setup(options.build, None).environment()
    driver = machine.driver_folder(environment)
    if options.nccl and not machine.is_nccl(options.nccl):
        complain(f"--nccl {options.nccl}: no NCCL of NVIDIA's")
    nccl = options.nccl.resolve().parent if options.nccl else \
        machine.find_nccl(options.build, environment)
    if options.dry_run:
        return jobs.Setup(options.build, nccl or pathlib.Path("FOLDER_OF_LIBNCCL"), driver)
    wanted = [AREAS[area] for area in options.area]
    for area in wanted:
        if not getattr(area, "NEEDS_NCCL", True):
            needed = area.NEEDS(jobs.Setup(options.build, nccl, driver))
            if not needed.exists():
                complain(f"{needed} is missing: build device_kernels, where nvcc is")
    if not any(getattr(area, "NEEDS_NCCL", True) for area in wanted):
        return jobs.Setup(options.build, nccl, driver)
    if not nccl:
        complain("no libnccl.so.2 of NVIDIA's; --nccl FILE says where it is")
    setup = jobs.Setup(options.build, nccl, driver)
    for needed in (setup.program, setup.plugin_folder / machine.PLUGIN):
        if not needed.exists():
            complain(f"{needed} is missing: build all_reduce_perf_cuda and ringpress_plugin, where "
                     "cuda.h and nccl.h are; --build DIR names another build")
    if problem := machine.load_error(setup.plugin_folder / machine.PLUGIN, setup.environment()):
        complain(f"{machine.PLUGIN} cannot be loaded: {problem} (tests/gpu/pack.sh takes along "
                 "what it needs)")
    return setup


def commit():
    if not shutil.which("git"):
        return None
    done = subprocess.run(["git", "-C", str(jobs.ROOT), "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


class Report:
    """What an area found; on disk after each step, so that one that is cut off leaves its part."""

    def __init__(self, path, area, found):
        self.path = path
        self.content = {"area": area, "result": "unfinished", "commit": commit(),
                        "started": self.now(), "machine": found, "checks": []}

    @staticmethod
    def now():
        return datetime.datetime.now().astimezone().isoformat(timespec="seconds")

    def record(self, check=None, **facts):
        self.content.update(facts)
        if check:
            self.content["checks"].append(check)
            print(f"{check['status']:>7}  {check['name']}", flush=True)
            for line in check["wrong"]:
                print("         " + line.replace("\n", "\n         "))
            if ratio := check.get("figures", {}).get("times_faster"):
                print(f"         q4 is {ratio:.2f} times as fast as none", flush=True)
        self.write()

    def finish(self):
        every = {check["status"] for check in self.content["checks"]}
        self.content["result"] = "passed" if every == {"passed"} else "failed"
        self.content["finished"] = self.now()
        self.write()
        return self.content["result"] == "passed"

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Commands as one types them in the repository, wherever it lies.
        text = json.dumps(self.content, indent=1).replace(f"{jobs.ROOT}/", "")
        self.path.write_text(text + "\n", encoding="utf-8")


def run_areas(options, setup, found):
    passed = True
    with tempfile.TemporaryDirectory(prefix="ringpress-gpu-logs-") as name:
        for area in options.area:
            report = Report(options.results / f"gpu-{area}.json", area, found)
            keep = pathlib.Path(name) / area if options.logs else None
            try:
                AREAS[area].run(setup, options.repetitions, keep, report.record)
                passed = report.finish() and passed
            finally:
                if options.logs:
                    with tarfile.open(options.logs, "w:gz") as archive:
                        archive.add(name, arcname="logs")
            print(f"{area}: {report.content['result']}, {report.path}")
    return PASSED if passed else FAILED


def main(words):
    options = parse_arguments(words)
    kernels.SECONDS = options.seconds
    if options.ranks:
        plugin.RANKS = interposer.RANKS = options.ranks
    setup = find_setup(options)
    if options.dry_run:
        for area in options.area:
            print("\n".join(AREAS[area].dry_run(setup, options.repetitions)))
        return PASSED
    setup.deadline = time.monotonic() + options.limit
    found = machine.describe(setup.nccl, setup.environment())
    if not found["gpus"]:
        print(f"no GPU: not yet measured ({found['why']})")
        return NO_GPU
    print(f"{found['gpus'][0]}, CUDA {found['cuda']}, NCCL {found.get('nccl')} "
          f"({found.get('nccl_library')})", flush=True)
    return run_areas(options, setup, found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
