#!/usr/bin/env bash
# `twiceshy serve` in front of PostgreSQL and Redis beside asking them directly: look-ups
# per second on loopback with 50 clients. First a table of 10^6 keys that PostgreSQL has in
# its memory, and Redis; then a table of 10^7 keys whose index is twice the memory that
# its PostgreSQL may use, for which a cgroup (v1 or v2) and so root is needed. Needs what
# scripts/servers.sh installs, 4 GB of disk for a while, and about ten minutes.
# Usage: scripts/bench-upstreams.sh [SECONDS [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-5}"
rounds="${2:-3}"
keys=1000000
large=10000000
memory=$((256 << 20))
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
group=
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  if [[ $group ]]; then rmdir "$group" || true; fi
  rm -rf "$work"
}
trap finish EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_ok() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

# Starts a PostgreSQL: port, cgroup or nothing, more arguments.
postgres() {
  local data="$work/pg-$1"
  (cd "$work" && "${as[@]}" "$programs/initdb" -D "$data" -U postgres --auth=trust --no-sync >/dev/null)
  (
    cd "$work"
    if [[ $2 ]]; then echo "$BASHPID" >"$2/cgroup.procs"; fi
    exec "${as[@]}" "$programs/postgres" -D "$data" -k "$work" -h 127.0.0.1 -p "$1" -c fsync=off "${@:3}" \
      >"$data.log" 2>&1
  ) &
  started+=($!)
  until_ok "$programs/psql" -h 127.0.0.1 -p "$1" -U postgres -c 'SELECT 1'
}
# Starts a shield, for which `shield` is the port then: number of keys, store and flags. Half
# of the cores are left to the clients and the store, which are on this machine as well.
shield() {
  shield=$(free)
  TOKIO_WORKER_THREADS=$((($(nproc) + 1) / 2)) "$twiceshy" serve --dir "$work/shield-$shield" --listen "127.0.0.1:$shield" --log warn --store "${@:2}" &
  started+=($!)
  for _ in $(seq 6000); do
    [[ $(redis-cli -p "$shield" dbsize 2>/dev/null) == "$1" ]] && return
    sleep 0.1
  done
  echo "the shield of ${*:2} does not have $1 keys after ten minutes" >&2
  return 1
}

pg=$(free)
postgres "$pg" ''
psql=(psql -h 127.0.0.1 -p "$pg" -U postgres -qAt)
"${psql[@]}" -c "CREATE TABLE users (k text PRIMARY KEY, v text);
  INSERT INTO users SELECT 'user:' || lpad(n::text, 12, '0'), 'value ' || n FROM generate_series(0, $keys - 1) n;" \
  -c 'VACUUM ANALYZE users'

redis=$(free)
redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no >/dev/null &
started+=($!)
until_ok redis-cli -p "$redis" ping
seq -f 'SET user:%012.0f value' 0 $((keys - 1)) | redis-cli -p "$redis" --pipe >/dev/null

shield "$keys" "postgres://postgres@127.0.0.1:$pg/postgres" --table users --key k --value v
pg_shield=$shield
shield "$keys" "redis://127.0.0.1:$redis"
redis_shield=$shield

# Asks a server that speaks as Redis: port, key, range of its number, pipeline, requests.
# Prints look-ups per second, and how many there were.
resp() {
  local many=$(($5 * seconds / 5))
  redis-benchmark -p "$1" -c "$clients" -P "$4" -n "$many" -r "$3" -q GET "$2" 2>/dev/null |
    tr '\r' '\n' | sed -n "s/.*: \([0-9.]*\) requests per second.*/\1 $many/p" | tail -1
}
# The same of PostgreSQL, which pgbench asks with prepared statements: port, number, key of
# the number N, pipeline.
sql() {
  local script="$work/look-ups.sql"
  for n in $(seq "$4"); do echo "\\set n$n $2"; done >"$script"
  if (($4 > 1)); then echo '\startpipeline' >>"$script"; fi
  for n in $(seq "$4"); do echo "SELECT v FROM users WHERE k = ${3//N/:n$n};"; done >>"$script"
  if (($4 > 1)); then echo '\endpipeline' >>"$script"; fi
  "$programs/pgbench" -h 127.0.0.1 -p "$1" -U postgres -n -M prepared -c "$clients" -j 2 -T "$seconds" \
    -f "$script" postgres 2>/dev/null |
    awk -v each="$4" '/actually processed/ { many = $NF } /^tps/ { print $3 * each, many * each }'
}
row() { awk -v name="$1" -v d="$2" -v u="$3" 'BEGIN { printf "%-44s %12.0f %12.0f %8.2f\n", name, d, u, u / d }'; }
stats() { redis-cli -p "$1" ts.stats | paste - - | grep -E '^(queries|reads_avoided|false_positives)' | tr '\n' ' '; echo; }

# PostgreSQL makes these keys itself, which costs it little, and has it easy otherwise: all
# of 'miss:' sort before all of 'user:', so that every miss ends in the first leaf.
small() { sql "$pg" "random(0, $keys - 1)" "'$1:' || lpad(N::text, 12, '0')" "$2"; }

printf '%-44s %12s %12s %8s\n' 'look-ups per second, all in memory' directly 'through us' ratio
for pipeline in 1 16 100; do
  many=$((pipeline == 1 ? 200000 : pipeline == 16 ? 1000000 : 3000000))
  row "PostgreSQL, misses, $pipeline at once" "$(small miss $pipeline)" \
    "$(resp "$pg_shield" miss:__rand_int__ $keys $pipeline $many)"
done
row 'PostgreSQL, hits' "$(small user 1)" "$(resp "$pg_shield" user:__rand_int__ $keys 1 50000)"
for pipeline in 1 16; do
  many=$((pipeline == 1 ? 200000 : 1000000))
  for kind in miss user; do
    row "Redis, $kind, $pipeline at once" "$(resp "$redis" $kind:__rand_int__ $keys $pipeline $many)" \
      "$(resp "$redis_shield" $kind:__rand_int__ $keys $pipeline $many)"
  done
done
stats "$pg_shield"
stats "$redis_shield"

# A table that does not fit. The page cache counts as well: all of it is charged to the
# cgroup of who read the page.
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  mkdir "$root/twiceshy-$$" 2>/dev/null || continue
  for limit in memory.limit_in_bytes memory.max; do
    if [[ -w $root/twiceshy-$$/$limit ]]; then
      group="$root/twiceshy-$$"
      limit="$group/$limit"
      break 2
    fi
  done
  rmdir "$root/twiceshy-$$"
done
if [[ ! $group ]]; then
  echo 'no memory cgroup can be made here (it takes root): PostgreSQL is not measured with a table larger than memory'
  exit
fi

# The keys are numbers of 19 digits: 1, a number, 0 if it is stored and 5 if it is not. So a
# miss ends among the stored keys, in a leaf that is any of the index; pgbench and
# redis-benchmark both write such a key themselves, and PostgreSQL compares a parameter and
# computes nothing. Rows are stored in another order than that of their keys, as users
# come, and the leaves are as full as inserts in such an order leave them.
first=100000000000000000
pg=$(free)
postgres "$pg" "$group" -c shared_buffers=64MB -c autovacuum=off -c max_wal_size=8GB
psql=(psql -h 127.0.0.1 -p "$pg" -U postgres -qAt)
"${psql[@]}" -c 'CREATE TABLE users (k text COLLATE "C", v text)' \
  -c "INSERT INTO users SELECT (10 * ($first + n * 12345677 % $large))::text, 'value ' || n
    FROM generate_series(0::bigint, $large - 1) n" \
  -c "SET maintenance_work_mem = '1GB'" -c 'ALTER TABLE users ADD PRIMARY KEY (k) WITH (fillfactor = 70)' \
  -c 'VACUUM ANALYZE users' -c 'CHECKPOINT'
sync "$work"/pg-"$pg"/base/*/*
echo "$memory" >"$limit"
shield "$large" "postgres://postgres@127.0.0.1:$pg/postgres" --table users --key k --value v

# Blocks of 8 KiB that PostgreSQL has read from the disk. What its processes that have ended
# read is counted with the first one's, as soon as that has noticed.
blocks() {
  local pid
  while read -r pid; do sed -n 's/^read_bytes: //p' "/proc/$pid/io" 2>/dev/null || true; done <"$group/cgroup.procs" |
    awk '{ sum += $1 } END { printf "%.0f", sum / 8192 }'
}
left() { "${psql[@]}" -c "SELECT 1 / (count(*) = 0)::int FROM pg_stat_activity WHERE application_name = 'pgbench'"; }
# Runs one side, and adds its look-ups per second and blocks per look-up to a file.
measure() {
  local before
  before=$(blocks)
  "${@:2}" >"$work/measured"
  until_ok left
  sleep 0.2
  awk -v blocks=$(($(blocks) - before)) '{ print $1, blocks / $2 }' "$work/measured" >>"$work/$1"
}
# The values of a column of such a file in ascending order.
sorted() { cut -d' ' -f"$2" "$work/$1" | sort -g | paste -sd' '; }

echo
echo "$large keys, an index of $("${psql[@]}" -c "SELECT pg_relation_size('users_pkey') >> 20") MiB and a table of" \
  "$("${psql[@]}" -c "SELECT pg_relation_size('users') >> 20") MiB, PostgreSQL in $((memory >> 20)) MiB," \
  "$rounds rounds by turns: medians, and the least and most"
printf '%-24s %10s %16s %8s %10s %16s %8s %8s\n' 'look-ups per second' directly range blocks 'through us' range blocks ratio
for kind in misses hits; do
  last=$([[ $kind == misses ]] && echo 5 || echo 0)
  for pipeline in 1 16 100; do
    many=100000
    if [[ $kind == misses ]]; then many=$((pipeline == 1 ? 400000 : pipeline == 16 ? 3000000 : 6000000)); fi
    name="$kind-$pipeline"
    for _ in $(seq "$rounds"); do
      measure "$name-directly" sql "$pg" "10 * random($first, $first + $large - 1) + $last" N "$pipeline"
      measure "$name-through" resp "$shield" "100000__rand_int__$last" "$large" "$pipeline" "$many"
    done
    for side in directly through; do sorted "$name-$side" 1; sorted "$name-$side" 2; done |
      awk -v name="$kind, $pipeline at once" '
        { middle = int((NF + 1) / 2); value[NR] = $middle; range[NR] = sprintf("%.0f..%.0f", $1, $NF) }
        END { printf "%-24s %10.0f %16s %8.3f %10.0f %16s %8.4f %8.2f\n", name, value[1], range[1], value[2],
                value[3], range[3], value[4], value[3] / value[1] }'
  done
done
stats "$shield"
