#!/usr/bin/env python3
"""Pictures of measurements, from the files in which those lie.

usage: main.py speed-up FILE [-o SVG]      of all_reduce_perf -J with --compare: speed-up over the first
                                           setting against the size of the message
       main.py error [FILE] [-o SVG]       of perf/accuracy.py: relative error against bits of a value
       main.py loss [FILE...] [-o SVG]     of perf/fidelity/run.py: loss above exact against bytes
       main.py ranks FILE [-o SVG]         of perf/plots/ranks.py: time of a call against the number of ranks

SVG is FILE with another ending by default. Needs Matplotlib (Debian: python3-matplotlib).
"""
import argparse
import collections
import json
import pathlib
import re
import sys

try:
    import charts
except ImportError as missing:
    sys.exit(f"{missing}: apt-get install python3-matplotlib")

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
LAWS = {"gaussian": "normal distribution", "laplace": "Laplace distribution",
        "conv_step400": "gradients of a convolution net", "transformer_step200": "gradients of a transformer"}


def read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")


def bytes_text(count, _=None):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count:g} B"


def rows_of(report, path, *needed):
    """Those of a report that have what a picture needs."""
    found = [row for row in report.get("rows") or report.get("results") or []
             if all(name in row for name in needed)]
    if not found:
        sys.exit(f"{path}: no rows with {', '.join(needed)}")
    return found


def speed_up(paths, output):
    """Of medians, each over that of the first setting at the same size."""
    path = paths[0]
    times = collections.defaultdict(dict)
    for row in measured_calls(read(path), path):
        times[row["setting"]][row["bytes"]] = row["time_us"]
    if len(times) < 2:
        sys.exit(f"{path}: only one setting; --compare names several")
    first = next(iter(times))
    lines = {setting: [(size, times[first][size] / time) for size, time in of_size.items() if size in times[first]]
             for setting, of_size in times.items()}
    drawn, (axes,) = charts.figure()
    charts.draw_lines(axes, lines)
    axes.set(xscale="log", xlabel="message, bytes", ylabel=f"times as quick as {first}", ylim=(0, None))
    sizes = sorted(times[first])
    axes.set_xticks(sizes, [bytes_text(size) for size in sizes], rotation=30)
    axes.minorticks_off()
    charts.finish(drawn, [axes], output, "Speed-up of one all-reduce")


def measured_calls(report, path):
    """Of all_reduce_perf's JSON: each size has one entry a setting."""
    rows = []
    for result in report.get("results", []):
        ours = result.get("ringpress", {})
        timed = result.get("out_of_place") or result.get("in_place") or {}
        if "size" in result and "time" in timed:
            setting = ours.get("setting") or f"{ours.get('codec')} {ours.get('algorithm')}"
            rows.append({"setting": setting, "bytes": result["size"], "time_us": timed["time"]})
    if not rows:
        sys.exit(f"{path}: no results of all_reduce_perf -J")
    return rows


def family(codec):
    """What is one line: a quantiser with its grid and rounding, at all its bits; or the codec's name."""
    found = re.fullmatch(r"q\d(?::(.*))?", codec)
    if not found:
        return codec.partition(":")[0]
    values = dict(part.split("=") for part in (found[1] or "").split(",") if part)
    name = f"qB:grid={values.get('grid', 'uniform')}"
    if "block" in values:
        name += f",block={values['block']}"
    return name + (",round=stochastic" if values.get("round") == "stochastic" else "")


def error(paths, output):
    rows = [row for row in rows_of(read(paths[0]), paths[0], "bits", "error", "data", "mode")
            if row["mode"] == "single" and row["error"] > 0]
    names = list(dict.fromkeys(family(row["codec"]) for row in rows))
    laws = [law for law in LAWS if any(row["data"] == law for row in rows)]
    drawn, panels = charts.figure(len(laws))
    for axes, law in zip(panels, laws):
        lines = {name: [(row["bits"], row["error"]) for row in rows if row["data"] == law and family(row["codec"]) == name]
                 for name in names}
        charts.draw_lines(axes, lines)
        axes.set(yscale="log", title=LAWS[law], xlabel="bits of a value", ylabel="relative error", xlim=(0, 18))
    charts.finish(drawn, panels, output, "Error against bits, one call without error feedback")


def split_method(method):
    """(what a line is of, what tells its points apart): the codec with its error feedback, and the rest."""
    codec, *settings = method.split("+")
    kept = [setting for setting in settings if setting.startswith("EF=")]
    steps = next((setting.partition("=")[2] for setting in settings if setting.startswith("WARMUP_STEPS=")), "0")
    return " ".join([codec, *kept]), "" if steps == "0" else f"{steps} steps"


def has_other_warm_up(method):
    """Not by q8 alone, as warm-ups are by default: a line has one kind."""
    return re.search(r"WARMUP_CODECS=(?!q8($|\+))", method) is not None


def trainings(paths):
    """{training: {method: row}} of those with three methods or more; of a method, the row of the most seeds."""
    found = collections.defaultdict(dict)
    for path in paths:
        report = read(path)
        report["rows"] = [*report.get("rows", []), *report.get("codecs_of_warm_up", {}).get("rows", [])]
        for row in rows_of(report, path, "task", "optimizer", "steps", "method", "seeds", "loss_percent", "times_fewer_bytes"):
            rows = found[f"{row['task']}, {row['optimizer']}, {row['steps']} steps"]
            is_better = row["method"] not in rows or row["seeds"] > rows[row["method"]]["seeds"]
            if row["method"] != "none" and not has_other_warm_up(row["method"]) and is_better:
                rows[row["method"]] = row
    return {key: rows for key, rows in found.items() if len(rows) > 2}


def loss(paths, output):
    """Means over seeds with their standard errors."""
    tasks = trainings(paths)
    if not tasks:
        sys.exit("no training with three methods or more")
    names = list(dict.fromkeys(split_method(method)[0] for rows in tasks.values() for method in rows))
    drawn, panels = charts.figure(len(tasks))
    for axes, (key, rows) in zip(panels, tasks.items()):
        for index, name in enumerate(names):
            of_line = sorted((row["times_fewer_bytes"], row["loss_percent"], row.get("standard_error") or 0,
                              split_method(method)[1]) for method, row in rows.items() if split_method(method)[0] == name)
            if not of_line:
                continue
            sent, losses, errors, notes = zip(*of_line)
            axes.errorbar(sent, losses, yerr=errors, capsize=3, label=name, **charts.style(index, len(names)))
            for x, y, note in zip(sent, losses, notes):
                axes.annotate(note, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=7)
        axes.axhline(0, color="#777777", linewidth=1)
        axes.set(title=key, xlabel="times fewer bytes than exact training", ylabel="loss above exact, %")
        charts.use_plain_log_ticks(axes)
    charts.finish(drawn, panels[:len(tasks)], output,
                  "Loss against bytes: means with standard errors; points name the steps of a warm-up by q8")


def ranks(paths, output):
    report = read(paths[0])
    rows = rows_of(report, paths[0], "setting", "ranks", "milliseconds", "is_measured")
    lines = collections.defaultdict(list)
    for row in rows:
        kind = "measured" if row["is_measured"] else "model"
        lines[f"{row['setting']}, {kind}"].append((row["ranks"], row["milliseconds"]))
    drawn, (axes,) = charts.figure()
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    for name, points in lines.items():
        setting, _, kind = name.rpartition(", ")
        given = charts.style(settings.index(setting), len(settings))
        if kind == "model":
            given.update(marker="none")
        else:
            given.update(linestyle="none", markersize=8)
        axes.plot(*zip(*sorted(points)), label=name, **given)
    axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="milliseconds")
    counts = sorted({row["ranks"] for row in rows})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    charts.finish(drawn, [axes], output, report["title"])


PICTURES = {"speed-up": (speed_up, None), "error": (error, RESULTS / "accuracy.json"),
            "loss": (loss, RESULTS / "fidelity-warmup.json"), "ranks": (ranks, None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=PICTURES)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    draw, usual = PICTURES[options.picture]
    paths = options.files or [usual]
    if paths == [None]:
        parser.error(f"{options.picture} needs a file")
    output = options.output or paths[0].with_suffix(".svg")
    draw(paths, output)
    print(f"written: {output}", file=sys.stderr)


if __name__ == "__main__":
    main()
