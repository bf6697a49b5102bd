#!/usr/bin/env bash
# usage: tests/gpu/pack.sh [BUILD [FOLDER]]
# Gathers what run.sh needs of a build tree (default: build) in FOLDER (default: build-gpu), for a
# machine with a GPU that has neither a compiler nor this library's dependencies. There:
#   bash tests/gpu/run.sh --build build-gpu
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:-$root/build} folder=${2:-$root/build-gpu}
readonly PROGRAM=perf/all_reduce_perf_cuda PACE=perf/libringpress_pace.so
readonly PLUGIN=lib/libnccl-net-ringpress.so
# Every machine has these, and in its own version.
readonly BASE='^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)[.-]'

for file in "$PROGRAM" "$PACE" "$PLUGIN"; do
  [[ -e $build/$file ]] || { echo "pack.sh: $build/$file is missing: build it first" >&2; exit 2; }
done
mkdir -p "$folder/perf" "$folder/lib/ringpress"
for file in "$PROGRAM" "$PACE" "$PLUGIN"; do strip -g -o "$folder/$file" "$build/$file"; done
for kind in net tuner profiler env; do
  ln -sf ../libnccl-net-ringpress.so "$folder/lib/ringpress/libnccl-$kind-ringpress.so"
done
while read -r name path; do
  [[ $name =~ $BASE ]] || cp -L "$path" "$folder/lib/ringpress/$name"
done < <(ldd "$build/$PLUGIN" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }')
du -shL "$folder"
