#!/usr/bin/env python3
"""Makes the tables of compress_kernels/lloyd/levels.h and prints the squared error of each.

  /usr/bin/python3 perf/lloyd_levels.py          needs numpy (python3-numpy)

Up to 4 bits: Lloyd's iteration for the magnitude of a Gaussian. From 5 bits on: 8 segments with
2^(bits - 4) equal cells each, whose boundaries are moved one by one while the error falls.
"""
import numpy as np

SEGMENTS, UNREACHED = 8, 1e30
# The law of |y|, y Gaussian with variance 1, at the middles of short intervals.
T = (np.arange(160000) + 0.5) * 5e-5
P = np.exp(-T * T / 2)
P /= P.sum()
C0, C1, C2 = (np.concatenate([[0], np.cumsum(P * T ** k)]) for k in range(3))


def moments(edges):
    """Probability, first and second moment between neighbouring edges; the last has no end."""
    at = np.minimum(np.searchsorted(T, edges), len(T))
    at = np.append(at, len(T))
    return tuple(c[at[1:]] - c[at[:-1]] for c in (C0, C1, C2))


def lloyd(bits):
    levels = np.linspace(0.1, 2.5, 1 << (bits - 1))
    for _ in range(20000):
        edges = np.concatenate([[0], (levels[1:] + levels[:-1]) / 2])
        p, first, second = moments(edges)
        better = first / p
        if np.abs(better - levels).max() < 1e-9:
            break
        levels = better
    return edges, levels, (second - 2 * levels * first + levels ** 2 * p).sum()


def segmented(starts, end, cells):
    """Edges and levels of all cells; `end` is where the last segment's equal cells end."""
    bounds = np.append(starts, end)
    steps = np.diff(bounds) / cells
    edges = (starts[:, None] + np.arange(cells) * steps[:, None]).ravel()
    levels = (starts[:, None] + (np.arange(cells) + 0.5) * steps[:, None]).ravel()
    return edges, levels, steps


def error(bounds, cells):
    if np.any(np.diff(bounds) <= 0):
        return np.inf
    edges, levels, _ = segmented(bounds[:-1], bounds[-1], cells)
    p, first, second = moments(edges)
    return (second - 2 * levels * first + levels ** 2 * p).sum()


def optimise(bits):
    cells = 1 << (bits - 4)
    edges, _, _ = lloyd(4)
    bounds = np.append(edges, 3.0 + 0.25 * (bits - 4))
    best, stride = error(bounds, cells), 0.1
    while stride > 1e-5:
        improved = False
        for k in range(1, SEGMENTS + 1):
            for sign in (1, -1):
                moved = bounds.copy()
                moved[k:] += sign * stride if k < SEGMENTS else 0
                moved[k] += 0 if k < SEGMENTS else sign * stride
                alone = bounds.copy()
                alone[k] += sign * stride
                for candidate in (moved, alone):
                    value = error(candidate, cells)
                    if value < best:
                        bounds, best, improved = candidate, value, True
        if not improved:
            stride /= 2
    return bounds, cells, best


def row(values):
    return "{" + ", ".join(f"{np.float32(v):.9g}f" if v != int(v) else f"{v:.1f}f"
                           for v in values) + "}"


def padded(values, filler):
    return list(values) + [filler] * (SEGMENTS - len(values))


def main():
    print("inline constexpr LevelTable kLevelTables[10] = {")
    notes = []
    for bits in range(1, 11):
        if bits <= 4:
            edges, levels, value = lloyd(bits)
            table = (0, padded(edges, UNREACHED), padded(levels, 0), [0] * SEGMENTS,
                     [0] * SEGMENTS)
        else:
            bounds, cells, value = optimise(bits)
            _, levels, steps = segmented(bounds[:-1], bounds[-1], cells)
            table = (bits - 4, bounds[:-1], levels[::cells], steps, 1 / steps)
        table = (table[0], list(table[1]) + [UNREACHED], *table[2:])
        print(f"    {{{table[0]},\n     " + ",\n     ".join(
            row(part).replace(f"{np.float32(UNREACHED):.9g}f", "kUnreached") for part in table[1:]) +
            "},")
        notes.append(f"{bits} bits: {value:.3e}, Lloyd-Max {lloyd(bits)[2]:.3e}")
    print("};")
    print("\n".join("// " + note for note in notes))


if __name__ == "__main__":
    main()
