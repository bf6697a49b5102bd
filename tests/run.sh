#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that this machine can run.
#
# 1. Packages (apt-get; only those that are missing).
# 2. The style of code (tests/style.sh): clang-format on all files, clang-tidy on what has changed.
# 3. ASan + UBSan build and suite in build-asan/, TSan build and suite in build-tsan/.
# 4. Normal build in build/; each fuzz target for RINGPRESS_FUZZ_SECONDS (30).
# 5. The whole suite; its summary is the last output.
# Everything is run even when a stage fails; the exit status is 0 only if all stages passed. What a
# stage printed is kept in build-logs/; what made it fail is repeated before the last suite.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

readonly PACKAGES=(
  g++ cmake ninja-build dpkg-dev ccache pkg-config clang clang-format clang-tidy libclang-rt-14-dev lld python3 binutils
  libhwy-dev libisal-dev librandom123-dev libxxhash-dev libsodium-dev
  libgtest-dev librapidcheck-dev libcli11-dev nlohmann-json3-dev libfmt-dev libbenchmark-dev
  libzstd-dev coinor-libclp-dev python3-matplotlib
  iproute2 util-linux procps
)
readonly BY_CLANG=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
readonly FUZZ_SECONDS=${RINGPRESS_FUZZ_SECONDS:-30}
JOBS=$(nproc)
readonly JOBS

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--quick] [--no-install]
  --quick       style, the normal build and its suite only: no sanitizers, no fuzzing
  --no-install  use what is installed
TEXT
}

quick=0 install=1
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

readonly LOGS=build-logs
report=() failures=() failed=0

# Seconds of processors that all commands so far have taken.
processor_seconds() {
  local fields
  read -r -a fields </proc/$$/stat
  echo $(((fields[15] + fields[16]) / $(getconf CLK_TCK)))
}

# stage NAME COMMAND...: runs a command, notes its time and whether it passed.
stage() {
  local name=$1 begin=$SECONDS status=0 taken
  taken=$(processor_seconds)
  local log="$LOGS/${name// /-}.log"
  shift
  mkdir -p "$LOGS"
  printf '\n==== %s\n' "$name"
  "$@" 2>&1 | tee "$log" || status=$?
  local result=passed
  if [[ $status -ne 0 ]]; then result="FAILED ($status)" failed=1 failures+=("$log"); fi
  report+=("$(printf '%-28s %5d s, %5d s of processors  %s' "$name" $((SECONDS - begin)) \
    $(($(processor_seconds) - taken)) "$result")")
  printf '==== %s: %s after %d s\n' "$name" "$result" $((SECONDS - begin))
  return "$status"
}

install_packages() {
  local missing=() package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then echo "all packages are installed"; return 0; fi
  local as_root=()
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# build DIR TARGET CMAKE_ARGUMENT...
build() {
  local directory=$1 target=$2
  shift 2
  # lld links programs in a third of the time; the libraries are linked as users link them.
  # --fresh: where another compiler was used, CMake would begin anew without the other settings.
  cmake --fresh -S . -B "$directory" -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld \
    -DRINGPRESS_TESTS=ON -DRINGPRESS_WERROR=ON "$@" >/dev/null &&
    cmake --build "$directory" --target "$target" -j "$JOBS"
}

# What a test printed that has found a fault, whatever it prints when it is repeated: it hung, it
# crashed, or a sanitizer spoke.
readonly NEVER_BY_CHANCE='\*\*\*(Timeout|Exception)|ERROR: [A-Za-z]*Sanitizer|WARNING: ThreadSanitizer|: runtime error: '

# suite DIR CTEST_ARGUMENT...: a test that fails is repeated once. The machine has other work, and one test in
# thousands may miss what it waits for. Such a test is named, so that somebody mends it.
suite() {
  local directory=$1 status=0
  local log=$LOGS/$1-suite.log
  shift
  mkdir -p "$LOGS"
  # Many tests wait more than they compute. Those that pass are only counted.
  ctest --test-dir "$directory" -j $((2 * JOBS)) --output-on-failure --timeout 300 --repeat until-pass:2 "$@" |
    { grep --line-buffered -vE '^ +Start +[0-9]+: | Passed +[0-9.]+ sec' || true; } | tee "$log" || status=$?
  if grep -qE "$NEVER_BY_CHANCE" "$log"; then status=1; fi
  if grep -qE '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log"; then
    printf '\nTests that failed, once at least:\n'
    grep -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log"
    sed -n '/tests passed, /,$p' "$log"
  fi
  return "$status"
}

# sanitized NAME SANITIZERS DIRECTORY LABEL: without the tests of that label, which tests/CMakeLists.txt explains.
# By clang, which compiles what is sanitized in about half the time that gcc takes. The layout of the tree does
# not depend on a sanitizer.
sanitized() {
  local name=$1 sanitizers=$2 directory=$3 label=$4
  stage "$name build" build "$directory" all "${BY_CLANG[@]}" \
    -DRINGPRESS_SANITIZE="$sanitizers" -DRINGPRESS_PERF=OFF &&
    stage "$name suite" suite "$directory" --no-tests=error -LE "^(layout|$label)\$"
}

# fuzz_target PATH: its output goes to PATH.log, which is shown only when it fails.
fuzz_target() {
  local target=$1 status=0 corpus
  corpus=$(mktemp -d)
  "$target" -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix=build-fuzz/ "$corpus" >"$target.log" 2>&1 || status=$?
  rm -rf "$corpus"
  [[ $status -eq 0 ]] || cat "$target.log"
  return "$status"
}

# All targets at the same time: they are few.
fuzz_targets() {
  local target status=0 started=()
  for target in build-fuzz/fuzz/*_fuzz; do
    [[ -x $target ]] || continue
    fuzz_target "$target" &
    started+=($!)
    echo "$target"
  done
  if [[ ${#started[@]} -eq 0 ]]; then echo "no fuzz target was built"; return 1; fi
  for target in "${started[@]}"; do wait "$target" || status=1; done
  return "$status"
}

fuzz() {
  stage "fuzzers build" build build-fuzz fuzzers "${BY_CLANG[@]}" -DRINGPRESS_PERF=OFF -DCMAKE_UNITY_BUILD=OFF &&
    stage "fuzzing" fuzz_targets
}

# The end of what a stage printed, without the lines that only say what was done.
failure_of() {
  printf '\n==== %s, the end of it\n' "$1"
  grep -vE '^\[[0-9]+/[0-9]+\] ' "$1" | tail -n 60
}

finish() {
  local log
  for log in "${failures[@]}"; do failure_of "$log"; done
  printf '\n==== stages\n'
  printf '%s\n' "${report[@]}"
  printf '%-28s %5d s\n\n' total "$SECONDS"
}

[[ $install -eq 0 ]] || stage packages install_packages || exit 1
# What ninja has compilers write tells ccache which headers a source has; else it would have each source
# preprocessed before it is compiled.
export CCACHE_DEPEND=${CCACHE_DEPEND:-1}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
stage style tests/style.sh
if [[ $quick -eq 0 ]]; then
  sanitized "ASan+UBSan" address,undefined build-asan not_asan
  sanitized "TSan" thread build-tsan not_tsan
  fuzz
fi
# As users build it, several sources at a time. Those of codecs and the transport were compiled one by one for the
# fuzzers.
stage "normal build" build build all -DRINGPRESS_PERF=ON || { finish; exit 1; }
finish
suite build --no-tests=error || failed=1
exit "$failed"
