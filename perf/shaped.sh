#!/usr/bin/env bash
# Runs a command once per rank, each rank on its own "host": a network namespace behind a
# traffic-shaped veth link to a common bridge.
#
# The namespaces have no names: they belong to the processes in them and vanish with these, also when
# this script is killed. Without root the same is done inside a user namespace; where that is not
# allowed either, ranks share the host's network and a preloaded library paces what they send.
set -euo pipefail

readonly SELF="$(readlink -f "${BASH_SOURCE[0]}")"
readonly PERF_DIR="$(dirname "$SELF")"
readonly SUBNET=10.77.0
readonly SETUP_FAILED=97
readonly SETUP_SECONDS=20
readonly GRACE_SECONDS=10

usage() {
  cat <<'TEXT'
usage: perf/shaped.sh --ranks N [options] -- COMMAND [ARGUMENT...]
  --ranks N        number of ranks, 1 to 64
  --rate R         each link's rate in both directions, as tc writes it (1gbit, 100mbit); none:
                   not shaped. Default 1gbit.
  --burst B        size of the token bucket, default 256kb
  --delay D        one-way delay added to each link, e.g. 1ms
  --congestion C   how ranks' TCP paces what it sends: one of net.ipv4.tcp_allowed_congestion_control;
                   default: as the machine's does
  --pin            rank R runs on CPU R modulo the number of CPUs
  --mode M         auto (default), root, user (user namespace) or software
  -h, --help       this text
In COMMAND, {rank} stands for the rank. The environment gets torchrun's variables: RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; and SHAPED_ADDRESSES, the addresses of all
ranks. Rank 0 writes to standard output, the others to standard error, each line with its rank.
Exit status: that of the first rank that failed.
TEXT
}

fail() { echo "shaped.sh: $*" >&2; exit 2; }

# ---- Options -------------------------------------------------------------------------------------

parse_options() {
  ranks='' rate=1gbit burst=256kb delay='' congestion='' pin=0 mode=auto
  while [[ $# -gt 0 ]]; do
    case $1 in
      --ranks | --rate | --burst | --delay | --congestion | --mode)
        [[ $# -ge 2 ]] || fail "$1 needs a value"
        printf -v "${1#--}" '%s' "$2"
        shift 2 ;;
      --pin) pin=1; shift ;;
      -h | --help) usage; exit 0 ;;
      --) shift; break ;;
      *) fail "unknown option $1 (the command comes after --)" ;;
    esac
  done
  [[ -n $ranks ]] || fail "--ranks is missing"
  [[ $ranks =~ ^[0-9]+$ && $ranks -ge 1 && $ranks -le 64 ]] ||
    fail "--ranks $ranks is not a number from 1 to 64"
  [[ $rate == none || $rate =~ ^[0-9]+(\.[0-9]+)?([kmgt]?bit|[kmgt]?bps)$ ]] ||
    fail "--rate $rate is not a rate such as 1gbit, 100mbit or none"
  [[ $burst =~ ^[0-9]+(b|kb|mb)?$ ]] || fail "--burst $burst is not a size such as 256kb"
  [[ -z $delay || $delay =~ ^[0-9]+(\.[0-9]+)?(us|ms|s)$ ]] ||
    fail "--delay $delay is not a time such as 1ms"
  [[ -z $congestion || $congestion =~ ^[a-z0-9_-]+$ ]] ||
    fail "--congestion $congestion is not a name such as cubic"
  [[ -z $congestion ]] || grep -qw -- "$congestion" /proc/sys/net/ipv4/tcp_allowed_congestion_control ||
    fail "--congestion $congestion is not among net.ipv4.tcp_allowed_congestion_control"
  [[ $mode =~ ^(auto|root|user|software)$ ]] ||
    fail "--mode $mode is not auto, root, user or software"
  [[ $# -gt 0 ]] || fail "no command after --"
  command_words=("$@")
}

addresses() {
  local rank list=''
  for ((rank = 0; rank < ranks; ++rank)); do list+="${list:+,}$SUBNET.$((rank + 1))"; done
  echo "$list"
}

# ---- A rank, in its namespace or on the host -----------------------------------------------------

# Ends this shell with the command of rank $1 and its exit status.
become_command() {
  local rank=$1 word words=() status=0 prefixer child
  for word in "${command_words[@]}"; do words+=("${word//\{rank\}/$rank}"); done
  if [[ $pin == 1 ]]; then words=(taskset -c "$((rank % $(nproc)))" "${words[@]}"); fi
  export RANK=$rank WORLD_SIZE=$ranks
  unset shaped_ranks shaped_rate shaped_burst shaped_delay shaped_congestion shaped_pin shaped_command \
    ready start
  if [[ $rank -eq 0 ]]; then exec "${words[@]}" </dev/null; fi
  exec {prefixed}> >(LD_PRELOAD='' exec sed -u "s/^/[rank $rank] /" >&2)
  prefixer=$!
  "${words[@]}" </dev/null >&"$prefixed" 2>&1 {prefixed}>&- &
  child=$!
  trap 'kill "$child" 2>/dev/null' TERM
  wait "$child" || status=$?
  exec {prefixed}>&-
  wait "$prefixer" || true
  exit "$status"
}

shape() {  # shape DEVICE: limits what leaves it
  [[ $rate == none ]] || tc qdisc add dev "$1" root handle 1: tbf \
    rate "$rate" burst "$burst" latency 50ms
}

hardware_address() { printf '02:00:00:00:00:%02x' "$1"; }  # of a rank's eth0

# All namespaces share the kernel's table of neighbours, whose 1024 entries N (N - 1) of them fill from
# 33 ranks on, and a connection then never opens. Permanent ones do not count.
add_neighbours() {  # add_neighbours RANK
  local peer
  for ((peer = 0; peer < ranks; ++peer)); do
    [[ $peer -eq $1 ]] ||
      echo "neighbour add $SUBNET.$((peer + 1)) lladdr $(hardware_address "$peer") dev eth0 nud permanent"
  done | ip -batch -
}

# Runs inside the rank's network namespace, with the hub's pipes open.
rank_main() {
  local rank=$1
  echo in >&"$ready"
  read -r -t "$SETUP_SECONDS" -u "$start"
  hostname "rank$rank"
  ip link set lo up
  ip address add "$SUBNET.$((rank + 1))/16" dev eth0
  ip link set eth0 up
  add_neighbours "$rank"
  shape eth0
  [[ -z $congestion ]] || echo "$congestion" >/proc/sys/net/ipv4/tcp_congestion_control
  if [[ -n $delay && $rate == none ]]; then
    tc qdisc add dev eth0 root netem delay "$delay" limit 100000
  elif [[ -n $delay ]]; then
    tc qdisc add dev eth0 parent 1:1 netem delay "$delay" limit 100000
  fi
  echo up >&"$ready"
  read -r -t "$SETUP_SECONDS" -u "$start"
  exec {ready}>&- {start}<&-
  export LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$SUBNET.1 MASTER_PORT=29500
  export SHAPED_ADDRESSES=$(addresses)
  export GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0
  become_command "$rank"
}

# ---- The hub: first process of its PID namespace, holds the bridge -------------------------------

open_pipe() {  # open_pipe NAME: a pipe whose both ends are descriptor $NAME
  local path
  path=$(mktemp -u "${TMPDIR:-/tmp}/ringpress-shaped.XXXXXX")
  mkfifo "$path"
  eval "exec {$1}<>'$path'"
  rm "$path"
}

await_ranks() {  # one line from each rank
  local rank line
  for ((rank = 0; rank < ranks; ++rank)); do
    read -r -t "$SETUP_SECONDS" -u "$ready" line || exit "$SETUP_FAILED"
  done
}

release_ranks() {
  local rank
  for ((rank = 0; rank < ranks; ++rank)); do echo >&"$start"; done
}

setup_failed() { echo "shaped.sh: setting up the links failed" >&2; exit "$SETUP_FAILED"; }

forget() {  # forget PID: takes it out of pids
  local other left_pids=()
  for other in "${pids[@]}"; do [[ $other == "$1" ]] || left_pids+=("$other"); done
  pids=("${left_pids[@]}")
}

# Waits for all ranks. After a failure the others have GRACE_SECONDS to report what they saw.
await_commands() {
  local status=0 code left=$ranks pid
  while ((left > 0)); do
    code=0
    wait -n -p pid "${pids[@]}" || code=$?
    [[ -n ${pid:-} ]] || break
    [[ $pid == "${watchdog:-}" ]] && break
    left=$((left - 1))
    forget "$pid"
    if [[ $code -ne 0 && $status -eq 0 ]]; then
      status=$code
      sleep "$GRACE_SECONDS" &
      watchdog=$!
      pids+=("$watchdog")
    fi
  done
  return "$status"
}

hub_main() {
  local rank
  trap setup_failed ERR
  open_pipe ready
  open_pipe start
  export ready start
  ip link set lo up
  ip link add name hub type bridge
  ip link set hub up
  pids=()
  for ((rank = 0; rank < ranks; ++rank)); do
    unshare --net --uts "$BASH" "$SELF" __rank "$rank" &
    pids+=("$!")
  done
  await_ranks
  for ((rank = 0; rank < ranks; ++rank)); do
    echo "link add name port$rank type veth peer name eth0 address $(hardware_address "$rank")" \
      "netns ${pids[rank]}"
    echo "link set port$rank master hub up"
  done | ip -batch -
  for ((rank = 0; rank < ranks; ++rank)); do shape "port$rank"; done
  release_ranks
  await_ranks
  trap - ERR
  release_ranks
  exec {ready}>&- {start}<&-
  local status=0
  await_commands || status=$?
  [[ $status -ne "$SETUP_FAILED" ]] || status=1
  exit "$status"
}

# ---- Modes ---------------------------------------------------------------------------------------

# Runs "$@" as a child that dies with this shell, and forwards the end of this shell to it.
run_guarded() {
  local status=0
  setpriv --pdeathsig KILL "$@" &
  guarded=$!
  wait "$guarded" || status=$?
  guarded=''
  return "$status"
}

end_early() {
  [[ -z ${guarded:-} ]] || kill -KILL "$guarded" 2>/dev/null || true
  exit "$1"
}

# Prints the flags of unshare for this mode, or fails with the reason on standard error.
namespace_flags() {
  local identity=() flags
  [[ $1 == root ]] || identity=(--user --map-root-user)
  flags=("${identity[@]}" --net --uts --mount --pid --fork --kill-child --mount-proc)
  unshare "${flags[@]}" true && echo "${flags[*]}"
}

run_in_namespaces() {
  local kind=$1 flags
  [[ $kind == user || $(id -u) -eq 0 ]] || return "$SETUP_FAILED"
  command -v ip >/dev/null && command -v tc >/dev/null || {
    echo "shaped.sh: ip or tc is missing (package iproute2)" >&2
    return "$SETUP_FAILED"
  }
  flags=$(namespace_flags "$kind" 2>/dev/null) || return "$SETUP_FAILED"
  # Words of fixed flags, split on purpose.
  run_guarded unshare $flags "$BASH" "$SELF" __hub
}

bytes_per_second() {
  local number=${rate%%[a-z]*} unit=${rate##*[0-9.]} factor=1 bits=8
  case $unit in k*) factor=1000 ;; m*) factor=1000000 ;; g*) factor=1000000000 ;;
    t*) factor=1000000000000 ;; esac
  [[ $unit == *bit ]] || bits=1
  awk "BEGIN { printf \"%.0f\", $number * $factor / $bits }"
}

pace_library() {
  local built=${SHAPED_BUILD:-$PERF_DIR/../build}/perf/libringpress_pace.so
  if [[ -e $built ]]; then readlink -f "$built"; return; fi
  local made
  made=$(mktemp "${TMPDIR:-/tmp}/ringpress-pace.XXXXXX.so")
  "${CC:-cc}" -O2 -shared -fPIC -pthread -o "$made" "$PERF_DIR/pace/pace.c" -ldl && echo "$made"
}

run_paced() {
  local rank status=0
  [[ -z $congestion ]] || fail "--congestion needs network namespaces"
  [[ -z $delay ]] || fail "--delay needs network namespaces and the kernel's netem"
  echo "shaped.sh: the kernel cannot shape links here (no network namespaces for this user, or no" \
    "tbf); ranks share the machine's network and a preloaded library paces what they send to" \
    "$rate" >&2
  export LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 12000))
  export RINGPRESS_SHM=0 GLOO_SOCKET_IFNAME=lo
  export SHAPED_ADDRESSES=127.0.0.1
  if [[ $rate != none ]]; then
    pace=$(pace_library) || fail "the pacing library is neither built nor can it be compiled"
    # Before what the caller preloads: whatever that sends is paced, too.
    export PACE_BYTES_PER_SECOND=$(bytes_per_second) LD_PRELOAD=$pace${LD_PRELOAD:+:$LD_PRELOAD}
  fi
  pids=()
  for ((rank = 0; rank < ranks; ++rank)); do
    (LOCAL_RANK=$rank && export LOCAL_RANK && become_command "$rank") &
    pids+=("$!")
  done
  unset LD_PRELOAD
  trap 'kill "${pids[@]}" 2>/dev/null; exit 130' INT
  trap 'kill "${pids[@]}" 2>/dev/null; exit 143' TERM
  local started=("${pids[@]}")
  await_commands || status=$?
  kill "${started[@]}" 2>/dev/null || true
  [[ -z ${pace:-} || $pace != *ringpress-pace.* ]] || rm -f "$pace"
  return "$status"
}

# What the parts of this script that run in namespaces need to know.
export_state() {
  export shaped_ranks=$ranks shaped_rate=$rate shaped_burst=$burst shaped_delay=$delay
  export shaped_congestion=$congestion shaped_pin=$pin
  export shaped_command
  shaped_command=$(printf '%q ' "${command_words[@]}")
}

import_state() {
  ranks=$shaped_ranks rate=$shaped_rate burst=$shaped_burst delay=$shaped_delay
  congestion=$shaped_congestion pin=$shaped_pin
  eval "command_words=($shaped_command)"
}

main() {
  parse_options "$@"
  export_state
  trap 'end_early 130' INT
  trap 'end_early 143' TERM
  local kind status
  for kind in root user; do
    [[ $mode == auto || $mode == "$kind" ]] || continue
    status=0
    run_in_namespaces "$kind" || status=$?
    [[ $status -eq "$SETUP_FAILED" ]] || exit "$status"
  done
  [[ $mode == auto || $mode == software ]] || fail "--mode $mode is not possible on this machine"
  run_paced
}

case ${1:-} in
  __hub) import_state; hub_main ;;
  __rank) import_state; rank_main "$2" ;;
  *) main "$@" ;;
esac
