"""Links of a chosen rate between ranks, and NVIDIA's MPS, where the machine has them."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import jobs

MODES = ("root", "user", "software")
SERVER = "nvidia-cuda-mps-control"
SERVER_FOLDERS = ("/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/bin")
PROBE_SECONDS = 60


def last_lines(output):
    return "\n".join(output.strip().splitlines()[-5:])


def probe(setup):
    """Whether two ranks on shaped links can use the GPU together, and what they said if not."""
    job = jobs.Job("probe", 2, ["-b", "1K", "-e", "1K", "-n", "1"], rate="1gbit",
                   seconds=PROBE_SECONDS)
    outcome = jobs.run_job(job, setup)
    return outcome.status == 0, outcome.output


def find_pacing(setup):
    """The first way to limit rates that works here with a GPU, and why the others do not."""
    refused = {}
    for mode in MODES:
        words = [str(jobs.ROOT / "perf" / "shaped.sh"), "--ranks", "2", "--rate", "1gbit",
                 "--mode", mode, "--", "true"]
        environment = {**setup.environment(), "SHAPED_BUILD": str(setup.build)}
        status, output = jobs.run_words(words, environment, PROBE_SECONDS)
        if status == 0:
            setup.pacing = mode
            works, output = probe(setup)
            if works:
                return mode, refused
        refused[mode] = last_lines(output)
    setup.pacing = None
    return None, refused


def server_program():
    folders = os.environ.get("PATH", "").split(":") + list(SERVER_FOLDERS)
    return shutil.which(SERVER, path=":".join(folders))


def control(words, environment, text=None):
    """Whether the server's command succeeded. No pipes: a server would hold them open."""
    try:
        done = subprocess.run(words, env=environment, input=text, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False, timeout=PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextlib.contextmanager
def process_sharing(setup):
    """Lets kernels of several processes run at the same time (MPS) if that works here. Without it
    they take turns, each for milliseconds, and times tell little. Yields why it does not, or None."""
    program = server_program()
    if not program or not setup.pacing:
        yield f"there is no {SERVER}" if setup.pacing else "links cannot be shaped here"
        return
    with tempfile.TemporaryDirectory(prefix="ringpress-mps-", ignore_cleanup_errors=True) as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
                     "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for name in variables.values():
            pathlib.Path(name).mkdir()
        environment = {**setup.environment(), **variables}
        started = control([program, "-d"], environment)
        try:
            setup.mps = variables if started else {}
            works, output = probe(setup) if started else (False, f"{program} -d failed")
            if not works:
                setup.mps = {}
            yield None if works else last_lines(output)
        finally:
            setup.mps = {}
            if started:
                control([program], environment, b"quit\n")
