#!/usr/bin/env bash
# Training by gossip, all tasks and numbers of workers: perf/results/gossip-TASK-nN.json, and the tables
# of tasks as one Markdown text on standard output. Lazy all-reduces (RINGPRESS_LAZY=4) are among the methods.
# Takes a quarter of an hour.
#   bash perf/train/gossip.sh [PYTHON]     with PyTorch and scikit-learn; default: /usr/bin/python3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly PYTHON=${1:-/usr/bin/python3}

run() {  # run TASK RANKS OPTION...
  local task=$1 ranks=$2 folder
  shift 2
  folder=$(mktemp -d)
  printf '\n%s, %s workers\n\n' "$task" "$ranks"
  RINGPRESS_CODEC=none perf/shaped.sh --ranks "$ranks" --rate 10mbit -- "$PYTHON" perf/train/gossip.py \
    --folder "$folder" --task "$task" --json "perf/results/gossip-$task-n$ranks.json" "$@"
  rm -rf "$folder"
}

for ranks in 4 8; do
  run digits "$ranks" --steps 600 --theta 0.03 0.05
  run text "$ranks" --steps 600 --theta 0.05 0.08 --hidden 32
  run uneven "$ranks" --steps 500 --theta 0.03 --t-max 0
done
