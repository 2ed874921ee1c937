#!/usr/bin/env bash
# What `serve --follow` costs a Redis server, and what it takes off it: the figures of
# docs/guide/redis.md, medians of three rounds. Needs what scripts/servers.sh installs, and four minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet -p twiceshy-cli
twiceshy="${CARGO_TARGET_DIR:-target}/release/twiceshy"
work="$(mktemp -d)"
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_ok() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

redis=$(free)
redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >/dev/null &
started+=($!)
cli=(redis-cli -p "$redis")
until_ok "${cli[@]}" ping
bench=(redis-benchmark -q)
median() { sort -n | sed -n 2p; }
# Seconds that the Redis server has computed so far.
cpu() { "${cli[@]}" info cpu | tr -d '\r' | awk -F: '/^used_cpu_(sys|user):/ { sum += $2 } END { print sum }'; }
# Microseconds of a SET: setting, number of different keys.
set_cost() {
  for _ in 1 2 3; do
    if (($2 > 500000)); then "${cli[@]}" flushall >/dev/null; fi
    "${cli[@]}" config set notify-keyspace-events "$1" >/dev/null
    "${cli[@]}" config resetstat >/dev/null
    timeout 60 "${cli[@]}" subscribe __keyevent@0__:new __keyevent@0__:del >/dev/null &
    local subscriber=$!
    sleep 0.3
    "${bench[@]}" -p "$redis" -n 500000 -r "$2" -P 16 -c 20 SET key:__rand_int__ v >/dev/null
    "${cli[@]}" info commandstats | sed -n 's/^cmdstat_set:.*usec_per_call=\([0-9.]*\).*/\1/p'
    kill "$subscriber"
    wait "$subscriber" 2>/dev/null || true
  done | median
}
for setting in '' Engxe EA; do
  echo "notify-keyspace-events '$setting': SET of a new key $(set_cost "$setting" 1000000000) us"
done
"${bench[@]}" -p "$redis" -n 500000 -r 10000 -P 16 SET key:__rand_int__ v >/dev/null
for setting in '' Engxe EA; do
  echo "notify-keyspace-events '$setting': SET of a known key $(set_cost "$setting" 10000) us"
done

shield=$(free)
"$twiceshy" serve --dir "$work/shield" --listen "127.0.0.1:$shield" --log warn \
  --store "redis://127.0.0.1:$redis/0" --follow --configure-store &
started+=($!)
until_ok redis-cli -p "$shield" ping
sleep 3
before=$(cpu)
sleep 20
echo "the beats of a shield: $(python3 -c "print(round(5 * ($(cpu) - $before), 2))") % of a core of Redis"
for port in "$redis" "$shield"; do
  cost=$(for _ in 1 2 3; do
    before=$(cpu)
    "${bench[@]}" -p "$port" -n 500000 -c 50 -r 100000000 GET none:__rand_int__ >/dev/null 2>&1
    python3 -c "print(round($(cpu) - $before, 2))"
  done | median)
  echo "500,000 misses at port $port: $cost s of Redis"
done
