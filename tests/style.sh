#!/usr/bin/env bash
# Checks code against .clang-format and .clang-tidy.
#
# clang-format: all files. clang-tidy takes 3 to 30 s of a processor for a file:
# it looks at sources of the libraries and programs that have changed since the commit where this branch
# left main (on main itself: since the commit before), and for a changed header at the source of that
# name. What it says of lines that have not changed does not count. When SECONDS are over no more is
# begun and what runs is ended; what was not looked at is named.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() {
  cat <<'TEXT'
usage: tests/style.sh [--write] [--full] [--base COMMIT] [--seconds SECONDS]
  --write            formats the files that need it, and does nothing else
  --full             clang-tidy on every source; takes about an hour on 2 cores
  --base COMMIT      clang-tidy on what has changed since this commit
  --seconds SECONDS  how long clang-tidy may take (20; without an end under --full)
TEXT
}

# Sources that clang-tidy looks at: those that .clang-tidy's HeaderFilterRegex names the headers of.
readonly TIDY_FOLDERS='^(compress_kernels|ring|tuner|nccl_plugin|perf)/.*\.cc$'
JOBS=$(nproc)
readonly JOBS

write=0 full=0 base='' seconds=20
while [[ $# -gt 0 ]]; do
  case $1 in
    --write) write=1 ;;
    --full) full=1 ;;
    --base) base=${2:?--base needs a commit}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

code_files() {  # Sources and headers; tables (.inc) have columns of their own.
  find include compress_kernels ring tuner nccl_plugin perf tests -type f \
    -regextype posix-extended -regex '.*\.(h|hpp|c|cc|cu|cuh)' | LC_ALL=C sort
}

check_format() {
  local count
  count=$(code_files | wc -l)
  # Each version formats a little differently.
  if ! clang-format --version | grep -q 'version 14\.'; then
    echo "clang-format: there is none of version 14, as Debian 12 has it: nothing was looked at"
    return 0
  fi
  if [[ $write -eq 1 ]]; then
    code_files | xargs -n 50 -P "$JOBS" clang-format -i
  elif code_files | xargs -n 50 -P "$JOBS" clang-format --dry-run -Werror; then
    echo "clang-format: $count files are as .clang-format has them"
  else
    echo "clang-format: mend it with tests/style.sh --write" >&2
    return 1
  fi
}

# Where this branch left main; on main itself, or without such a branch, the commit before.
fork_point() {
  local main commit
  for main in origin/main main; do
    commit=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    if [[ $commit != "$(git rev-parse HEAD)" ]]; then echo "$commit"; return; fi
  done
  git rev-parse --verify --quiet 'HEAD~1'
}

# The source that says most of a file: itself, or of a header the one beside it.
changed_sources() {
  local file
  { git diff --name-only --diff-filter=d "$base" && git ls-files --others --exclude-standard; } |
    while read -r file; do
      file=${file%.h}
      [[ $file == *.* ]] || file+=.cc
      if [[ $file =~ $TIDY_FOLDERS && -f $file ]]; then echo "$file"; fi
    done | LC_ALL=C sort -u
}

# What has changed, as clang-tidy's --line-filter has it.
changed_lines() {
  { git diff -U0 --diff-filter=d --no-prefix "$base"
    git ls-files --others --exclude-standard | sed 's/.*/+++ &\n@@ -0,0 +1,1000000 @@/'; } |
    awk '$1 == "+++" { name = $2; next }
         $1 == "@@" { split(substr($3, 2), at, ","); count = $3 ~ /,/ ? at[2] : 1
                      if (count > 0) lines[name] = lines[name] sprintf(",[%d,%d]", at[1], at[1] + count - 1) }
         END { for (name in lines) { printf "%s{\"name\":\"%s\",\"lines\":[%s]}", comma, name, substr(lines[name], 2)
                                     comma = "," } }' | sed 's/.*/[&]/'
}

tidy_sources() {
  if [[ $full -eq 1 ]]; then code_files | grep -E "$TIDY_FOLDERS"; else changed_sources; fi
}

# tidy FILE: 0 if it is fine, 1 with what was found, 2 if there was no time.
tidy() {
  local status=0 left=$((deadline - SECONDS)) output
  [[ $full -eq 1 ]] && left=600
  if [[ $left -le 0 ]]; then echo "clang-tidy: no time for $1"; return 2; fi
  output=$(timeout "$left" clang-tidy -p build-tidy --quiet "${only_lines[@]}" "$1" 2>/dev/null) || status=$?
  if [[ $status -eq 124 ]]; then echo "clang-tidy: no time for $1"; return 2; fi
  if [[ $status -eq 0 ]]; then echo "clang-tidy: $1 is fine"; return 0; fi
  printf '%s\nclang-tidy: %s: see above\n' "$output" "$1"
  return 1
}

check_tidy() {
  local files file lines bad=0 status running=0 only_lines=()
  if [[ $full -eq 0 ]]; then
    if [[ -z $base ]] && ! base=$(fork_point); then
      echo "clang-tidy: there is no commit to compare with: nothing was looked at"
      return 0
    fi
    lines=$(changed_lines)
    # Without lines clang-tidy would look at all of them.
    if [[ -z $lines ]]; then echo "clang-tidy: no line is new"; return 0; fi
    only_lines=("--line-filter=$lines")
  fi
  mapfile -t files < <(tidy_sources)
  echo "clang-tidy: ${#files[@]} sources to look at"
  [[ ${#files[@]} -eq 0 ]] && return 0
  # Each source is to have its own command: no unity build, and the flags of clang.
  cmake -S . -B build-tidy -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    -DRINGPRESS_TESTS=OFF -DRINGPRESS_PERF=ON >/dev/null || return 1
  # Headers that the build writes.
  cmake --build build-tidy --target ringpress_number_headers >/dev/null || return 1
  deadline=$((SECONDS + seconds))
  for file in "${files[@]}"; do
    if [[ $running -ge $JOBS ]]; then
      status=0; wait -n || status=$?
      [[ $status -eq 1 ]] && bad=1
      running=$((running - 1))
    fi
    tidy "$file" &
    running=$((running + 1))
  done
  while [[ $running -gt 0 ]]; do
    status=0; wait -n || status=$?
    [[ $status -eq 1 ]] && bad=1
    running=$((running - 1))
  done
  return "$bad"
}

status=0 deadline=0
check_format || status=1
[[ $write -eq 1 ]] || check_tidy || status=1
exit "$status"
