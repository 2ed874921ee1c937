#!/usr/bin/env bash
# Runs all benchmarks, or those that are named, and writes docs/benchmarks/PART.md for each, with
# its command, date and machine. A part that is there is skipped: delete its file to run it again.
# All take about four hours (estimated) on a machine that does nothing else.
#
#   bash scripts/bench-all.sh [PART ...]
#
# The recorded streams of `reads` and `streams` are read from TWICESHY_DATA; without
# them these parts say that they were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
out=docs/benchmarks
bench="cargo run --release --quiet -p twiceshy-bench --"
strings="cargo run --release --quiet -p twiceshy-bench --bin strings --"
stores="cargo run --release --quiet -p twiceshy-bench --bin stores --"

# Part, and its command. Names differ from those of the pages that people wrote.
parts="
reads|$stores --what attack,recorded --directory /dev/shm --csv docs/figures/store-reads.csv
keys|$strings --markdown
growth|$strings --growth --keys 100000000 --markdown
peers|$bench --what peers --markdown
peers-large|$bench --what peers --keys 30000000 --rounds 1 --markdown
shapes|$bench --what shapes --rounds 3 --markdown
slots|$bench --what quotient --rounds 5 --markdown
hashed|$bench --what hashed --rounds 3 --markdown
batches|$bench --what batch --keys 30000000 --rounds 1 --markdown
insertions|$bench --what scaling --markdown
bars|$bench bars --filters line --keys 1000000 --rounds 11 --markdown
engines|$stores --what engines
gets|$stores --what gets --cache 1024
streams|$stores --what streams
network|bash scripts/bench-server.sh
upstreams|bash scripts/bench-upstreams.sh
events|bash scripts/bench-redis-events.sh
"
machine="$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"

# What was asked for, in the order of the list.
wanted() { [ $# -eq 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }

cargo build --release --quiet -p twiceshy-bench
for name in "$@"; do
  grep -q "^$name|" <<<"$parts" || { echo "no part is called $name" >&2; exit 1; }
done
while IFS='|' read -r name command; do
  { [ -n "$name" ] && wanted "$name" "$@"; } || continue
  if [ -e "$out/$name.md" ]; then
    echo "$name: done before, in $out/$name.md"
    continue
  fi
  echo "$name: $command"
  load=$(cut -d' ' -f1 /proc/loadavg)
  start=$SECONDS
  # To a file beside it first: what was interrupted is not taken for done.
  $command </dev/null >"$out/$name.part"
  {
    printf '# Benchmark: %s\n\n```sh\n%s\n```\n\n' "$name" "${command//--quiet /}"
    printf '%s, %s, load %s before; %s s.\n\n' "$(date -u +%F)" "$machine" "$load" $((SECONDS - start))
    cat "$out/$name.part"
  } >"$out/$name.md"
  rm "$out/$name.part"
done <<<"$parts"
python3 scripts/figure.py
