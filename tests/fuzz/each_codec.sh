#!/usr/bin/env bash
# Fuzzes the decoders of each codec by itself, with ASan and UBSan, and prints a line for each:
#
#   tests/fuzz/each_codec.sh [SECONDS=60] [CODEC...]
#
# Needs clang. tests/run.sh fuzzes all codecs together, for half a minute. With 60 SECONDS
# for each and two at a time, all of them take ten minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_EACH=${1:-60}
shift || true
codecs=("$@")
if [[ ${#codecs[@]} -eq 0 ]]; then
  mapfile -t codecs < <(sed -n 's/^RINGPRESS_CODEC(\([^,]*\),.*/\1/p' compress_kernels/codecs.inc)
fi

cmake -S . -B build-fuzz -G Ninja -DRINGPRESS_TESTS=ON -DRINGPRESS_PERF=OFF \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null &&
  cmake --build build-fuzz --target codec_fuzz -j "$(nproc)" >/dev/null || exit 1

# fuzz CODEC: one line, and exit status 1 if something was found.
fuzz() {
  local codec=$1 folder log status=0
  folder=$(mktemp -d)
  log=$folder/log
  mkdir "$folder/corpus"
  RINGPRESS_FUZZ_CODEC=$codec build-fuzz/fuzz/codec_fuzz -max_total_time="$SECONDS_EACH" -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="build-fuzz/$codec-" \
    "$folder/corpus" >"$log" 2>&1 || status=1
  printf '%-10s %10s inputs in %s s  %s\n' "$codec" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$SECONDS_EACH" \
    "$([[ $status -eq 0 ]] && echo 'nothing found' || echo 'FAILED')"
  [[ $status -eq 0 ]] || tail -40 "$log" >&2
  rm -rf "$folder"
  return "$status"
}
export -f fuzz
export SECONDS_EACH
printf '%s\n' "${codecs[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
