#!/usr/bin/env bash
# Training by gossip, all tasks and numbers of workers: traffic and time over links of 10 Mb/s in
# perf/results/gossip-TASK-nN.json, accuracies of five trainings each over links that are not limited in
# perf/results/gossip-accuracy-TASK-nN.json, and the tables as one Markdown text on standard output. Lazy
# all-reduces (RINGPRESS_LAZY=2 and 4) are among the methods. perf/results/periods-text-nN.json: fixed periods
# of as many exchanges as those by change with a codec, with that codec. Takes three quarters of an hour.
#   bash perf/train/gossip.sh [PYTHON]     with PyTorch and scikit-learn; default: /usr/bin/python3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly PYTHON=${1:-/usr/bin/python3}

run() {  # run NAME RATE TASK RANKS OPTION...
  local name=$1 rate=$2 task=$3 ranks=$4 folder
  shift 4
  folder=$(mktemp -d)
  printf '\n%s, %s workers, %s\n\n' "$task" "$ranks" "$rate"
  RINGPRESS_CODEC=none perf/shaped.sh --ranks "$ranks" --rate "$rate" -- "$PYTHON" perf/train/gossip.py \
    --folder "$folder" --task "$task" --link "$rate" --json "perf/results/$name-$task-n$ranks.json" "$@"
  rm -rf "$folder"
}

compare() {  # compare TASK RANKS OPTION...
  run gossip 10mbit "$@"
  run gossip-accuracy none "$@" --seeds 5
}

for ranks in 4 8; do
  compare digits "$ranks" --steps 600 --theta 0.03 0.05
  compare text "$ranks" --steps 600 --theta 0.05 0.08 --hidden 32
  compare uneven "$ranks" --steps 500 --theta 0.03 --t-max 0
done

periods() {  # periods RANKS PERIOD...
  local ranks=$1
  shift
  run periods none text "$ranks" --steps 600 --hidden 32 --theta --lazy --periods "$@" --seeds 5
}

periods 4 10 18
periods 8 9 14
