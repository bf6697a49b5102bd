"""The kernels on a GPU: the same bytes as the scalar reference's, nothing that compute-sanitizer minds,
and how fast they are beside a copy within the device."""
import dataclasses
import glob
import shlex
import shutil

import jobs

SECONDS = 120      # Of comparisons; each specification is tried at least once.
SMALL = 5000       # Elements of what a sanitizer watches.
BENCH_BYTES = 1 << 30
TOOLS = ("memcheck", "racecheck", "synccheck")
FOUND_ERRORS = 9   # compute-sanitizer's exit status then.


def program(setup):
    return setup.build / "lib" / "device_kernels"


def sanitizer():
    """compute-sanitizer's path, or None."""
    found = shutil.which("compute-sanitizer")
    for pattern in ("/usr/local/cuda*/bin/compute-sanitizer",
                    "/usr/local/cuda*/compute-sanitizer/compute-sanitizer"):
        found = found or next(iter(sorted(glob.glob(pattern), reverse=True)), None)
    return found


@dataclasses.dataclass
class Check:
    name: str
    what: str
    words: list
    seconds: int


def judge_bytes(found):
    """What is wrong in the program's answer, and what to keep of it."""
    if not found:
        return ["the program gave no result"], {}
    wrong = [f"{entry['specification']}: {entry['failed']} of {entry['cases']} cases differ: "
             f"{entry['first_failure']}" for entry in found["specifications"] if entry["failed"]]
    if not found["cases"]:
        wrong.append("no case was tried")
    return wrong, {"cases": found["cases"], "failed": found["failed"],
                   "specifications": len(found["specifications"])}


def judge_rates(found):
    if not found:
        return ["the program gave no result"], {}
    return [found["error"]] if found["error"] else [], found


class Area:
    """As the modules that run.py knows: run() and dry_run()."""
    NEEDS_NCCL = False
    NEEDS = staticmethod(program)

    def __init__(self, checks, judge):
        self.checks = checks
        self.judge = judge

    def dry_run(self, setup, repetitions=0):
        for check in self.checks(setup):
            words = ["env", f"LD_LIBRARY_PATH={setup.library_path()}", *check.words]
            yield f"# {check.name}: {check.what}\n{shlex.join(words)}"

    def run(self, setup, repetitions, keep, record):
        for check in self.checks(setup):
            record(check=self.run_check(check, setup, keep))

    def run_check(self, check, setup, keep):
        entry = {"name": check.name, "what": check.what, "command": shlex.join(check.words)}
        if not shutil.which(check.words[0]):
            return {**entry, "status": "skipped", "wrong": [f"there is no {check.words[0]}"]}
        if setup.seconds_left() < 10:
            return {**entry, "status": "skipped", "wrong": ["no time was left"]}
        status, output = jobs.run_words(check.words, setup.environment(),
                                        min(check.seconds, setup.seconds_left()))
        # A sanitizer writes before and after.
        begin, end = output.find("{"), output.rfind("}")
        wrong, figures = self.judge(jobs.parse(output[begin:end + 1]))
        if status != 0:
            wrong = wrong + [f"exit status {status}: " + "\n".join(output.splitlines()[-8:])]
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{check.name}.log").write_text(output)
        return {**entry, "status": "failed" if wrong else "passed", "wrong": wrong,
                "figures": figures}


def byte_checks(setup):
    yield Check("bytes", "random and adversarial values, beside the scalar reference",
                [str(program(setup)), "check", str(SECONDS)], SECONDS + 180)


def sanitizer_checks(setup):
    for tool in TOOLS:
        yield Check(tool, "the same under compute-sanitizer",
                    [sanitizer() or "compute-sanitizer", "--tool", tool, "--error-exitcode",
                     str(FOUND_ERRORS), str(program(setup)), "check", "1", str(SMALL)], 400)


def rate_checks(setup):
    yield Check("rates", "GB/s, read and written, beside a copy within the device",
                [str(program(setup)), "bench", str(BENCH_BYTES)], 240)


KERNELS = Area(byte_checks, judge_bytes)
SANITIZE = Area(sanitizer_checks, judge_bytes)
BENCH = Area(rate_checks, judge_rates)
