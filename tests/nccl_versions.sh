#!/usr/bin/env bash
# Real NCCL binaries against this library's plugin: for the newest NCCL wheel of each minor version
# from 2.19 on that the package registry has,
#   1. downloads it (200 to 350 MB each, one at a time; needs pip and a registry);
#   2. reads which plugin tables it looks up, and asserts that the newest of each kind that this
#      library supports is exported by it;
#   3. loads the library next to it and asserts that no symbol of the one is found in the other.
# Then writes tests/nccl_versions.txt, which the regular tests check the library's exports against.
# Exit status: 0, all passed; 1, an assertion failed; 3, the registry cannot be reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/nccl_versions.sh [--build FOLDER] [--wheels FOLDER] [--only 2.28,2.30]
  --build FOLDER   where the library was or will be built (build)
  --wheels FOLDER  keep each wheel's libnccl.so.2 there, and use what is there
  --only LIST      these minor versions; the table is then not written
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
cmake --build "$build" --target ringpress_plugin
exec python3 -B tests/nccl_plugin/plugin/nccl_versions.py measure \
  "$build/lib/libnccl-net-ringpress.so" tests/nccl_versions.txt "${arguments[@]}"
