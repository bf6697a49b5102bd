#!/usr/bin/env bash
# usage: shaped_test.sh SHAPED
# Arguments, exit status, output and environment of shaped.sh; nothing is timed.
set -uo pipefail
readonly SHAPED=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

refused() {  # refused PART-OF-MESSAGE ARGUMENT...
  local message=$1 status=0
  shift
  "$SHAPED" "$@" >"$work/out" 2>"$work/error" || status=$?
  [[ $status -eq 2 ]] || fail "status $status instead of 2: shaped.sh $*"
  grep -q -- "$message" "$work/error" || { fail "no \"$message\":"; cat "$work/error"; }
}

refused "--ranks is missing" -- true
refused "--ranks 0" --ranks 0 -- true
refused "--ranks 65" --ranks 65 -- true
refused "--ranks two" --ranks two -- true
refused "--rate fast" --ranks 2 --rate fast -- true
refused "--burst big" --ranks 2 --burst big -- true
refused "--delay long" --ranks 2 --delay long -- true
refused "--congestion a/b" --ranks 2 --congestion a/b -- true
refused "is not among net.ipv4" --ranks 2 --congestion magic -- true
refused "--mode magic" --ranks 2 --mode magic -- true
refused "no command" --ranks 2
refused "unknown option" --ranks 2 true
refused "needs a value" --ranks

run() {  # run WANTED-STATUS ARGUMENT...
  local wanted=$1 status=0
  shift
  "$SHAPED" "$@" >"$work/out" 2>"$work/error" || status=$?
  [[ $status -eq $wanted ]] || { fail "status $status, not $wanted: $*"; cat "$work/error"; }
}

# Every system has and allows it. Where there are no namespaces, that is said.
"$SHAPED" --ranks 2 --rate none --congestion reno -- cat /proc/sys/net/ipv4/tcp_congestion_control \
  >"$work/out" 2>"$work/error"
grep -qx reno "$work/out" || grep -q "needs network namespaces" "$work/error" || fail "not paced by reno"

for mode in auto software; do
  run 0 --mode "$mode" --ranks 3 -- bash -c 'echo "rank {rank} is $RANK of $WORLD_SIZE"'
  [[ $(cat "$work/out") == "rank 0 is 0 of 3" ]] || fail "$mode: output of rank 0"
  for rank in 1 2; do
    grep -qx "\[rank $rank\] rank $rank is $rank of 3" "$work/error" || fail "$mode: rank $rank"
  done
  run 7 --mode "$mode" --ranks 2 --rate none -- bash -c 'exit $((RANK * 7))'
  run 0 --mode "$mode" --ranks 2 -- bash -c '[ -n "$MASTER_ADDR" ] && [ -n "$MASTER_PORT" ]'
  # Words with blanks and quotes arrive as they are.
  run 0 --mode "$mode" --ranks 1 -- printf '%s|' "a b" "c'd" '$e'
  [[ $(cat "$work/out") == "a b|c'd|\$e|" ]] || fail "$mode: words became $(cat "$work/out")"
done

# So many that one's process number begins with another's, and that all of them know all others.
run 0 --ranks 64 --rate none -- bash -c '
  for peer in ${SHAPED_ADDRESSES//,/ }; do echo >"/dev/udp/$peer/9" || exit 3; done'
[[ ! -s $work/error ]] || grep -q "cannot shape links" "$work/error" || { fail "64 ranks"; head -5 "$work/error"; }

# What the caller preloads stays so.
for mode in auto software; do
  LD_PRELOAD=libm.so.6 run 0 --mode "$mode" --ranks 1 -- bash -c 'grep -q /libm /proc/self/maps'
done

# Ranks end with the script.
"$SHAPED" --ranks 2 -- bash -c 'echo $$ >"$0.$RANK"; exec -a shaped_test_sleeper sleep 300' \
  "$work/alive" >/dev/null 2>&1 &
script=$!
for ((attempt = 0; attempt < 100; ++attempt)); do
  [[ -e $work/alive.0 && -e $work/alive.1 ]] && break
  sleep 0.1
done
kill -TERM "$script"
wait "$script"
[[ $? -eq 143 ]] || fail "status after TERM"
for ((attempt = 0; attempt < 50; ++attempt)); do
  pgrep -f shaped_test_sleeper >/dev/null || break
  sleep 0.1
done
pgrep -f shaped_test_sleeper >/dev/null && fail "a rank outlived the script"

[[ $failures -eq 0 ]] && echo "all right"
exit "$((failures > 0))"
