"""libringpress-preload.so before real NCCL on a GPU: sums are right and compressed, ranks agree, in
groups, on two streams, put off, in planned steps and in captured graphs. Several ranks share the GPU,
each a host by name."""
import collections
import json
import pathlib
import tempfile
import time

import jobs
import plugin

RANKS = (2, 4)
REPETITIONS = plugin.REPETITIONS
# The root of the squared error of two encodings in 4 bits over that of the sum, with room for error
# feedback; and what rounding alone makes.
SMALLEST_LOSSY, LARGEST_LOSSY, LARGEST_EXACT = 1e-3, 0.3, 1e-6
SECONDS = 120


def door(setup):
    """What a user sets, and what several ranks on one GPU need."""
    return {**plugin.PLAIN, "NCCL_SOCKET_IFNAME": "lo", "RINGPRESS_SOCKET_IFNAME": "lo",
            "LD_PRELOAD": str(setup.build / "lib" / "libringpress-preload.so"),
            "RINGPRESS_REAL_NCCL": str(setup.nccl / "libnccl.so.2"), "RINGPRESS_CODEC": "q4",
            "NCCL_MAX_NCHANNELS": "2"}


def missing(setup):
    """What was not built, as problems."""
    names = ["lib/libringpress-preload.so", "lib/libringpress.so.0", "lib/libringpress-cuda.so",
             "perf/stream_client"]
    return [f"{setup.build / name} is missing: build ringpress_preload, ringpress_cuda and "
            "stream_client" for name in names if not (setup.build / name).exists()]


def judge_compressed(job, outcome):
    """As of q4 by the plugin, but this library knows every tensor: nothing is unbiased."""
    wrong, figures = plugin.wrong_rows(outcome), {"counted": plugin.compressed(outcome)}
    if not figures["counted"]["compressed_calls"]:
        wrong.append("nothing was compressed")
    for row in outcome.rows():
        bound, error = plugin.q4_bound(row, job.ranks, False), row["ringpress"]["maxerr"]
        if not isinstance(error, float) or not 0 < error <= bound:
            wrong.append(f"{row['size']} bytes of {row['type']}: the largest error is {error}, "
                         f"the bound is {bound:.4g}")
    return wrong, figures


def judge_exact(job, outcome):
    figures = {"counted": plugin.compressed(outcome)}
    wrong = plugin.wrong_rows(outcome) + plugin.lossy_rows(outcome)
    if figures["counted"]["compressed_calls"]:
        wrong.append(f"{figures['counted']['compressed_calls']} calls were compressed")
    return wrong, figures


def sum_checks(setup, ranks):
    """By all_reduce_perf_cuda. Its tensors recur, so error feedback is off: its bound is known."""
    sizes = ["-n", "3", "-w", "1", "-f", "8", "-b"]
    variables = {**door(setup), "RINGPRESS_EF": "0"}

    def check(name, judge, what, arguments, more=None):
        job = jobs.Job(f"{name}, {ranks} ranks", ranks, [*sizes, *arguments],
                       {**variables, **(more or {})}, seconds=SECONDS)
        return plugin.Check(job, judge, what)

    yield check("switched off", judge_exact, "RINGPRESS=off leaves NCCL alone",
                ["256K", "-e", "2M"], {"RINGPRESS": "off"})
    yield check("small and integers", judge_exact, "what is not eligible stays exact",
                ["1M", "-e", "1M", "-d", "int32"])
    for kind in plugin.SIGNIFICANT_BITS:
        yield check(f"q4 {kind}", judge_compressed, "errors are within the bound, ranks agree",
                    ["256K", "-e", "16M", "-d", kind])
    yield check("q4 float by ring", judge_compressed_by_ring, "sums from both sides",
                ["256K", "-e", "2M"], {"RINGPRESS_ALGO": "ring"})


def judge_compressed_by_ring(job, outcome):
    """Errors of all hops: only that they are not nought."""
    wrong, figures = plugin.wrong_rows(outcome), {"counted": plugin.compressed(outcome)}
    if not figures["counted"]["compressed_calls"]:
        wrong.append("nothing was compressed")
    return wrong, figures


def read_lines(text):
    """By label and place, the (hash, error) of each rank."""
    found, places = collections.defaultdict(list), collections.Counter()
    for line in text.splitlines():
        words = line.split()
        if len(words) != 4 or not words[0].isdigit():
            continue
        rank, label, digest, error = int(words[0]), words[1], words[2], float(words[3])
        found[label, places[rank, label]].append((digest, error))
        places[rank, label] += 1
    return found


# What is compressed of these is a matter of times.
EITHER = {"step"}


def judge_lines(text, ranks, exact):
    """What is wrong with the results of stream_client; `exact`: the labels that must be so."""
    wrong, found = [], read_lines(text)
    if not found:
        return ["it left no results"]
    for (label, place), results in found.items():
        where = f"{label} {place}"
        if len(results) != ranks or len({digest for digest, _ in results}) != 1:
            wrong.append(f"{where}: ranks end with different bytes")
        errors = [error for _, error in results]
        if label in exact and max(errors) > LARGEST_EXACT:
            wrong.append(f"{where}: the error is {max(errors)}, but it was not to be compressed")
        least = -1 if label in EITHER else SMALLEST_LOSSY
        if label not in exact and not least < min(errors) <= max(errors) < LARGEST_LOSSY:
            wrong.append(f"{where}: the error is {max(errors)}")
    return wrong


# Name, scenarios, more variables, labels that stay exact.
CLIENT_RUNS = (("groups and streams", ["group", "streams"], {}, set()),
               ("put off", ["lazy"], {"RINGPRESS_LAZY": "4"}, {"waited"}),
               ("planned steps", ["steps"], {"RINGPRESS_CODEC": "auto", "RINGPRESS_GRADIENTS": "all"},
                set()),
               ("coordinate scales", ["steps"], {"RINGPRESS_EF": "scales"}, set()),
               ("captured, passed through", ["graph"], {}, {"graph"}),
               ("captured and compressed", ["graph"], {"RINGPRESS_GRAPH": "1"}, set()))


def client_command(setup, ranks, scenarios):
    return [str(setup.build / "perf" / "stream_client"), str(ranks), *scenarios]


def judge_scales(variables, statistics):
    """Whether calls had coordinate scales, where they were asked for: values are the same in each step."""
    if variables.get("RINGPRESS_EF") != "scales":
        return []
    counts = [json.loads(line)["scaled_calls"] for line in statistics.splitlines()]
    return [] if counts and min(counts) > 0 else [f"{counts} calls had coordinate scales"]


def run_client(setup, ranks, run):
    name, scenarios, variables, exact = run
    entry = {"name": f"{name}, {ranks} ranks", "ranks": ranks, "status": "skipped",
             "command": " ".join(client_command(setup, ranks, scenarios)),
             "variables": {**door(setup), **variables}}
    if setup.seconds_left() < 10 or setup.hung >= plugin.MOST_HUNG:
        return {**entry, "wrong": ["no time was left"]}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ringpress-gpu-") as folder:
        counted = pathlib.Path(folder) / "statistics.jsonl"
        own = {**jobs.ONE_GPU, **entry["variables"], "RINGPRESS_STATS": str(counted)}
        status, output = jobs.run_words(client_command(setup, ranks, scenarios),
                                        {**setup.environment(), **own},
                                        min(SECONDS, setup.seconds_left()))
        statistics = jobs.read_text(counted)
    setup.hung += status == jobs.TIME_WAS_UP
    wrong = judge_lines(output, ranks, exact) + judge_scales(variables, statistics)
    if status != 0:
        wrong.append(f"exit status {status}: " + "\n".join(output.splitlines()[-8:]))
    return {**entry, "status": "failed" if wrong else "passed", "wrong": wrong,
            "seconds": time.monotonic() - begin}


def dry_run(setup, repetitions=REPETITIONS):
    for ranks in RANKS:
        for check in sum_checks(setup, ranks):
            yield f"# {check.job.name}: {check.what}\n{check.job.text(setup)}"
        for name, scenarios, variables, _ in CLIENT_RUNS:
            words = [f"{key}={text}" for key, text in {**door(setup), **variables}.items()]
            yield f"# {name}\nenv " + " ".join(words + client_command(setup, ranks, scenarios))


def run(setup, repetitions, keep, record):
    if problems := missing(setup):
        record(check={"name": "what was built", "status": "failed", "wrong": problems})
        return
    for ranks in RANKS:
        for check in sum_checks(setup, ranks):
            record(check=plugin.run_check(check, setup, keep))
        for one in CLIENT_RUNS:
            record(check=run_client(setup, ranks, one))
