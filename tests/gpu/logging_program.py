"""all_reduce_perf_cuda, and the log that NCCL would have written: for the rehearsal in run_test.py.

usage: logging_program.py PROGRAM ARGUMENT...   The program runs with a library and a driver that know
no GPU. FAKE_ALGORITHM=RING in the environment: the log of an NCCL that never takes CollNet.
"""
import os
import subprocess
import sys

THRESHOLD = 65536
UNITS = {"K": 1 << 10, "M": 1 << 20}


def value(words, flag, otherwise):
    return words[words.index(flag) + 1] if flag in words else otherwise


def size_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def sizes(words):
    size, last = size_of(value(words, "-b", "32M")), size_of(value(words, "-e", "32M"))
    while size <= last:
        yield size
        size *= int(value(words, "-f", "2"))


def algorithms(words, size):
    """What rank 0 logs for one size: every setting's."""
    if "--compare" in words:
        codecs = value(words, "--compare", "").split(",")
    else:
        codecs = [value(words, "--codec", os.environ.get("RINGPRESS_CODEC", "none"))]
    for codec in codecs:
        eligible = size >= THRESHOLD and with_plugin() and codec != "none" and value(words, "-d", "") != "int32"
        yield os.environ.get("FAKE_ALGORITHM") or ("COLLNET_CHAIN" if eligible else "RING")


def with_plugin():
    return os.environ["NCCL_NET_PLUGIN"] != "none"


def texts(words, rank):
    yield f"Using network {'ringpress' if with_plugin() else 'Socket'}"
    if with_plugin():
        yield from plugin_texts(rank)
    for size in sizes(words):
        for algorithm in algorithms(words, size):
            if algorithm == "COLLNET_CHAIN":
                yield f"Connected Collnet Chains  [0] -1->{rank}->4"
            if rank == 0:
                yield (f"AllReduce: {size} Bytes -> Algo {algorithm} proto SIMPLE "
                       "channel{Lo..Hi}={0..3}")


def plugin_texts(rank):
    for kind in ("net", "collnet"):
        yield f"NET/Plugin: Loaded {kind} plugin ringpress (v11)"
    yield "PROFILER/Plugin: Loaded ringpress (v5)"
    yield "TUNER/Plugin: Using ringpress (v5)"
    for direction in ("receive", "send"):
        yield f"CollNet 00/0 : {rank} [{direction}] via COLLNET/ringpress/0"
    yield "ringpress: 7.8.9: CollNet among 2 nodes: RINGPRESS=on, codec q4"


def write_log(words):
    if "--ranks" in words:
        ranks = range(int(value(words, "--ranks", "")))
    else:
        ranks = [int(os.environ["RANK"])]
    path = os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid()))
    with open(path, "w", encoding="utf-8") as log:
        for rank in ranks:
            for text in texts(words, rank):
                log.write(f"host:{os.getpid()}:77 [0] NCCL INFO {text}\n")


if __name__ == "__main__":
    write_log(sys.argv[2:])
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
