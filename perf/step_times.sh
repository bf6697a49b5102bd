#!/usr/bin/env bash
# Predicted beside measured step times, of five jobs over shaped links: perf/results/step_times.txt.
#
#   perf/step_times.sh            two ranks, and four, behind links of 1 Gb/s
#   perf/step_times.sh automatic  what automatic mode comes to beside them: perf/results/step_automatic.txt
#   perf/step_times.sh limits     where predictions are less good: perf/results/step_limits.txt
#
# The jobs are those of perf/jobs/. Their tensors are cut down by a factor, so that a link of 1 Gb/s
# has about as much to do beside the compute as theirs had; times of compute are theirs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Until codecs and chunks are settled, a plan is found and its first steps are judged.
readonly STEPS_TO_SETTLE=400

# replay "SHAPING..." JOB FACTOR [OPTION...]
replay() {
  local -a shaping
  read -ra shaping <<< "$1"
  echo "$1, $2"
  perf/shaped.sh "${shaping[@]}" --pin -- build/perf/step_perf "perf/jobs/$2.json" --sizes "$3" "${@:4}"
}

five_jobs() {
  for job in lstm vgg16 gpt2 bert_base; do replay "--ranks 2 --rate 1gbit" "$job" 0.25 "$@"; done
  replay "--ranks 2 --rate 1gbit" resnet101 0.5 "$@"
}

limits() {
  for job in lstm gpt2; do replay "--ranks 2 --rate 10gbit" "$job" 1; done
  for job in lstm gpt2; do replay "--ranks 4 --rate 1gbit --burst 96kb" "$job" 0.1; done
}

echo "perf/step_times.sh $*    ($(date -u +%F), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) before)"
echo
case ${1:-} in
  '')
    five_jobs
    for job in lstm gpt2; do replay "--ranks 4 --rate 1gbit" "$job" 0.1; done ;;
  automatic) five_jobs --automatic "$STEPS_TO_SETTLE" ;;
  limits) limits ;;
  *) echo "step_times.sh: $1 is none of automatic, limits" >&2; exit 2 ;;
esac
