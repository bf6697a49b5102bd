"""ddp.py with and without libringpress-preload.so: its loss must take the same course, its
gradients must be compressed, and its other all-reduces must not be."""
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

import interposer
import jobs

SCRIPT = pathlib.Path(__file__).resolve().parent / "ddp.py"
RANKS, STEPS, WINDOW = 2, 200, 20
LARGEST_DIFFERENCE = 0.01
SECONDS = 240
REPETITIONS = 1
# None: only LD_PRELOAD is set.
CODECS = {"as it comes": None, "q4": "q4"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def door(setup, folder, codec):
    """What a user sets is LD_PRELOAD, and perhaps a codec; the rest is for ranks on one machine."""
    names = ("LD_PRELOAD", "RINGPRESS_SOCKET_IFNAME")
    return {**{name: interposer.door(setup)[name] for name in names},
            "RINGPRESS_STATS": f"{folder}/statistics.jsonl",
            **({"RINGPRESS_CODEC": codec} if codec else {})}


def train(setup, variables, folder):
    """(Status, output) of the first rank that fails, or of the last."""
    common = {**setup.environment(), **jobs.ONE_GPU, **variables, "NCCL_SOCKET_IFNAME": "lo",
              "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port()), "LOCAL_RANK": "0"}
    words = [sys.executable, "-B", str(SCRIPT), "--steps", str(STEPS), "--output",
             f"{folder}/losses.json"]
    logs = [open(f"{folder}/rank{rank}.log", "w+", encoding="utf-8") for rank in range(RANKS)]
    processes = [subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=logs[rank],
                                  stderr=subprocess.STDOUT, start_new_session=True,
                                  env={**common, "RANK": str(rank), "NCCL_HOSTID": f"ddp{rank}"})
                 for rank in range(RANKS)]
    found = (0, "")
    for process, log in zip(processes, logs):
        status = jobs.wait_for(process, max(1, min(SECONDS, setup.seconds_left())))
        log.seek(0)
        text = log.read()
        log.close()
        if found[0] == 0:
            found = (status, text)
    return found


def moving_means(losses):
    return [statistics.fmean(losses[i:i + WINDOW]) for i in range(len(losses) - WINDOW + 1)]


def compare(plain, ours, counted):
    """What is wrong, and the largest relative difference of the two courses."""
    wrong = []
    difference = max(abs(a - b) / a for a, b in zip(moving_means(plain), moving_means(ours)))
    if difference > LARGEST_DIFFERENCE:
        wrong.append(f"the losses differ by {100 * difference:.2f} %")
    if plain == ours:
        wrong.append("the losses are equal: nothing was compressed")
    if not sum(line["compressed_calls"] for line in counted):
        wrong.append("no gradient was compressed")
    # The mean of the loss, and the number of tokens.
    if sum(line["calls"] - line["compressed_calls"] for line in counted) < STEPS:
        wrong.append("the other all-reduces were compressed too")
    return wrong, difference


def run_once(setup, variables, folder):
    """(Losses, this library's counts); a RuntimeError where a rank fails."""
    status, output = train(setup, variables, folder)
    path = pathlib.Path(folder) / "losses.json"
    if status != 0 or not path.exists():
        tail = "\n".join(output.strip().splitlines()[-8:])
        raise RuntimeError(f"exit status {status}: {tail}")
    lines = jobs.read_text(pathlib.Path(folder) / "statistics.jsonl").splitlines()
    counted = [line for line in map(jobs.parse, lines) if line is not None]
    return json.loads(path.read_text(encoding="utf-8"))["losses"], counted


def run_compressed(setup, codec, plain):
    """What is wrong, and figures; `plain`: the losses without this library."""
    with tempfile.TemporaryDirectory(prefix="ringpress-ddp-") as folder:
        losses, counted = run_once(setup, door(setup, folder, codec), folder)
    wrong, difference = compare(plain, losses, counted)
    return wrong, {"losses": {"plain": plain, "compressed": losses}, "counted": counted,
                   "largest_difference": difference}


def dry_run(setup, repetitions=REPETITIONS):
    script = f"{sys.executable} {SCRIPT} --steps {STEPS} --output FOLDER/losses.json"
    yield f"# {RANKS} ranks, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n{script}"
    for name, codec in CODECS.items():
        words = [f"{key}={text}" for key, text in door(setup, "FOLDER", codec).items()]
        yield f"# the same, preloaded, {name}\nenv {' '.join(words)} {script}"


def run(setup, repetitions, keep, record):
    plain, problems = None, interposer.missing(setup)
    for name, codec in CODECS.items():
        wrong, figures = problems, {}
        try:
            if not problems:
                with tempfile.TemporaryDirectory(prefix="ringpress-ddp-") as folder:
                    plain = plain or run_once(setup, {}, folder)[0]
                wrong, figures = run_compressed(setup, codec, plain)
        except RuntimeError as error:
            wrong = [str(error)]
        record(check={"name": f"ddp.py, {RANKS} ranks, {name}", "ranks": RANKS,
                      "what": "an unmodified PyTorch program that this library is preloaded to",
                      "status": "failed" if wrong else "passed", "wrong": wrong,
                      "figures": figures})
