"""The demo's HTML page: one file, nothing loaded from elsewhere, light and dark."""
import html
import math

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #66727f; --line: #d5dbe1; --bar: #9db2c7;
  --best: #1f7a5c; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #9aa7b4; --line: #39434e;
  --bar: #4d6276; --best: #4cc19a; --paper: #14191f; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p { color: var(--soft); margin: .3rem 0; } .wide { overflow-x: auto; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; } th:first-child, td:first-child { text-align: left; }
"""

WIDTH = 760
LABEL_WIDTH = 70
ROW_HEIGHT = 30


def text(x, y, words, anchor="start", css=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">'
            f"{html.escape(words)}</text>")


def time_bars(rows):
    """One horizontal bar per setting, as long as its time."""
    slowest = max(row["time_us"] for row in rows)
    room = WIDTH - LABEL_WIDTH - 190
    parts = []
    for index, row in enumerate(rows):
        y = 6 + index * ROW_HEIGHT
        length = room * row["time_us"] / slowest
        color = "var(--bar)" if index == 0 else "var(--best)"
        faster = rows[0]["time_us"] / row["time_us"]
        parts.append(text(LABEL_WIDTH - 10, y + 15, row["setting"], "end"))
        parts.append(f'<rect x="{LABEL_WIDTH}" y="{y}" width="{length:.1f}" height="20" rx="3" '
                     f'fill="{color}"/>')
        note = f"{row['time_us'] / 1e3:.1f} ms"
        if index > 0:
            note += f"  ({faster:.2f}x faster)" if faster >= 1 else f"  ({1 / faster:.2f}x slower)"
        parts.append(text(LABEL_WIDTH + length + 8, y + 15, note))
    height = 12 + len(rows) * ROW_HEIGHT
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="time per setting">{"".join(parts)}</svg>')


def decades(values):
    """The whole powers of ten that enclose the values."""
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def error_plot(runs):
    """Relative error over bytes sent, both logarithmic; lossy settings only."""
    points = [(row["wire_bytes"] / row["bytes"], row["relerr"], row["setting"], run["title"])
              for run in runs for row in run["rows"]
              if row["setting"] != "none" and row["relerr"] and row["relerr"] > 0]
    if not points:
        return ""
    left, top, right, bottom = 70, 40, WIDTH - 150, 280
    shares = [point[0] for point in points]
    x_low, x_high = math.log10(min(shares) / 1.3), math.log10(max(shares) * 1.3)
    y_low, y_high = decades([point[1] for point in points])
    y_high = max(y_high, y_low + 1)

    def place(share, error):
        return (left + (math.log10(share) - x_low) / (x_high - x_low) * (right - left),
                bottom - (math.log10(error) - y_low) / (y_high - y_low) * (bottom - top))

    parts = []
    for power in range(y_low, y_high + 1):
        y = place(shares[0], 10.0 ** power)[1]
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 8, y + 4, f"1e{power}", "end", "soft"))
    parts.append(text(left, bottom + 36, "bytes sent by a rank per byte of message (log)", css="soft"))
    parts.append(text(left, top - 24, "relative error of the worst call (log)", css="soft"))
    titles = [run["title"] for run in runs]
    for share, error, setting, title in points:
        x, y = place(share, error)
        radius = 4 + 2 * titles.index(title)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="none" '
                     f'stroke="var(--best)" stroke-width="2"><title>{html.escape(title)}: {setting}, '
                     f"{share:.3f} of the bytes, error {error:.1e}</title></circle>")
        if title == titles[-1]:
            parts.append(text(x + 12, y - 8, setting))
            parts.append(text(x, bottom + 16, f"{share:.2f}", "middle", "soft"))
    for index, title in enumerate(titles):
        y = top + 20 + 24 * index
        parts.append(f'<circle cx="{right + 20}" cy="{y}" r="{4 + 2 * index}" fill="none" '
                     'stroke="var(--best)" stroke-width="2"/>')
        parts.append(text(right + 34, y + 4, title.split(" as ")[0][:18], css="soft"))
    return (f'<svg viewBox="0 0 {WIDTH} {bottom + 44}" role="img" '
            f'aria-label="error over bytes">{"".join(parts)}</svg>')


def table(run, columns, cells):
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row, run["rows"][0])) +
        "</tr>" for row in run["rows"])
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def render(demo, columns, cells):
    """The whole page. `cells(row, baseline)` gives the text of one table row."""
    sections = []
    for run in reversed(demo["runs"]):
        sections.append(f"<h2>{html.escape(run['title'])}: "
                        f"{run['rows'][0]['bytes'] / 1e6:.2f} MB a rank</h2>"
                        f"{time_bars(run['rows'])}{table(run, columns, cells)}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ringpress: one all-reduce, compressed</title><style>{STYLE}</style>"
        "<h1>One all-reduce of real gradients, compressed and not</h1>"
        f"<p>{demo['ranks']} ranks, each behind a {html.escape(demo['rate'])} link; float32 sum; "
        f"{html.escape(demo['machine'])}.</p>"
        "<p>Gradients of one training step of a small convolution net and of a character "
        "transformer. Times are medians; bandwidths count uncompressed bytes; the error is that of "
        "the worst call that was looked at: error feedback makes up for it in later ones. On the small messages the links' token "
        "bucket of 256 kB hides a part of the time.</p>"
        + "".join(sections) + "<h2>Error against bytes</h2>" + error_plot(demo["runs"]) + "</html>\n")
