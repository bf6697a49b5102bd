#!/usr/bin/env bash
# What the order of a ring is worth: four ranks on two hosts, numbered in turn (0 and 2 on the first,
# 1 and 3 on the second), each host behind one link. By number a ring crosses each link twice each
# way (RINGPRESS_TOPOLOGY=ranks), by hosts once. Prints milliseconds of all_reduce_perf, the smaller of
# out-of-place and in-place means.
#
# usage: perf/gadget/ring_order.sh [RATE] [BUILD]        default: 1gbit build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly RATE=${1:-1gbit} BUILD=${2:-build}

readonly OPTIONS="-b 4M -e 16M -f 2 -n 8 -w 1"

# milliseconds TOPOLOGY CODEC: of each size, in a line. Starts both ranks of host {rank}.
milliseconds() {
  perf/shaped.sh --ranks 2 --rate "$RATE" -- env WORLD_SIZE=4 NCCL_HOSTID="host{rank}" \
    RINGPRESS_ALGO=ring RINGPRESS_TOPOLOGY="$1" RINGPRESS_EF=0 bash -c "
      RANK=\$(({rank} + 2)) LOCAL_RANK=1 $BUILD/perf/all_reduce_perf $OPTIONS --codec $2 >/dev/null &
      RANK={rank} LOCAL_RANK=0 $BUILD/perf/all_reduce_perf $OPTIONS --codec $2
      wait" 2>/dev/null |
    awk '/^ +[0-9]+/ { printf "%.1f ", ($6 < $10 ? $6 : $10) / 1000 }'
}

echo "| codec | MB | by number, ms | by hosts, ms |"
echo "|---|---|---|---|"
for codec in none q4; do
  read -r -a by_number <<<"$(milliseconds ranks "$codec")"
  read -r -a by_hosts <<<"$(milliseconds hosts "$codec")"
  for i in 0 1 2; do
    echo "| \`$codec\` | $((4 << i)) | ${by_number[i]} | ${by_hosts[i]} |"
  done
done
