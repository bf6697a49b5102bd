#!/usr/bin/env bash
# usage: all_reduce_perf_test.sh ALL_REDUCE_PERF SOURCE_DIR
# Runs the program with real ranks and checks what it prints and how it ends.
set -uo pipefail
readonly PROGRAM=$1 SOURCE=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# expect STATUS COMMAND...: output goes to $work/out.
expect() {
  local wanted=$1 status=0
  shift
  "$@" >"$work/out" 2>&1 || status=$?
  if [[ $status -ne $wanted ]]; then
    fail "status $status instead of $wanted: $*"
    tail -n 20 "$work/out"
  fi
}

says() { grep -q -- "$1" "$work/out" || { fail "no \"$1\" in:"; cat "$work/out"; }; }

rows() { grep -vc '^#\|^ringpress \[' "$work/out"; }

expect 0 "$PROGRAM" --ranks 3 -b 4000 -e 4000 -n 2 -d all -o all -J "$work/all.json"
[[ $(rows) -eq 72 ]] || fail "$(rows) rows instead of 72"
says "# Out of bounds values : 0 OK"
[[ -s $work/all.json ]] || fail "no JSON"

expect 0 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 3 --compare none,q8,q4 --max-relerr 0.5
[[ $(rows) -eq 3 ]] || fail "$(rows) rows instead of 3"
expect 1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 --codec q4 --max-relerr 1e-9
says "FAILED"
# What is wrong with an option is said of the option.
expect 1 "$PROGRAM" --ranks 2 -b 4K -e 4K --codec q9
says ': --codec q9: unknown codec "q9"'
expect 1 "$PROGRAM" --ranks 2 -b 4K -e 4K --compare q4,q9@ring
says ': --compare q9: unknown codec "q9"'

# The first call of auto is exact: the error beside the codec is that of the calls that were timed.
expect 1 env RINGPRESS_DETERMINISTIC=1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 5 --host-per-rank --max-relerr 1e-6
says "  q4"
says "FAILED"
expect 0 env RINGPRESS_DETERMINISTIC=1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 5 --host-per-rank --max-relerr 0.5
expect 2 "$PROGRAM" --ranks 2 -b 1M -e 1M -c 0 --max-relerr 0.5
# Of each codec that automatic mode tries a call is looked at, and all of them are named.
expect 1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 60 -w 0 --host-per-rank --placement out-of-place --max-relerr 1e-6
says "(also "
# A calibration that falls into a timed call is in no ratio: calls are exact or smaller.
expect 0 env RINGPRESS_CACHE=off "$PROGRAM" --ranks 2 -b 64K -e 64K -n 60 -w 0 --host-per-rank \
  -J "$work/auto.json"
python3 -B - "$work/auto.json" <<'PYTHON' || fail "a ratio with a calibration in it"
import json, sys
row = json.load(open(sys.argv[1], encoding="utf-8"))["results"][0]["ringpress"]
print(row["codecs"], row["ratio"])
sys.exit(not 0.95 < row["ratio"] < 10)
PYTHON
# 0 is a limit as well, and of several cycles each one counts.
expect 1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 --codec q4 --max-relerr 0
expect 0 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 --codec none --max-relerr 0
expect 1 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 -N 3 --codec q4 --max-relerr 1e-9
says "# Out of bounds values : 0 OK"
says "# Failed rows          : 3 FAILED (3 with an error above --max-relerr)"

# The mean of several calls: error feedback makes up for what a single one loses. And the page of all that.
expect 0 "$PROGRAM" --ranks 2 -b 256K -e 1M -f 4 -n 2 --compare none,q4 --mean-of 16 -J "$work/mean.json" --plot "$work/page.html"
says "relerr of the mean"
python3 -B - "$work/mean.json" <<'PYTHON' || fail "the error of the mean"
import json, sys
rows = [row["ringpress"] for row in json.load(open(sys.argv[1], encoding="utf-8"))["results"]]
print([(row["setting"], row["relerr"], row["mean_relerr"]) for row in rows])
sys.exit(not all(row["mean_relerr"] < (1e-6 if row["setting"] == "none" else 0.3 * row["relerr"]) for row in rows))
PYTHON
for part in "Speed-up against size" "error of the mean of 16 calls" "ranks agree"; do
  grep -q "$part" "$work/page.html" || fail "no \"$part\" on the page"
done
expect 0 "$PROGRAM" --ranks 2 -b 4K -e 4K -n 2 --plot "$work/alone.html"
[[ -s $work/alone.html ]] || fail "no page without -J"
expect 1 "$PROGRAM" --ranks 2 -b 4K -e 4K -n 2 --plot "$work/no/page.html"
says "page.html: cannot be written"
expect 2 "$PROGRAM" --ranks 2 -b 4K -e 4K --mean-of 4 -c 0
expect 2 "$PROGRAM" --ranks 2 -b 4K -e 4K --mean-of 4 --placement in-place

# Calls that go by another codec, or algorithm, than they were to.
expect 0 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 -c 0 --compare none@ring,q4@sra,auto --require-codec
expect 0 "$PROGRAM" --ranks 2 -b 1M -e 1M -n 2 -c 0 --compare q4,q4:block=128,q4:grid=lloyd,rotate=1 --require-codec
expect 1 "$PROGRAM" --ranks 2 -b 4K -e 4K -n 2 -c 0 --codec q4 --require-codec
says "# Out of bounds values : 0 OK"
says "# Failed rows          : 1 FAILED (1 by another codec or algorithm than --require-codec lets pass)"
expect 1 env NCCL_TESTS_MIN_BW=lots "$PROGRAM" --ranks 2 -b 4K -e 4K -n 2
says "NCCL_TESTS_MIN_BW=lots is no number"

# What would measure nothing, or not what it says, is refused before anything is measured.
for arguments in "-i 0" "-f 0" "-f -1" "-n 0" "--max-relerr nan" "--require-codec" "--compare q4@" "--output_file="; do
  # shellcheck disable=SC2086
  expect 2 "$PROGRAM" --ranks 2 -b 4K -e 8K $arguments
done
expect 2 "$PROGRAM" --ranks 2 -n 0
says "0 is no number from 1 on"
expect 1 "$PROGRAM" --ranks 2 -b 4K -e 4K -J "$work/none/x"
says "x: cannot be written"
grep -q ' sum ' "$work/out" && fail "measured first"

# What is summed in place grows, and error feedback must not carry that into the error.
for codec in q4 q8; do
  expect 0 "$PROGRAM" --ranks 2 --codec "$codec" --placement in-place -b 256K -e 256K -n 300 --max-relerr 0.5
done

expect 0 "$PROGRAM" --ranks 4 -n 2 --input "$SOURCE/tests/data/conv_step400_rank%d.npy" --codec q8
says "561832"
expect 1 "$PROGRAM" --ranks 5 -n 2 --input "$SOURCE/tests/data/conv_step400_rank%d.npy"
says "conv_step400_rank4.npy: No such file"

expect 1 "$PROGRAM" --ranks 2 -b 1M -e 1M --codec q44
says "q44"
expect 2 "$PROGRAM" --ranks 2 -d flaot
expect 0 env RANK=0 WORLD_SIZE=1 "$PROGRAM" -b 4K -e 4K -n 2

# More than 16 ranks add small tensors by doubling: with a rank that has a neighbour do so for it, by
# shared memory that is read in place, and by TCP.
for memory in 1 0; do
  expect 0 env RINGPRESS_SHM="$memory" RINGPRESS_CODEC=none "$PROGRAM" --ranks 17 -b 8 -e 40K -f 17 -n 5 -d float
  says "# Out of bounds values : 0 OK"
done

# The id through a file, one process per rank by hand.
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 "$PROGRAM" --id-file "$work/id" -b 4K -e 4K -n 2 >"$work/rank$rank" 2>&1 &
  pids[rank]=$!
done
for rank in 0 1; do wait "${pids[rank]}" || { fail "--id-file, rank $rank"; cat "$work/rank$rank"; }; done

# Ranks that look for rank 0 before it listens, where connections have so few ports to begin at that
# one mostly gets the very port that it is for, and is then connected to itself. torchrun's ranks meet
# elsewhere; at a port that was given they see it. Needs a network namespace of its own, with as many
# ports as the communicators take.
meet_late() {
  ip link set lo up && echo "40000 40047" >/proc/sys/net/ipv4/ip_local_port_range || return 77
  local rank late=()
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
  for rank in 1 0; do
    RANK=$rank timeout 60 "$PROGRAM" -b 4K -e 4K -n 2 &
    late+=($!)
    sleep 1
  done
  wait "${late[0]}" && wait "${late[1]}"
}
export -f meet_late
export PROGRAM
isolated=(unshare -n)
[[ $(id -u) -eq 0 ]] || isolated=(unshare -Urn)
if "${isolated[@]}" true 2>/dev/null; then
  for variables in MASTER_PORT=40004 "MASTER_PORT=40003 TORCHELASTIC_RUN_ID=none"; do
    status=0
    "${isolated[@]}" env $variables bash -c meet_late >"$work/out" 2>&1 || status=$?
    [[ $status -eq 0 || $status -eq 77 ]] || { fail "a late rank 0 ($variables)"; cat "$work/out"; }
  done
else
  echo "no network namespaces here: nothing of late ranks"
fi

# A killed rank ends all of them.
"$PROGRAM" --ranks 3 -b 1M -e 1M -N 0 -c 0 >"$work/out" 2>&1 &
parent=$!
victim=''
for ((attempt = 0; attempt < 200; ++attempt)); do
  victim=$(pgrep -P "$parent" -f -- '--local-rank=1' || true)
  [[ -n $victim ]] && grep -q '^ ' "$work/out" && break
  sleep 0.05
done
kill -KILL "$victim"
status=0
wait "$parent" || status=$?
[[ $status -ne 0 ]] || fail "a killed rank went unnoticed"
says "rank 1"

[[ $failures -eq 0 ]] && echo "all right"
exit "$((failures > 0))"
