"""Starting all_reduce_perf_cuda with real NCCL and this library's plugin, several ranks on one GPU."""
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

import nccl_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What `ringpress run` sets.
DOOR = {"NCCL_NET_PLUGIN": "ringpress", "NCCL_COLLNET_ENABLE": "1",
        "NCCL_NET_PLUGIN_REF_COUNT": "1", "NCCL_COMM_SPLIT_SHARE_RESOURCES": "1"}
# Several ranks share one GPU: nothing that belongs to one rank of a real host.
ONE_GPU = {"NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", "NCCL_RAS_ENABLE": "0",
           "NCCL_CUMEM_HOST_ENABLE": "0", "RINGPRESS_SHM": "0"}
GRACE_SECONDS = 15
TIME_WAS_UP = 124


@dataclasses.dataclass
class Setup:
    """Where things are, and how ranks reach each other."""
    build: pathlib.Path
    nccl: pathlib.Path  # The folder of libnccl.so.2.
    driver: str = None  # A folder that the loader does not know.
    pacing: str = None  # shaped.sh's --mode, once it is known.
    mps: dict = dataclasses.field(default_factory=dict)  # Variables of a server of NVIDIA's MPS.
    deadline: float = float("inf")
    hung: int = 0  # How many jobs did not end in time.

    @property
    def program(self):
        return self.build / "perf" / "all_reduce_perf_cuda"

    @property
    def plugin_folder(self):
        return self.build / "lib" / "ringpress"

    def library_path(self):
        folders = [self.plugin_folder, self.nccl, self.driver, os.environ.get("LD_LIBRARY_PATH")]
        return ":".join(str(folder) for folder in folders if folder)

    def environment(self):
        """The caller's, without what would change NCCL or this library."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("NCCL_", "RINGPRESS", "PACE_", "RANK", "WORLD_SIZE"))}
        return {**kept, "LD_LIBRARY_PATH": self.library_path()}

    def seconds_left(self):
        return self.deadline - time.monotonic()


@dataclasses.dataclass
class Job:
    """One run of the program."""
    name: str
    ranks: int
    arguments: list
    variables: dict = dataclasses.field(default_factory=dict)
    rate: str = None  # None: all ranks on the loopback interface, not shaped.
    seconds: int = 90

    def own_variables(self, setup, folder):
        """What it sets on top of the environment."""
        logs = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": nccl_log.SUBSYSTEMS,
                "NCCL_DEBUG_FILE": f"{folder}/nccl-%p.log",
                "RINGPRESS_STATS": f"{folder}/statistics.jsonl"}
        own = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0"),
               **DOOR, **ONE_GPU, **logs, **self.variables}
        if self.rate:
            own.update(setup.mps, SHAPED_BUILD=str(setup.build))
        # In network namespaces shaped.sh names the interface itself.
        if not self.rate or setup.pacing == "software":
            own["NCCL_SOCKET_IFNAME"] = "lo"
        return own

    def command(self, setup, folder):
        words = [str(setup.program), "--host-per-rank", "-J", f"{folder}/results.json",
                 *self.arguments]
        if not self.rate:
            return words[:1] + ["--ranks", str(self.ranks), "-T", str(self.seconds)] + words[1:]
        return [str(ROOT / "perf" / "shaped.sh"), "--ranks", str(self.ranks), "--rate", self.rate,
                "--mode", setup.pacing or "auto", "--", *words]

    def text(self, setup, folder="FOLDER"):
        """As one could type it."""
        variables = {"LD_LIBRARY_PATH": setup.library_path(), **self.own_variables(setup, folder)}
        return shlex.join(["env", *(f"{name}={value}" for name, value in variables.items()),
                           *self.command(setup, folder)])


@dataclasses.dataclass
class Outcome:
    status: int
    seconds: float
    output: str
    results: dict  # The program's JSON, or None.
    log: str       # NCCL's, of all ranks.
    statistics: list

    @property
    def facts(self):
        return nccl_log.read_facts(self.log)

    def rows(self):
        return self.results["results"] if self.results else []


def run_words(words, environment, seconds):
    """(status, output) of a command; what it started ends with it. Status 124: time was up."""
    # A file: what is stuck in the driver would hold a pipe open.
    with tempfile.TemporaryFile("w+", errors="replace") as output, \
            subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                             stderr=subprocess.STDOUT, start_new_session=True) as process:
        status = wait_for(process, max(seconds, 1))
        output.seek(0)
        ending = f"\nended after {seconds:.0f} s\n" if status == TIME_WAS_UP else ""
        return status, output.read() + ending


def wait_for(process, seconds):
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return TIME_WAS_UP


def read_text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def parse(text):
    """The JSON value of a text, or None: that of a program that was ended may be cut short."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def run_job(job, setup, keep=None):
    """Runs it and collects what it left; `keep`: a folder for its logs."""
    with tempfile.TemporaryDirectory(prefix="ringpress-gpu-") as name:
        folder = pathlib.Path(name)
        environment = {**setup.environment(), **job.own_variables(setup, folder)}
        begin = time.monotonic()
        status, output = run_words(job.command(setup, folder), environment,
                                   min(job.seconds + GRACE_SECONDS, setup.seconds_left()))
        seconds = time.monotonic() - begin
        logs = [read_text(path) for path in sorted(folder.glob("nccl-*.log"))]
        lines = read_text(folder / "statistics.jsonl").splitlines()
        counts = [line for line in map(parse, lines) if line is not None]
        outcome = Outcome(status, seconds, output, parse(read_text(folder / "results.json")),
                          "".join(logs), counts)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        stem = job.name.replace(" ", "-").replace(",", "").replace("/", "")
        (keep / f"{stem}.log").write_text(job.text(setup) + "\n" + outcome.output + outcome.log)
    return outcome
