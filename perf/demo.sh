#!/usr/bin/env bash
# The main job on a fresh machine: installs what is missing, builds, all-reduces real gradients on 4
# ranks over 1 Gb/s links, compressed and not, prints the table and writes a page, perf/out/demo.html.
#
# 1. Packages (apt-get; only those that are missing).
# 2. Build into build/.
# 3. Gradients of one step of two models (tests/data) as they are: 0.6 and 3.3 MB a rank.
# 4. The same gradients joined and repeated to 100 MB a rank, a realistic size.
# 5. Table, perf/out/demo.json, and the page of `ringpress report`.
# Some 12 minutes on 2 cores: 2 minutes once it is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGES=(g++ cmake ninja-build pkg-config python3 iproute2 util-linux
  libhwy-dev libisal-dev librandom123-dev libxxhash-dev libsodium-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev)
readonly SETTINGS=none,auto,fp16,q8,q4,q2
readonly RANKS=4 RATE=1gbit
readonly LARGE_BYTES=100000000
readonly OUT=perf/out
readonly CONV='tests/data/conv_step400_rank%d.npy'
readonly TRANSFORMER='tests/data/transformer_step200_rank%d.npy'

usage() {
  cat <<'TEXT'
usage: perf/demo.sh [--no-install]
  --no-install  use what is installed
TEXT
}

install=1
for argument in "$@"; do
  case $argument in
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS" >&2; }

install_packages() {
  local missing=() package as_root=()
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then echo "nothing is missing" >&2; return; fi
  echo "installing ${missing[*]}" >&2
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Shows ninja's "[done/all]" lines as a bar on a terminal, as a line every tenth elsewhere, and keeps
# everything for the case that the build fails.
show_build_progress() {
  local line log=$1 done all tenth last=-1 bar
  while IFS= read -r line; do
    echo "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    tenth=$((10 * done / all))
    if [[ -t 2 ]]; then
      printf -v bar '%*s' $((2 * tenth)) ''
      printf '\r[%-20s] %d/%d' "${bar// /#}" "$done" "$all" >&2
    elif [[ $tenth -ne $last ]]; then
      echo "built $done of $all" >&2
    fi
    last=$tenth
  done
  if [[ -t 2 ]]; then echo >&2; fi
}

build() {
  local log launcher=()
  log=$(mktemp)
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  # A tree that was configured with tests keeps them.
  if [[ ! -e build/CMakeCache.txt ]]; then
    cmake -S . -B build -G Ninja -DRINGPRESS_TESTS=OFF "${launcher[@]}" >"$log"
  fi
  if ! cmake --build build --target all_reduce_perf ringpress_command ringpress_pace -j "$(nproc)" 2>&1 |
    show_build_progress "$log"; then
    cat "$log" >&2
    exit 1
  fi
  rm -f "$log"
}

# measure NAME WARM_UP ITERATIONS MEAN_OF ARGUMENT...: so many calls until automatic mode has tried what pays, timed, and
# in a mean.
measure() {
  local name=$1 warm_up=$2 iterations=$3 mean_of=$4
  shift 4
  RINGPRESS_TIMEOUT_MS=60000 RINGPRESS_STATS="$OUT/$name.stats" perf/shaped.sh --ranks "$RANKS" --rate "$RATE" -- \
    build/perf/all_reduce_perf --compare "$SETTINGS" --placement out-of-place -w "$warm_up" -n "$iterations" \
    --mean-of "$mean_of" --require-codec --progress -J "$OUT/$name.json" "$@" >"$OUT/$name.txt"
}

if [[ $install -eq 1 ]]; then
  step "packages"
  install_packages
fi
step "build"
build
mkdir -p "$OUT"
rm -f "$OUT"/*.stats
step "convolution net, one step, 4 ranks over $RATE links"
measure conv 250 20 8 --input "$CONV"
step "transformer, one step"
measure transformer 250 20 8 --input "$TRANSFORMER"
step "both, repeated to 100 MB a rank"
measure large 4 5 8 --input "$CONV" --input "$TRANSFORMER" -b "$LARGE_BYTES" -e "$LARGE_BYTES"
step "report"
python3 -B perf/demo/report.py --rate "$RATE" --json "$OUT/demo.json" \
  "convolution net as it is=$OUT/conv.json" "transformer as it is=$OUT/transformer.json" \
  "both, repeated=$OUT/large.json"
build/perf/ringpress report -o "$OUT/demo.html" "$OUT"/{conv,transformer,large}.{json,stats} >"$OUT/report.txt"
cat <<TEXT

The page with pictures, and with what was compressed and what not: $OUT/demo.html ($SECONDS s in all)

Next, a program of your own. Without a GPU: build/perf/ringpress run --door C --report job -- PROGRAM
and then: build/perf/ringpress report job. With GPUs: README.md, "Quick start".
TEXT
