#!/usr/bin/env bash
# The same all-reduce by Gloo, Open MPI and ringpress, interleaved; prints ratios, writes JSON.
#
#   perf/peers.sh --rate 1gbit --ranks 4     over shaped links (default)
#   perf/peers.sh --local --ranks 2          on one host, each peer at its best
#
# Needs build/perf/all_reduce_perf (built here if it is missing). Peers that are not installed
# (python3-torch; openmpi-bin and libopenmpi-dev) are left out and named.
set -euo pipefail
readonly ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

if [[ $* != *--build* && ! -x $ROOT/build/perf/all_reduce_perf ]]; then
  cmake -S "$ROOT" -B "$ROOT/build" -G Ninja -DRINGPRESS_TESTS=OFF >/dev/null
  cmake --build "$ROOT/build" --target all_reduce_perf -j "$(nproc)" >&2
fi
exec python3 -B "$ROOT/perf/peers/peers.py" "$@"
