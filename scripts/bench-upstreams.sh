#!/usr/bin/env bash
# `twiceshy serve` in front of PostgreSQL and Redis beside asking them directly: look-ups
# per second, one after the other, on loopback, with 10^6 keys and 50 clients. Needs what
# scripts/servers.sh installs. Usage: scripts/bench-upstreams.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-5}"
keys=1000000
clients=50

cargo build --release --quiet -p twiceshy-cli
twiceshy="${CARGO_TARGET_DIR:-target}/release/twiceshy"
work="$(mktemp -d)"
programs="$(dirname "$(ls -d /usr/lib/postgresql/*/bin/postgres | tail -1)")"
as=()
if ((EUID == 0)); then
  chown postgres "$work"
  chmod 755 "$work"
  as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_ok() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

pg=$(free)
(cd "$work" && "${as[@]}" "$programs/initdb" -D "$work/pg" -U postgres --auth=trust --no-sync >/dev/null)
(cd "$work" && exec "${as[@]}" "$programs/postgres" -D "$work/pg" -k "$work" -h 127.0.0.1 -p "$pg" \
  -c fsync=off >"$work/pg.log" 2>&1) &
started+=($!)
psql=(psql -h 127.0.0.1 -p "$pg" -U postgres -qAt)
until_ok "${psql[@]}" -c 'SELECT 1'
"${psql[@]}" -c "CREATE TABLE users (k text PRIMARY KEY, v text);
  INSERT INTO users SELECT 'user:' || lpad(n::text, 12, '0'), 'value ' || n FROM generate_series(0, $keys - 1) n;" \
  -c 'VACUUM ANALYZE users'

redis=$(free)
redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no >/dev/null &
started+=($!)
until_ok redis-cli -p "$redis" ping
seq -f 'SET user:%012.0f value' 0 $((keys - 1)) | redis-cli -p "$redis" --pipe >/dev/null

for store in "postgres://postgres@127.0.0.1:$pg/postgres --table users --key k --value v" \
  "redis://127.0.0.1:$redis"; do
  port=$(free)
  # shellcheck disable=SC2086 # flags
  "$twiceshy" serve --dir "$work/shield-$port" --listen "127.0.0.1:$port" --log warn --store $store &
  started+=($!)
  until_ok redis-cli -p "$port" ping
  until_ok test "$(redis-cli -p "$port" dbsize)" = "$keys"
  shields+=("$port")
done

# Look-ups per second of a server that speaks as Redis: port, first part of the keys, pipeline.
resp() {
  redis-benchmark -p "$1" -c "$clients" -P "$3" -n $((${4:-200000} * seconds / 5)) -r "$keys" -q \
    GET "$2:__rand_int__" 2>/dev/null | tr '\r' '\n' | sed -n 's/.*: \([0-9.]*\) requests per second.*/\1/p' | tail -1
}
# The same of PostgreSQL, which pgbench asks with prepared statements: first part of
# the keys, pipeline.
sql() {
  local script="$work/$1-$2.sql"
  for n in $(seq "$2"); do echo "\\set n$n random(0, $keys - 1)"; done >"$script"
  if (($2 > 1)); then echo '\startpipeline' >>"$script"; fi
  for n in $(seq "$2"); do
    echo "SELECT v FROM users WHERE k = '$1:' || lpad(:n$n::text, 12, '0');"
  done >>"$script"
  if (($2 > 1)); then echo '\endpipeline' >>"$script"; fi
  "$programs/pgbench" -h 127.0.0.1 -p "$pg" -U postgres -n -M prepared -c "$clients" -j 2 -T "$seconds" \
    -f "$script" postgres 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p' | awk -v each="$2" '{ print $1 * each }'
}
row() { printf '%-44s %12.0f %12.0f %8.2f\n' "$1" "$2" "$3" "$(echo "$3 / $2" | bc -l)"; }

printf '%-44s %12s %12s %8s\n' 'look-ups per second' directly 'through us' ratio
for pipeline in 1 16 100; do
  many=$((pipeline == 1 ? 200000 : pipeline == 16 ? 1000000 : 3000000))
  row "PostgreSQL, misses, $pipeline at once" "$(sql miss $pipeline)" "$(resp "${shields[0]}" miss $pipeline $many)"
done
row 'PostgreSQL, hits' "$(sql user 1)" "$(resp "${shields[0]}" user 1 50000)"
for pipeline in 1 16; do
  many=$((pipeline == 1 ? 200000 : 1000000))
  for kind in miss user; do
    row "Redis, $kind, $pipeline at once" "$(resp "$redis" $kind $pipeline $many)" "$(resp "${shields[1]}" $kind $pipeline $many)"
  done
done
for port in "${shields[@]}"; do
  redis-cli -p "$port" ts.stats | paste - - | grep -E '^(queries|absent|false_positives)' | tr '\n' ' '
  echo
done
