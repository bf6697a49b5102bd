#!/usr/bin/env bash
# Starts an Open MPI program over the links of shaped.sh, where there is no ssh between "hosts".
#
# usage: shaped.sh --ranks N ... -- mpi_shaped.sh MAILBOX PROGRAM [ARGUMENT...]
# Rank 0 runs mpirun, which calls this script again as its remote shell: `mpi_shaped.sh ADDRESS
# COMMAND` puts the command into the mailbox (a folder) of the rank with that address. The other ranks
# wait for one command each, run it and leave its exit status.
set -euo pipefail

readonly POLL_SECONDS=0.02

run_mpirun() {
  local mailbox=$1
  shift
  local hosts=${SHAPED_ADDRESSES//,/:1,}:1
  # PMI variables of an outer launcher would confuse mpirun; those of shaped.sh do not.
  MPI_MAILBOX=$mailbox mpirun --allow-run-as-root --oversubscribe -np "$WORLD_SIZE" \
    --host "$hosts" --bind-to none \
    --mca plm_rsh_agent "$(readlink -f "$0")" --mca plm_rsh_no_tree_spawn 1 \
    --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    ${MPI_SHAPED_OPTIONS:-} "$@"
}

serve_one_command() {
  local command=$1/$RANK.command status=0
  while [[ ! -e $command && ! -e $1/over ]]; do sleep "$POLL_SECONDS"; done
  [[ -e $command ]] || exit 0
  bash "$command" || status=$?
  echo "$status" >"$1/$RANK.status"
  exit "$status"
}

act_as_remote_shell() {
  local address=$1 rank status
  shift
  rank=$((${address##*.} - 1))
  printf '%s\n' "$*" >"$MPI_MAILBOX/$rank.new"
  mv "$MPI_MAILBOX/$rank.new" "$MPI_MAILBOX/$rank.command"
  while [[ ! -s $MPI_MAILBOX/$rank.status ]]; do sleep "$POLL_SECONDS"; done
  status=$(<"$MPI_MAILBOX/$rank.status")
  exit "$status"
}

if [[ -n ${MPI_MAILBOX:-} ]]; then act_as_remote_shell "$@"; fi
if [[ $RANK -ne 0 ]]; then serve_one_command "$1"; fi
status=0
run_mpirun "$@" || status=$?
touch "$1/over"
exit "$status"
