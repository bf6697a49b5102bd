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
readonly KERNELS=lib/device_kernels CUDA=lib/libringpress-cuda.so
readonly ENGINE=lib/libringpress.so.0 SHIM=lib/libringpress-preload.so CLIENT=perf/stream_client
readonly CODECS=perf/codec_perf_cuda
# Every machine has these, and in its own version.
readonly BASE='^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)[.-]'

for file in "$PROGRAM" "$PACE" "$PLUGIN"; do
  [[ -e $build/$file ]] || { echo "pack.sh: $build/$file is missing: build it first" >&2; exit 2; }
done
# Kernels of another build are refused there, where it costs time on the GPU.
if [[ -e $build/$KERNELS && -e $build/$CUDA ]] &&
   "$build/$KERNELS" check 1 1 2>&1 | grep -q "is of another build"; then
  echo "pack.sh: $CUDA is of another build than $KERNELS: build both again" >&2
  exit 2
fi
mkdir -p "$folder/perf" "$folder/lib/ringpress"
# Of the kernels and of door A: run.sh names what is missing there.
files=("$PROGRAM" "$PACE" "$PLUGIN")
libraries=("./$PLUGIN")
for file in "$KERNELS" "$CUDA" "$ENGINE" "$SHIM" "$CLIENT" "$CODECS"; do
  if [[ -e $build/$file ]]; then files+=("$file"); else echo "pack.sh: without $file" >&2; fi
done
for file in "$KERNELS" "$ENGINE" "$CODECS"; do
  if [[ -e $build/$file ]]; then libraries+=("./$file"); fi
done
for file in "${files[@]}"; do strip -g -o "$folder/$file" "$build/$file"; done
for kind in net tuner profiler env; do
  ln -sf ../libnccl-net-ringpress.so "$folder/lib/ringpress/libnccl-$kind-ringpress.so"
done
while read -r name path; do
  [[ $name =~ $BASE ]] || cp -L "$path" "$folder/lib/ringpress/$name"
done < <(cd "$build" && ldd "${libraries[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }')
du -shL "$folder"
