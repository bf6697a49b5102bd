#!/usr/bin/env bash
# Predicted beside measured step times, of five jobs over shaped links: perf/results/step_times.txt.
#
# The jobs are those of perf/jobs/. Their tensors are cut down by a factor, so that a link of 1 Gb/s
# has about as much to do beside the compute as theirs had; times of compute are theirs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

replay() {  # replay RANKS JOB FACTOR [OPTION...]
  perf/shaped.sh --ranks "$1" --rate 1gbit --pin -- \
    build/perf/step_perf "perf/jobs/$2.json" --sizes "$3" "${@:4}"
}

echo "perf/step_times.sh    ($(date -u +%F), $(nproc) cores, links of 1 Gb/s)"
echo
for job in lstm vgg16 gpt2 bert_base; do replay 2 "$job" 0.25 --automatic; done
replay 2 resnet101 0.5 --automatic
for job in lstm gpt2; do replay 4 "$job" 0.1; done
