#!/usr/bin/env bash
# Real frameworks against door A: for the newest wheel of each that the package registry has,
#   1. downloads it (8 to 550 MB each, one at a time, 2 GB in all; needs pip and a registry);
#   2. reads from its shared objects or sources how it reaches NCCL: linked with it, opening it, or
#      with an NCCL of its own;
#   3. asks the dynamic linker where its calls go, beside NCCL's own wheel: without this library, with
#      each form of preloading, and with LD_LIBRARY_PATH. Needs no GPU.
# Then writes perf/results/frameworks.json, of which perf/readme_tables.py makes the table of nccl_plugin/preload/using.md.
# Exit status: 0, done; 1, a framework does not reach NCCL as is thought; 3, no registry is reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/frameworks.sh [--build FOLDER] [--wheels FOLDER] [--only torch,vllm]
  --build FOLDER   where the library was or will be built (build)
  --wheels FOLDER  keep the wheels there, and use what is there
  --only LIST      these packages; the result is then not written
TEXT
}

build=build arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --build) build=${2:?} && shift 2 ;;
    --wheels | --only) arguments+=("$1" "${2:?}") && shift 2 ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

if [[ ! -f $build/CMakeCache.txt ]]; then cmake -S . -B "$build" -G Ninja >/dev/null; fi
cmake --build "$build" --target ringpress_preload ringpress_preload_soname
exec python3 -B tests/nccl_plugin/preload/frameworks.py measure "$build/lib" perf/results/frameworks.json \
  "${arguments[@]}"
