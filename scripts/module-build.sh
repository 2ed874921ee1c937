#!/usr/bin/env bash
# Builds the module for Redis and Valkey as users install it, and loads it into a Redis server, if
# there is one. It lands in target/release/libtwiceshy_module.so.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/libclang.sh
source scripts/libclang.sh
cargo build --release --locked --package twiceshy-module
module="$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/libtwiceshy_module.so"
ls -l "$module"
if readelf --wide --sections "$module" | grep -qE '\.(symtab|debug_)'; then
  echo "it is not stripped" >&2
  exit 1
fi
if ! command -v redis-server >/dev/null; then
  echo "left out: redis-server is not installed"
  exit 0
fi
folder="$(mktemp -d)"
redis-server --port 0 --unixsocket "$folder/socket" --dir "$folder" --save '' --loadmodule "$module" >"$folder/log" &
server=$!
trap 'kill "$server"; rm -r "$folder"' EXIT
ask() { redis-cli -s "$folder/socket" "$@"; }
for _ in {1..100}; do
  [[ $(ask ping 2>/dev/null) != PONG ]] || break
  sleep 0.1
done
ask AF.RESERVE users 0.002 1000 >/dev/null
ask AF.ADD users alice >/dev/null
[[ $(ask AF.EXISTS users alice) == 1 ]] || { cat "$folder/log"; exit 1; }
echo "it works in $(redis-server --version | cut -d' ' -f1-3)"
