#!/usr/bin/env bash
# `twiceshy serve` beside a Redis on this machine, driven by redis-benchmark:
# look-ups of keys that are stored and that are not, pipelined and not, and writes.
# Prints the tables of docs/benchmarks/server.md: medians of ROUNDS rounds, in each of
# which both are asked by turns.
set -euo pipefail
cd "$(dirname "$0")/.."
keys=${KEYS:-100000} requests=${REQUESTS:-200000} rounds=${ROUNDS:-3} clients=${CLIENTS:-50}

cargo build --release --quiet -p twiceshy-cli
twiceshy="${CARGO_TARGET_DIR:-target}/release/twiceshy"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
redis=$(free_port) ours=$(free_port)
redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >/dev/null &
"$twiceshy" serve --dir "$work/store" --listen "127.0.0.1:$ours" --durability process --log warn &
for port in "$redis" "$ours"; do
  until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done
  redis-benchmark -p "$port" -q -n $((keys * 10)) -r "$keys" -P 64 -c 10 -d 32 -t set >/dev/null 2>&1
done

# One run: requests per second and p99 in milliseconds.
run() {
  redis-benchmark -p "$1" --csv -n "$requests" -r "$keys" -c "$clients" -P "$2" -d 32 "${@:3}" 2>/dev/null |
    awk -F'"' '/^"/ && $2 != "test" { print $4, $14 }'
}
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

echo "$(nproc) cores, $(date -I), load $(cut -d' ' -f1 /proc/loadavg); $keys keys, $clients clients, $(redis-server --version | cut -d' ' -f3)"
echo
echo "| redis-benchmark | Redis, 1/s | twiceshy, 1/s | ratio | p99 Redis, ms | p99 twiceshy, ms |"
echo "| --- | ---: | ---: | ---: | ---: | ---: |"
table() { # name, pipeline, arguments
  for _ in $(seq "$rounds"); do
    run "$redis" "${@:2}" >>"$work/redis.$1"
    run "$ours" "${@:2}" >>"$work/ours.$1"
  done
  local r o
  r=$(cut -d' ' -f1 "$work/redis.$1" | median) o=$(cut -d' ' -f1 "$work/ours.$1" | median)
  echo "| ${1//_/ } | $r | $o | $(awk "BEGIN { printf \"%.2f\", $o / $r }") |" \
    "$(cut -d' ' -f2 "$work/redis.$1" | median) | $(cut -d' ' -f2 "$work/ours.$1" | median) |"
}
table GET_missing 1 GET missing:__rand_int__
table GET_missing,_-P_16 16 GET missing:__rand_int__
table GET_missing,_-P_100 100 GET missing:__rand_int__
table GET_stored 1 -t get
table GET_stored,_-P_16 16 -t get
table SET 1 -t set
table SET,_-P_16 16 -t set
echo
echo "Of twiceshy's misses: $(redis-cli -p "$ours" ts.stats | paste - - | awk '/^(reads_avoided|false_positives|store_reads)\t/ { printf "%s %s  ", $1, $2 }')"
echo "Within twiceshy, of all misses: $(redis-cli -p "$ours" ts.stats | paste - - | awk '/^miss_/ { printf "%s %s  ", $1, $2 }')"
