#!/usr/bin/env bash
# Starts all_reduce_perf by torchrun many times on a busy machine, and counts the starts that fail.
# Rank 0 of every other start comes up to three seconds late, so that the other ranks look for it.
# The count so far goes to standard error; standard output is what perf/results/torchrun-starts.txt
# has.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: perf/torchrun_starts.sh TORCHRUN [STARTS [RANKS [PROGRAM]]]
  TORCHRUN  PyTorch's command, such as VENV/bin/torchrun
  STARTS    how many, default 200
  RANKS     of each, default 4
  PROGRAM   default build/perf/all_reduce_perf
TEXT
}

[[ $# -ge 1 && $# -le 4 && -x $1 ]] || { usage >&2; exit 2; }
readonly TORCHRUN=$1 STARTS=${2:-200} RANKS=${3:-4}
readonly PROGRAM=$(readlink -f "${4:-$(dirname "${BASH_SOURCE[0]}")/../build/perf/all_reduce_perf}")
readonly CORES=$(nproc)  # Which OMP_NUM_THREADS would change.
work=$(mktemp -d)
loads=()
trap 'kill "${loads[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

for ((core = 0; core < CORES; ++core)); do
  (while :; do :; done) &
  loads+=($!)
done
cat >"$work/rank" <<RANK
#!/bin/sh
[ "\$RANK" != 0 ] || sleep "\$LATE"
exec "$PROGRAM" -b 64K -e 64K -n 2
RANK
chmod +x "$work/rank"

summary() {
  echo "$1 starts of $RANKS ranks, $CORES busy loops on $CORES cores, load of the last minute" \
    "$(cut -d ' ' -f 1 /proc/loadavg): $failed failed, of which $unsaid without a cause in" \
    "torchrun's report"
}

failed=0 unsaid=0
for ((start = 1; start <= STARTS; ++start)); do
  export LATE=0 OMP_NUM_THREADS=1
  ((start % 2)) || LATE=$((RANDOM % 4))
  ((start % 10 != 1)) || summary $((start - 1)) >&2
  if "$TORCHRUN" --standalone --nproc-per-node "$RANKS" --no-python "$work/rank" >"$work/out" 2>&1; then
    continue
  fi
  failed=$((failed + 1))
  report=$(sed -n '/ChildFailedError/,$p' "$work/out" | grep 'all_reduce_perf: rank' || true)
  [[ -n $report ]] || unsaid=$((unsaid + 1))
  echo "start $start: $(grep -m1 'all_reduce_perf: rank' "$work/out" || tail -n 3 "$work/out")"
done
summary "$STARTS"
[[ $failed -eq 0 ]]
