"""The NCCL plugin on a GPU: NCCL uses it, sums are right, small calls are left alone, and slow links
become faster. Each check is one run of all_reduce_perf_cuda and a judgement of what it left."""
import dataclasses
import statistics
import typing

import jobs
import nccl_log
import pacing

RANKS = (2, 4)
RATES = ("1gbit", "10gbit")
SIGNIFICANT_BITS = {"float": 24, "half": 11, "bfloat16": 8}
LARGEST = "16M"  # Of the checks of sums.
MESSAGE = "64M"  # That is timed.
MESSAGE_BYTES = 64 << 20
REPETITIONS = 7
# A step of q4 is the block's largest value / 7, and scales are rounded up by up to 0.8 %.
Q4_STEP = 1.008 / 7
# Nearest steps are half a step off, and are decoded with the scale of least squares: of 200000 blocks of
# normal or uniform values the end moved by up to a quarter of a step.
Q4_NEAREST = 0.75 * Q4_STEP
# NCCL without this library, over its own sockets.
PLAIN = {"NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket", "NCCL_COLLNET_ENABLE": "0"}
# After so many runs that did not end, the next would not either.
MOST_HUNG = 2


@dataclasses.dataclass
class Check:
    job: jobs.Job
    judge: typing.Callable  # (job, outcome) -> (what is wrong, figures)
    what: str


def placements(row):
    return [row[name] for name in ("out_of_place", "in_place") if row[name]]


def wrong_rows(outcome):
    """What the program's own check found."""
    wrong = []
    for row in outcome.rows():
        where = f"{row['size']} bytes of {row['type']}, {row['redop']}"
        for placement in placements(row):
            if placement["nwrong"] != 0:
                wrong.append(f"{where}: {placement['nwrong']} wrong elements")
        if row["ringpress"]["identical"] is not True:
            wrong.append(f"{where}: ranks end with different bytes")
    return wrong


def lossy_rows(outcome):
    """What lost more than rounding does. The program knows of no call whether it was compressed."""
    return [f"{row['size']} bytes of {row['type']}, {row['redop']}: the error is {error}, but it was "
            "not to be compressed" for row in outcome.rows()
            if (error := row["ringpress"]["relerr"]) is not None
            and not error <= 2.0 ** -SIGNIFICANT_BITS.get(row["type"], 24)]


def compressed(outcome):
    """Totals of this library's own count, over all communicators and ranks."""
    names = ("calls", "compressed_calls", "unbiased_calls", "raw_bytes", "wire_bytes")
    return {name: sum(line[name] for line in outcome.statistics) for name in names}


def judge_plain(job, outcome):
    """NCCL without this library, over its own sockets."""
    networks = sorted(set(outcome.facts.networks))
    wrong = [] if networks == ["Socket"] else [f"the networks are {networks}, not NCCL's sockets"]
    return wrong_rows(outcome) + wrong, {}


def judge_route(job, outcome, collnet):
    """Ranks agree, and calls go this way."""
    wrong = wrong_rows(outcome) + nccl_log.missing_plugins(outcome.facts, job.ranks)
    for size in sorted({row["size"] for row in outcome.rows()}):
        wrong += nccl_log.wrong_algorithm(outcome.facts, size, collnet)
    return wrong, {"counted": compressed(outcome)}


def judge_untouched(job, outcome):
    wrong, figures = judge_route(job, outcome, collnet=False)
    if figures["counted"]["compressed_calls"]:
        wrong.append(f"{figures['counted']['compressed_calls']} calls were compressed")
    return wrong + lossy_rows(outcome), figures


def judge_compressed(job, outcome):
    wrong, figures = judge_route(job, outcome, collnet=True)
    if not outcome.facts.chains:
        wrong.append("NCCL never connected CollNet for use")
    if not figures["counted"]["compressed_calls"]:
        wrong.append("nothing was compressed")
    return wrong, figures


def judge_lossless(job, outcome):
    wrong, figures = judge_compressed(job, outcome)
    return wrong + lossy_rows(outcome), figures


def q4_bound(row, ranks, unbiased, feeds_back=False):
    """The largest error of an element: each contribution is encoded once, and their sum once. With
    error feedback the error that is added was as large as the one that is kept, and what is encoded
    is larger by it."""
    found = row["ringpress"]
    step = Q4_STEP if unbiased else Q4_NEAREST
    if feeds_back:
        step = 2 * step / (1 - step)
    contributions = step * found["largest_inputs"]
    total = found["largest_exact"] + contributions
    roundings = (ranks + 1) * 2.0 ** -SIGNIFICANT_BITS[row["type"]]
    return contributions + step * total + roundings * (total + found["largest_inputs"])


def judge_q4(job, outcome, feeds_back=False):
    """Errors within the codec's bound, and not nought: then nothing would have been compressed."""
    wrong, figures = judge_compressed(job, outcome)
    unbiased = figures["counted"]["unbiased_calls"] > 0
    figures["errors"] = []
    for row in outcome.rows():
        bound = q4_bound(row, job.ranks, unbiased, feeds_back)
        error = row["ringpress"]["maxerr"]
        figures["errors"].append({"size": row["size"], "type": row["type"], "maxerr": error,
                                  "bound": bound, "relerr": row["ringpress"]["relerr"]})
        if not isinstance(error, float) or not 0 < error <= bound:
            wrong.append(f"{row['size']} bytes of {row['type']}: the largest error is {error}, "
                         f"the bound is {bound:.4g}")
    return wrong, figures


def judge_fed_back(job, outcome):
    return judge_q4(job, outcome, feeds_back=True)


def judge_speed(job, outcome):
    """The exact setting by NCCL's own algorithm, q4 by CollNet, over the same network plugin."""
    facts = outcome.facts
    wrong = wrong_rows(outcome) + nccl_log.missing_plugins(facts, job.ranks)
    taken = facts.all_reduce(MESSAGE_BYTES)
    if {algorithm in nccl_log.COLLNET_ALGORITHMS for algorithm in taken} != {True, False}:
        wrong.append(f"the two settings went by {sorted(taken)}, not one by CollNet and one not")
    times = {row["ringpress"]["setting"]: row["out_of_place_per_iter"]["times_us"]
             for row in outcome.rows()}
    figures = {"times_us": times, "channels": facts.channels.get(("AllReduce", MESSAGE_BYTES)),
               "median_ms": {name: statistics.median(values) / 1000
                             for name, values in times.items()}}
    if set(times) != {"none", "q4"}:
        return wrong + [f"times of {sorted(times)} instead of none and q4"], figures
    figures["times_faster"] = figures["median_ms"]["none"] / figures["median_ms"]["q4"]
    return wrong, figures


def judge_plain_speed(job, outcome):
    wrong, figures = judge_plain(job, outcome)
    times = outcome.rows()[0]["out_of_place_per_iter"]["times_us"]
    return wrong, {**figures, "times_us": times, "median_ms": statistics.median(times) / 1000}


def function_checks(ranks):
    q4 = {"RINGPRESS_CODEC": "q4"}
    sizes = ["-n", "3", "-w", "1", "-b"]

    def check(name, judge, what, arguments, variables):
        return Check(jobs.Job(f"{name}, {ranks} ranks", ranks, arguments, variables), judge, what)

    yield check("plain NCCL", judge_plain, "NCCL itself takes several ranks on this GPU",
                [*sizes, "4K", "-e", "4M", "-f", "1024"], PLAIN)
    for kind, operation in (("float", "all"), ("half", "sum"), ("bfloat16", "sum")):
        yield check(f"small {kind}", judge_untouched,
                    "below RINGPRESS_MIN_BYTES nothing changes",
                    [*sizes, "8", "-e", "32K", "-f", "64", "-d", kind, "-o", operation], q4)
    yield check("large int32", judge_untouched, "types that are not compressed stay exact",
                [*sizes, "1M", "-e", "1M", "-d", "int32"], q4)
    for kind in ("float", "bfloat16"):
        yield check(f"lossless {kind}", judge_lossless, "CollNet carries every byte",
                    [*sizes, "1M", "-e", LARGEST, "-f", "16", "-d", kind], {"RINGPRESS_CODEC": "lossless"})
    for kind in SIGNIFICANT_BITS:
        yield check(f"q4 {kind}", judge_q4,
                    "NCCL uses CollNet, errors are within the bound, ranks agree",
                    [*sizes, "256K", "-e", LARGEST, "-f", "8", "-d", kind, "--codec", "q4"],
                    {"RINGPRESS_EF": "0"})
    yield check("q4 with error feedback", judge_fed_back, "as above, with what error feedback adds",
                [*sizes, "256K", "-e", LARGEST, "-f", "8", "--codec", "q4"], {})


def speed_checks(ranks, repetitions):
    call = ["-b", MESSAGE, "-e", MESSAGE, "-n", str(repetitions), "-w", "1",
            "--placement", "out-of-place"]
    channels = {"NCCL_MIN_NCHANNELS": "8"}
    for rate in RATES:
        job = jobs.Job(f"speed {rate}, {ranks} ranks", ranks, [*call, "--compare", "none,q4"],
                       channels, rate=rate, seconds=120)
        yield Check(job, judge_speed, f"{MESSAGE} over {rate} links, none and q4 in turn")
        plain = dataclasses.replace(job, name=f"plain speed {rate}, {ranks} ranks",
                                    arguments=[*call, "--p50"], variables=PLAIN | channels)
        yield Check(plain, judge_plain_speed, f"{MESSAGE} over {rate} links, NCCL's own sockets")


def all_checks(repetitions=REPETITIONS):
    for ranks in RANKS:
        yield from function_checks(ranks)
    for ranks in RANKS:
        yield from speed_checks(ranks, repetitions)


def dry_run(setup, repetitions=REPETITIONS):
    for check in all_checks(repetitions):
        yield f"# {check.job.name}: {check.what}\n{check.job.text(setup)}"


def run_check(check, setup, keep):
    """What a check found, for the report."""
    entry = {"name": check.job.name, "what": check.what, "ranks": check.job.ranks,
             "command": check.job.text(setup), "status": "skipped"}
    if setup.seconds_left() < 10:
        return {**entry, "wrong": ["no time was left"]}
    if setup.hung >= MOST_HUNG:
        return {**entry, "wrong": [f"{setup.hung} runs before it did not end"]}
    if check.job.rate and not setup.pacing:
        return {**entry, "wrong": ["links cannot be shaped here"]}
    outcome = jobs.run_job(check.job, setup, keep)
    wrong, figures = [], {}
    setup.hung += outcome.status == jobs.TIME_WAS_UP
    if outcome.status != 0:
        tail = "\n".join(outcome.output.strip().splitlines()[-8:])
        wrong.append(f"exit status {outcome.status}: {tail}")
        wrong += sorted(set(outcome.facts.warnings))[:8]
    if not outcome.rows():
        wrong.append("it left no results")
    else:
        try:
            found, figures = check.judge(check.job, outcome)
            wrong += found
        except (KeyError, IndexError, TypeError, ValueError) as error:  # Results cut short.
            wrong.append(f"its results cannot be judged: {error!r}")
    facts = outcome.facts
    figures["algorithms"] = {f"{function} {size}": sorted(taken)
                             for (function, size), taken in sorted(facts.algorithms.items())}
    figures["plugin"] = sorted(set(facts.ours))[:12]
    return {**entry, "status": "failed" if wrong else "passed", "seconds": outcome.seconds,
            "wrong": wrong, "figures": figures}


def run(setup, repetitions, keep, record):
    """Runs all checks; `record` takes each one's entry, and what was found out about the links."""
    for ranks in RANKS:
        for check in function_checks(ranks):
            record(check=run_check(check, setup, keep))
    if setup.hung < MOST_HUNG:
        mode, refused = pacing.find_pacing(setup)
        record(pacing=mode, pacing_refused=refused)
    with pacing.process_sharing(setup) as refused:
        record(mps=refused is None, mps_refused=refused)
        for ranks in RANKS:
            for check in speed_checks(ranks, repetitions):
                record(check=run_check(check, setup, keep))
