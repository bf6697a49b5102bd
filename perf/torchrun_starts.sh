#!/usr/bin/env bash
# Starts all_reduce_perf by torchrun many times on a busy machine, and counts the starts that fail.
# Rank 0 of every other start comes up to three seconds late, so that the other ranks look for it.
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
work=$(mktemp -d)
loads=()
trap 'kill "${loads[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

for ((core = 0; core < $(nproc); ++core)); do
  (while :; do :; done) &
  loads+=($!)
done
cat >"$work/rank" <<RANK
#!/bin/sh
[ "\$RANK" != 0 ] || sleep "\$LATE"
exec "$PROGRAM" -b 64K -e 64K -n 2
RANK
chmod +x "$work/rank"

failed=0 unsaid=0
for ((start = 1; start <= STARTS; ++start)); do
  export LATE=0 OMP_NUM_THREADS=1
  ((start % 2)) || LATE=$((RANDOM % 4))
  if "$TORCHRUN" --standalone --nproc-per-node "$RANKS" --no-python "$work/rank" >"$work/out" 2>&1; then
    continue
  fi
  failed=$((failed + 1))
  report=$(sed -n '/ChildFailedError/,$p' "$work/out" | grep 'all_reduce_perf: rank' || true)
  [[ -n $report ]] || unsaid=$((unsaid + 1))
  echo "start $start: $(grep -m1 'all_reduce_perf: rank' "$work/out" || tail -n 3 "$work/out")"
done
echo "$STARTS starts of $RANKS ranks, $(nproc) busy loops on $(nproc) cores: $failed failed, of which" \
  "$unsaid without a cause in torchrun's report"
[[ $failed -eq 0 ]]
