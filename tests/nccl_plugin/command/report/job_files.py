"""Files as jobs leave them, for the tests and checks of `ringpress report`: a job of any number of ranks."""
import json
import math

PHASES = ("wait", "encode", "send", "receive", "reduce", "decode")
Q4 = "q4:block=128,grid=uniform,round=nearest"


def statistics_line(rank, ranks, **changes):
    """A line of RINGPRESS_STATS."""
    line = {"pid": 1000 + rank, "rank": rank, "ranks": ranks, "calls": 140, "compressed_calls": 100,
            "raw_bytes": 84000000, "wire_bytes": 12000000, "calibration_bytes": 4412, "residual_bytes": 3014656,
            "observed_calls": 0, "observed_raw_bytes": 0, "unbiased_calls": 0, "scaled_calls": 90,
            "unsent_tensors": 0, "unsent_elements": 0, "unsent_norm": 0, "nanoseconds": 3000000000,
            "errors": [{"count": 262144, "type": "float32", "looks": 3, "last": 0.21, "mean": 0.2, "worst": 0.24,
                        "more_bits": 0}],
            "exact_calls": {"smaller than RINGPRESS_MIN_BYTES": 34, "has not recurred yet": 6},
            "last_codec": Q4, "last_algorithm": "sra", "last_reason": ""}
    return {**line, **changes}


def totals(calls, seconds, waits):
    """What `calls` calls of 1 MB, a tenth of them small and exact, come to. `waits`: the part that is waiting."""
    exact = calls // 10
    coded = calls - exact
    raw, small = coded * 1000000, exact * 4000
    phases = dict(zip(PHASES, (waits, *((1 - waits) * part for part in (0.2, 0.3, 0.25, 0.1, 0.15)))))
    return {"calls": calls, "compressed_calls": coded, "raw_bytes": raw + small, "wire_bytes": raw // 8 + small,
            "by_codec": {"q4": {"calls": coded, "raw_bytes": raw, "wire_bytes": raw // 8},
                         "none": {"calls": exact, "raw_bytes": small, "wire_bytes": small}},
            "phase_seconds": {name: seconds * part for name, part in phases.items()}}


def live_line(rank, ranks, number, final=False, comm="dp", begin=1764369600.0):
    """The line of a rank after `number` intervals of ten seconds. The last rank is the slow one: it waits least."""
    waits = 0.1 if rank == ranks - 1 else 0.5
    error = 0.21 + 0.02 * math.sin(number / 7)
    return {"ringpress": "live", "version": 1, "time": begin + 10 * number, "host": f"host{rank // 2}",
            "pid": 1000 + rank, "rank": rank, "ranks": ranks, "hosts": (ranks + 1) // 2, "comm": comm, "door": "host",
            "final": final, "seconds": 10.0 * number, "interval": totals(50, 4, waits),
            "total": totals(50 * number, 4 * number, waits),
            "exact_calls": {"smaller than RINGPRESS_MIN_BYTES": 5 * number},
            "errors": [{"count": 262144, "type": "float32", "looks": number, "last": error, "mean": 0.21,
                        "worst": 0.23, "more_bits": 0},
                       {"count": 65536, "type": "float32", "looks": number, "last": error, "mean": 0.21,
                        "worst": 0.23, "more_bits": 1}],
            "residual_norm": 0.5, "residual_bytes": 3014656, "last_codec": Q4, "last_algorithm": "sra"}


def lines_of(documents):
    return "".join(json.dumps(document) + "\n" for document in documents)


def live_lines(ranks, intervals):
    """Of all ranks, as they would come; the last of each is final."""
    for number in range(1, intervals + 1):
        for rank in range(ranks):
            yield live_line(rank, ranks, number, final=number == intervals)
