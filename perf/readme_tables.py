#!/usr/bin/env python3
"""Puts tables into pages, between <!-- demo -->, <!-- front -->, <!-- peers -->, <!-- codecs -->,
<!-- frameworks -->, <!-- roofline -->, <!-- gossip -->, <!-- fidelity --> or <!-- ddp --> and their ends.

usage: readme_tables.py README.md --front perf/results/demo.json
       readme_tables.py perf/measured.md --demo perf/results/demo.json
       readme_tables.py perf/measured.md --peers perf/results/peers-*.json
       readme_tables.py perf/measured.md --roofline perf/results/roofline.json perf/results/gpu-bench.json
       readme_tables.py perf/measured.md --ddp perf/results/train-ddp-n2.json
       readme_tables.py compress_kernels/codecs.md --accuracy perf/results/accuracy.json
                                                   --speed perf/results/codec_speed.json
       readme_tables.py compress_kernels/codecs.md --fidelity perf/results/fidelity-{scales,tasks,warmup,long}.json
       readme_tables.py nccl_plugin/preload/using.md --frameworks perf/results/frameworks.json
       readme_tables.py nccl_plugin/gossip/using.md --gossip perf/results/gossip-*.json
"""
import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "train"))
import ddp_report  # pylint: disable=wrong-import-position


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def demo_table(demo):
    """Every run of a demo.json, one below the other."""
    header = ["gradients", "setting", "time", "speed-up", "algbw GB/s", "busbw GB/s", "ratio",
              "sent a rank", "error of a call", f"error of the mean of {demo['runs'][0]['mean_of']} calls", "ranks agree"]
    rows = []
    for run in demo["runs"]:
        first = run["rows"][0]
        for row in run["rows"]:
            title = f"{run['title']} ({row['bytes'] / 1e6:.2f} MB)" if row is first else ""
            rows.append([title, f"`{row['setting']}`", f"{row['time_us'] / 1e3:.1f} ms",
                         f"{first['time_us'] / row['time_us']:.2f}x", f"{row['algbw']:.3f}",
                         f"{row['busbw']:.3f}", f"{row['ratio']:.2f}",
                         f"{row['wire_bytes'] / 1e6:.2f} MB", f"{row['relerr']:.1e}",
                         f"{row['mean_relerr']:.1e}", "yes" if row["identical"] else "no"])
    caption = f"{demo['ranks']} ranks, {demo['rate']} links; {demo['machine']}.\n\n"
    return caption + markdown(header, rows)


def size_text(size):
    for unit, shift in (("MB", 20), ("KB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size / 1e6:g} MB"


def newest_rows(reports):
    """(link, ranks, row) of every size; what was measured again counts as it was measured last."""
    found = {}
    for report in sorted(reports, key=lambda report: report["start_time"]):
        for row in report["rows"]:
            found[(report["link"], report["ranks"], row["bytes"])] = row
    links = list(dict.fromkeys(report["link"] for report in reports))
    keys = sorted(found, key=lambda key: (links.index(key[0]), key[1:]))
    return [(link, ranks, found[(link, ranks, size)]) for link, ranks, size in keys]


def front_table(demo):
    """The largest run of a demo.json, at the settings that people begin with."""
    run = max(demo["runs"], key=lambda run: run["rows"][0]["bytes"])
    exact = run["rows"][0]
    rows = []
    for row in run["rows"]:
        if row["setting"] not in ("none", "auto", "q8", "q4"):
            continue
        rows.append([f"`{row['setting']}`", f"{row['time_us'] / 1e3:.0f} ms", f"{exact['time_us'] / row['time_us']:.1f}x",
                     f"{row['busbw']:.2f} GB/s", f"{row['wire_bytes'] / 1e6:.0f} MB", f"{row['relerr']:.1g}",
                     f"{row['mean_relerr']:.1g}", "yes" if row["identical"] else "no"])
    return (f"{exact['bytes'] / 1e6:.0f} MB of real gradients, {demo['rate']} links:\n\n" +
            markdown(["setting", "time", "speed-up", "busbw", "sent by a rank", "error of one call",
                      f"error of the mean of {run['mean_of']} calls", "all ranks agree"], rows))


def peers_table(reports):
    """One row per link, ranks and size: times, and how many times faster than the better peer."""
    groups = sorted({group for report in reports for row in report["rows"] for group in row["best"]},
                    key=lambda group: (group.startswith("ringpress"), group))
    header = ["link", "ranks", "size"] + [f"{group}, ms" for group in groups]
    rows = []
    for link, ranks, row in newest_rows(reports):
        peers = [cell["time_us"] for group, cell in row["best"].items()
                 if not group.startswith("ringpress")]
        size = size_text(row["bytes"]) + (" (mean)" if row["statistic"] == "mean" else "")
        line = [link, str(ranks), size]
        for group in groups:
            cell = row["best"].get(group)
            shown = "" if cell is None else f"{cell['time_us'] / 1e3:.3g}"
            if cell and peers and group.startswith("ringpress"):
                shown += f" ({min(peers) / cell['time_us']:.2f}x)"
            line.append(shown)
        rows.append(line)
    machines = sorted({f"{r['machine']['cores']} cores, {r['machine']['cpu']}" for r in reports})
    return ("Median times, means where a shaped link's burst makes some calls fast and others slow; "
            "in brackets: times faster than the better of the peers. "
            f"{'; '.join(machines)}.\n\n" + markdown(header, rows))


def speed_of(speed, codec, operation):
    """Times the rate of memcpy; empty where it was not measured."""
    found = [row["ratio"] for row in speed["rows"]
             if row["requested"] == codec and row["operation"] == operation]
    return f"{found[0]:.2f}x" if found else ""


def codecs_table(accuracy, speed):
    """One row per example of a codec family: what it costs, and when to use it."""
    header = ["codec", "bits a value", "error, Gaussian", "error, Student-t", "encode", "decode",
              "memory", "summable", "error feedback", "when to use it"]
    single = {(row["codec"], row["data"]): row for row in accuracy["rows"]
              if row["mode"] == "single"}
    rows = []
    for codec in accuracy["codecs"]:
        name = codec["codec"]
        gaussian, student = single[(name, "gaussian")], single[(name, "student_t3")]
        errors = ["none" if codec["lossless"] else f"{row['error']:.2g}"
                  for row in (gaussian, student)]
        rows.append([f"`{name}`", f"{gaussian['bits']:.2f}", *errors,
                     speed_of(speed, name, "encode"), speed_of(speed, name, "decode"),
                     codec["memory"], "yes" if codec["summable"] else "no",
                     codec["error_feedback"], codec["when_to_use"]])
    caption = ("Errors: squared, over the squared norm of the values, of one encoding. Speed: float32, "
               f"{speed['bytes'] >> 20} MB, one core, beside memcpy in the same run. Memory: kept from "
               "call to call, besides 4 bytes a value with error feedback. Bits are those of a chunk that "
               "stands alone: among ranks `qsgd` leaves out scales and grows, and `randk` takes those "
               "of its code.\n\n")
    return caption + markdown(header, rows)


# Columns of the table of frameworks: what a door is called in results, and how it is opened.
DOORS = {"LD_PRELOAD": "LD_PRELOAD=.../libringpress-preload.so",
         "LD_PRELOAD of libnccl.so.2": "LD_PRELOAD=.../preload/libnccl.so.2",
         "LD_LIBRARY_PATH": "LD_LIBRARY_PATH=.../preload",
         "NCCL_NET_PLUGIN": "NCCL_NET_PLUGIN=ringpress"}


def frameworks_table(result):
    """One row per wheel: how it reaches NCCL, and by which doors this library is before that."""
    header = ["framework", "wheel", "how it reaches NCCL", "tried on",
              *(f"`{way}`" for way in DOORS.values())]
    rows = [[row["framework"], f"{row['package']} {row['version']}",
             ("opened by its path" if row["opens"] == "path" else row["reaches"]) +
             f": {row['evidence']}", row["proof"],
             *("yes" if door in row["doors"] else "no" for door in DOORS)]
            for row in result["frameworks"]]
    absent = f" Not in the registry: {', '.join(result['absent'])}." if result["absent"] else ""
    caption = (f"Where calls go, as the dynamic linker says, beside {result['nccl']}, without a GPU "
               f"(`{result['command']}`, {result['date']}). The plugin is looked for by NCCL itself; "
               f"that it was loaded is not shown by this.{absent}\n\n")
    return caption + markdown(header, rows)


# What roofline.py calls what the kernels' bench does.
OPERATIONS = {"quantise": "encode", "dequantise": "decode", "hop": "hop", "error feedback": "feedback"}


def measured_share(row, rates):
    """Of a copy's rate."""
    wanted = (row["codec"], row["element"], OPERATIONS[row["operation"]])
    return next(rate["of_copy"] for rate in rates
                if (rate["codec"], rate.get("type"), rate.get("operation")) == wanted)


def roofline_row(row, rates):
    at_most = row["H200"]
    return [row["operation"], f"`{row['codec']}`", row["element"],
            f"{row['instructions_per_value']:.1f}", f"{at_most['share']:.2f}, {at_most['limit']}",
            f"{measured_share(row, rates):.2f}"]


def roofline_table(result, measured):
    """One row per kernel: what it could reach, and did."""
    rates = next(check for check in measured["checks"] if check["name"] == "rates")["figures"]["rates"]
    header = ["operation", "codec", "values", "instructions a value", "at most, limited by",
              "measured"]
    caption = (f"Shares of the rate of a copy within the device ({rates[0]['gbytes_per_s']:.0f} GB/s, read "
               f"and written) on an {measured['machine']['gpus'][0].replace('NVIDIA ', '')}, 1 GiB of values "
               f"(`perf/results/gpu-bench.json`, {measured['started'][:10]}). At most: predicted from the "
               f"code of {result['date']} for {result['architecture']} (`{result['command']}`).\n\n")
    return caption + markdown(header, [roofline_row(row, rates) for row in result["rows"]])


def gossip_accuracy(accuracies, every_step):
    """Of several trainings, and how far it is from that of gossip at every step with the same seeds, in
    points, with the standard error of that."""
    apart = [100 * (one - other) for one, other in zip(accuracies, every_step)]
    error = statistics.stdev(apart) / len(apart) ** 0.5
    return f"{100 * statistics.mean(accuracies):.2f} %", f"{statistics.mean(apart):+.2f} ± {error:.2f}"


def gossip_table(reports):
    """What methods take and reach, beside gossip at every step."""
    accuracies = {(report["task"], report["ranks"]): report["results"]
                  for report in reports if report["link"] == "none"}
    rows = []
    for report in reports:
        if report["link"] == "none":
            continue
        exact = accuracies[(report["task"], report["ranks"])]
        every_step = report["results"][1]
        for result, trained in zip(report["results"], exact):
            first = result is report["results"][0]
            parameters = "".join(f", {name} {result[name]}" for name in ("theta", "period", "codec", "lazy")
                                 if result.get(name))
            rows.append([f"{report['task']}, {report['ranks']} workers" if first else "",
                         result["method"] + parameters, f"{result['exchanges']:.0f}",
                         f"{result['sent_bytes'] / every_step['sent_bytes']:.3f}",
                         f"{result['seconds'] / every_step['seconds']:.2f}",
                         f"{result['communicating_seconds'] / result['seconds']:.2f}",
                         *gossip_accuracy(trained["accuracies"], exact[1]["accuracies"])])
    return markdown(["task", "method", "exchanges", "bytes", "time", "of it communicating", "accuracy",
                     "against every step, points"], rows)


OPTIMIZER_NAMES = {"adamw": "AdamW", "sgd": "SGD"}


def fidelity_rows(reports):
    """{(method, case): row}; of what was measured in several files, the row of the most seeds."""
    found = {}
    for report in reports:
        for row in [*report["rows"], *report.get("codecs_of_warm_up", {}).get("rows", [])]:
            key = row["method"], (row["task"], row["optimizer"], row["steps"])
            if key not in found or row["seeds"] > found[key]["seeds"]:
                found[key] = row
    return found


def fidelity_cell(row):
    if row is None:
        return ""
    error = f" ± {row['standard_error']:.2f}" if row["seeds"] > 1 else ""
    return f"{row['loss_percent']:+.2f}{error} % ({row['seeds']})"


def fidelity_table(reports):
    """A line for each method, a column for each training."""
    found = fidelity_rows(reports)
    cases = list(dict.fromkeys(case for _, case in found))
    methods = sorted(dict.fromkeys(method for method, _ in found),
                     key=lambda method: (method.partition(":")[0].partition("+")[0], len(method)))
    rows = []
    for method in methods:
        of_method = [found.get((method, case)) for case in cases]
        ratios = [row["times_fewer_bytes"] for row in of_method if row is not None]
        rows.append([f"`{method}`", f"{min(ratios):.1f}x", *map(fidelity_cell, of_method)])
    titles = [f"`{task}`, {OPTIMIZER_NAMES[optimizer]}, {steps} steps" for task, optimizer, steps in cases]
    return markdown(["method", "fewer bytes", *titles], rows)


def ddp_table(report):
    """A training's methods, one below the other."""
    results = report["results"]
    caption = (f"{report['ranks']} ranks, links of {report['link']}, {report['parameters'] / 1e6:.1f} million "
               f"parameters, {len(results[0]['losses'])} steps; {report['cores']} cores.\n\n")
    return caption + markdown(ddp_report.HEADER, [ddp_report.cells(result, results[0]) for result in results])


def replaced(text, marker, table):
    begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    if begin not in text or end not in text:
        raise ValueError(f"no {begin} ... {end} in the text")
    return text[:text.index(begin)] + begin + "\n" + table + text[text.index(end):]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--demo", type=pathlib.Path)
    parser.add_argument("--front", type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path, nargs="+")
    parser.add_argument("--accuracy", type=pathlib.Path)
    parser.add_argument("--speed", type=pathlib.Path)
    parser.add_argument("--frameworks", type=pathlib.Path)
    parser.add_argument("--roofline", type=pathlib.Path, nargs=2,
                        help="what kernels could reach, and gpu-bench.json")
    parser.add_argument("--gossip", type=pathlib.Path, nargs="+")
    parser.add_argument("--fidelity", type=pathlib.Path, nargs="+")
    parser.add_argument("--ddp", type=pathlib.Path)
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    if arguments.demo:
        text = replaced(text, "demo", demo_table(json.loads(arguments.demo.read_text())))
    if arguments.front:
        text = replaced(text, "front", front_table(json.loads(arguments.front.read_text())))
    if arguments.peers:
        reports = [json.loads(path.read_text()) for path in arguments.peers]
        text = replaced(text, "peers", peers_table(reports))
    if arguments.gossip:
        reports = [json.loads(path.read_text()) for path in arguments.gossip]
        text = replaced(text, "gossip", gossip_table(reports))
    if arguments.fidelity:
        reports = [json.loads(path.read_text()) for path in arguments.fidelity]
        text = replaced(text, "fidelity", fidelity_table(reports))
    if arguments.accuracy and arguments.speed:
        table = codecs_table(json.loads(arguments.accuracy.read_text()),
                             json.loads(arguments.speed.read_text()))
        text = replaced(text, "codecs", table)
    if arguments.roofline:
        found = [json.loads(path.read_text()) for path in arguments.roofline]
        text = replaced(text, "roofline", roofline_table(*found))
    for marker, path, table in (("frameworks", arguments.frameworks, frameworks_table),
                                ("ddp", arguments.ddp, ddp_table)):
        if path:
            text = replaced(text, marker, table(json.loads(path.read_text())))
    arguments.page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
