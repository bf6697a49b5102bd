"""Rates on a GPU: those of the kernels beside a copy, and of all-reduces over slow links by NCCL alone
and with libringpress-preload.so, in turn."""
import dataclasses
import shlex
import statistics
import sys

import interposer
import jobs
import kernels
import pacing
import plugin

NEEDS_NCCL = False
NEEDS = kernels.program
RATES = ("1gbit", "10gbit", "25gbit")
RANKS = 2
ROUNDS = 3  # Of both settings in turn: a machine is not the same all the time.
SETTINGS = {"none": {"RINGPRESS": "off"}, "q4": {"RINGPRESS_CODEC": "q4"}}
MOST_SECONDS = 90
TOPK = {"codec": "topk:select=chunk", "type": "float32", "operation": "encode"}
# The same values as the kernels': 1 % of them by magnitude, and what they are. Prints seconds.
TORCH_TOPK = """
import statistics, torch
values = torch.randn(%d, device="cuda")
def once():
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    _, places = torch.topk(values.abs(), values.numel() // 100, sorted=False)
    values[places]
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000
once()
print(statistics.median(once() for _ in range(7)))
"""


def variables(setup, setting):
    """As in `nccl`, but that links have interfaces of their own where they are shaped by the kernel."""
    found = {**interposer.door(setup), **SETTINGS[setting]}
    if setup.pacing != "software":
        del found["NCCL_SOCKET_IFNAME"], found["RINGPRESS_SOCKET_IFNAME"]
    return found


def job_of(setup, rate, setting, number, repetitions):
    arguments = ["-b", plugin.MESSAGE, "-e", plugin.MESSAGE, "-n", str(repetitions), "-w", "3",
                 "--placement", "out-of-place", "--p50"]
    return jobs.Job(f"{rate} {setting} {number}", RANKS, arguments, variables(setup, setting),
                    rate=rate, seconds=MOST_SECONDS)


def judge(setting, outcome):
    """What is wrong with one run, and its times in microseconds."""
    wrong = []
    if outcome.status != 0 or not outcome.rows():
        tail = "\n".join(outcome.output.strip().splitlines()[-8:])
        return [f"{setting}: exit status {outcome.status}: {tail}"], []
    row = outcome.rows()[0]
    if row["ringpress"]["identical"] is not True:
        wrong.append(f"{setting}: ranks end with different bytes")
    counted = plugin.compressed(outcome)["compressed_calls"] if outcome.statistics else 0
    if (counted > 0) != (setting != "none"):
        wrong.append(f"{setting}: {counted} calls were compressed")
    return wrong, row["out_of_place_per_iter"]["times_us"]


def figures_of(times):
    medians = {setting: statistics.median(found) / 1000 for setting, found in times.items() if found}
    figures = {"times_us": times, "median_ms": medians}
    if len(medians) == len(SETTINGS):
        figures["times_faster"] = medians["none"] / medians["q4"]
    return figures


def measure(setup, rate, repetitions, keep):
    entry = {"name": f"all-reduce over {rate} links", "ranks": RANKS, "status": "skipped",
             "what": f"{plugin.MESSAGE} by NCCL alone and preloaded, {ROUNDS} times in turn",
             "command": job_of(setup, rate, "q4", 0, repetitions).text(setup)}
    if not setup.pacing:
        return {**entry, "wrong": ["links cannot be shaped here"]}
    times, wrong = {setting: [] for setting in SETTINGS}, []
    for number in range(ROUNDS):
        for setting in SETTINGS:
            if setup.seconds_left() < 10 or setup.hung >= plugin.MOST_HUNG:
                return {**entry, "wrong": wrong + ["no time was left"], "figures": figures_of(times)}
            outcome = jobs.run_job(job_of(setup, rate, setting, number, repetitions), setup, keep)
            setup.hung += outcome.status == jobs.TIME_WAS_UP
            problems, found = judge(setting, outcome)
            wrong += problems
            times[setting] += found
    return {**entry, "status": "failed" if wrong else "passed", "wrong": wrong,
            "figures": figures_of(times)}


def torch_words():
    return [sys.executable, "-c", TORCH_TOPK % (kernels.BENCH_BYTES // 4)]


def compare_topk(rates, status, output):
    """Figures of both, or None where there is no torch that works here."""
    ours = [row["seconds"] for row in rates if TOPK.items() <= row.items()]
    try:
        theirs = float(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    if status != 0 or not ours:
        return None
    return {"seconds": ours[0], "torch_seconds": theirs, "times_torch": theirs / ours[0]}


def beside_torch(setup, keep, record):
    """Top-k of 2^28 values, as a fact: torch need not be there."""
    rates = []

    def keep_rates(check):
        rates.extend(check.get("figures", {}).get("rates", []))
        record(check=check)

    kernels.BENCH.run(setup, 0, keep, keep_rates)
    status, output = jobs.run_words(torch_words(), setup.environment(),
                                    min(MOST_SECONDS, setup.seconds_left()))
    record(topk=compare_topk(rates, status, output) or "not compared: " + output[-200:])


def dry_run(setup, repetitions=plugin.REPETITIONS):
    yield from kernels.BENCH.dry_run(setup)
    yield "# top-k by torch, where it is\n" + shlex.join([*torch_words()[:2], "..."])
    shaped = dataclasses.replace(setup, nccl=setup.nccl or "FOLDER_OF_LIBNCCL")
    for rate in RATES:
        for setting in SETTINGS:
            yield f"# {rate}, {setting}\n{job_of(shaped, rate, setting, 0, repetitions).text(shaped)}"


def run(setup, repetitions, keep, record):
    beside_torch(setup, keep, record)
    if not setup.nccl:
        record(check={"name": "all-reduces", "status": "skipped", "wrong": ["there is no NCCL"]})
        return
    if problems := interposer.missing(setup):
        record(check={"name": "all-reduces", "status": "failed", "wrong": problems})
        return
    mode, refused = pacing.find_pacing(setup)
    record(pacing=mode, pacing_refused=refused)
    with pacing.process_sharing(setup) as refused:
        record(mps=refused is None, mps_refused=refused)
        for rate in RATES:
            record(check=measure(setup, rate, repetitions, keep))
