#!/usr/bin/env bash
# Walks README.md as somebody with a new machine would, from nothing to the page of a job: makes a Debian 12 root with
# nothing in it, runs the demo there, builds and installs by the commands of "Build", starts the program of the page for
# host memory by those of "Quick start" that need no GPU, and reads the pages. All commands are taken from README.md.
#
# 1. debootstrap makes the root; the files that git knows are copied into it.
# 2. Inside, with mounts, processes and a host name of its own: perf/demo.sh, "Build", "Quick start".
# 3. What must be there is looked for: the demo's page, the installed files, the job's page.
#
# usage: tests/readme_walk.sh [--keep] [--mirror URL]
#   --keep        leaves the root where it is, and names it
#   --mirror URL  of Debian (http://deb.debian.org/debian)
# Needs root, debootstrap, the network and some 20 minutes on 2 cores. Run by hand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mirror=http://deb.debian.org/debian keep=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --keep) keep=1 ;;
    --mirror) mirror=${2:?--mirror needs a URL}; shift ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
[[ $(id -u) -eq 0 ]] || { echo "readme_walk.sh: only root can make a root of its own" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "readme_walk.sh: apt-get install debootstrap" >&2; exit 1; }

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
die() { echo "readme_walk.sh: $1" >&2; exit 1; }

# block HEADING NUMBER: a block of commands below a heading of README.md.
block() {
  awk -v heading="## $1" -v number="$2" '
    /^## / { inside = $0 == heading }
    inside && /^```/ { if (open) open = 0; else if (/^```sh/ && ++count == number) { open = 1; next } }
    open' README.md
}

# symptom COMMAND: a command of the table of symptoms.
symptom() { sed -n '/^## If something is wrong/,/^## /s/.*`\(ringpress '"$1"' [^`]*\)`.*/\1/p' README.md; }

root=$(mktemp -d /var/tmp/readme_walk.XXXXXX)
finish() {
  if [[ $keep -eq 1 ]]; then echo "the root is $root"; else rm -rf --one-file-system "$root"; fi
}
trap finish EXIT

step "an empty Debian 12"
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log" >&2; die "debootstrap failed: $root.log"; }
rm -f "$root.log"
# What the network of this machine needs.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
for file in /etc/apt/apt.conf.d/*registry* /etc/apt/apt.conf.d/*proxy*; do
  if [[ -e $file ]]; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
done
# README's apt-get asks, as it should. Nobody is here to answer.
echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90yes"

mkdir "$root/ringpress"
git ls-files -z | xargs -0 cp --parents -t "$root/ringpress"
# The program in C on the page for host memory.
awk '/^```c$/ { open = 1; next } /^```/ { open = 0 } open' nccl_plugin/host/using.md >"$root/ringpress/program.c"

{
  echo 'set -euxo pipefail; cd /ringpress; export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8'
  block "Two commands" 1 | grep perf/demo.sh
  echo 'test -s perf/out/demo.html'
  block "Build" 1
  block "Quick start" 1 | grep '^export PATH='
  echo 'gcc program.c -I/opt/ringpress/include -L/opt/ringpress/lib/ringpress/host -l:libnccl.so.2 -o program'
  block "Quick start" 1 | grep '^ringpress estimate'
  # The job is to be told of, and to compress between ranks of one host.
  block "Quick start" 1 | grep '^ringpress run --door C' | sed 's/--door C/--door C --codec q4 --report job/'
  block "Quick start" 1 | grep '^ringpress report job'
  # Of a machine without a GPU it says that doors are shut, and ends with 1.
  symptom doctor | sed 's/torchrun/.\/program || [[ $? -eq 1 ]]/'
  symptom explain
  echo 'ringpress --version; all_reduce_perf --ranks 2 -b 1M -e 1M -n 3 --codec q4 --plot sizes.html'
} >"$root/ringpress/walk.sh"
lines=$(grep -c '' "$root/ringpress/walk.sh")
[[ $lines -ge 14 ]] || { cat "$root/ringpress/walk.sh"; die "README.md has other headings than this script looks for"; }

step "README.md's commands in it"
# shellcheck disable=SC2016  # It is a shell inside that expands them.
unshare --mount --pid --uts --fork --kill-child bash -c \
  'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t sysfs sys "$0/sys" &&
   exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
     chroot "$0" bash /ringpress/walk.sh' "$root" || die "a command failed"

step "what is there"
for file in perf/out/demo.html perf/out/demo.json ringpress-report.html sizes.html; do
  [[ -s $root/ringpress/$file ]] || die "no $file"
  echo "$(stat -c %s "$root/ringpress/$file") bytes of $file"
done
grep -q "What was compressed" "$root/ringpress/ringpress-report.html" || die "the job's page does not say what was compressed"
du -sk "$root/opt/ringpress" | sed 's/[[:space:]].*/ kB are installed/'
step "README.md leads from nothing to the pages"
