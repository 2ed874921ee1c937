#!/usr/bin/env bash
# Everything that has to pass: format, lints, tests, doc tests, fuzzers that build, the
# modules with `unsafe` under a sanitizer, the filters without std, the packages, the Python
# package, and the module for Redis and Valkey. Run from anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
# Servers and clients that tests drive; without them these would fail, not pass.
bash scripts/servers.sh
export TWICESHY_REQUIRE_SERVERS=1
# shellcheck source=scripts/libclang.sh
source scripts/libclang.sh
cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --lib --bins --tests
else
  cargo test --workspace --lib --bins --tests
fi
cargo test --workspace --doc
# These mostly wait for servers. They run beside what computes, and are shown after it.
waiting() {
  # What listens to Redis also listens to Valkey.
  PATH="$(realpath "${CARGO_TARGET_DIR:-target}")/venv/valkey:$PATH" \
    cargo test --workspace --test shield -- cluster:: follow_redis::
  bash scripts/module.sh
}
log="$(mktemp)"
trap 'wait; rm "$log"' EXIT
waiting >"$log" 2>&1 &
bash scripts/loom.sh
bash scripts/sanitize.sh
bash scripts/no-std.sh
wait $! || { cat "$log"; exit 1; }
cat "$log"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
# The fuzzers are no members of the workspace: they are only built.
cargo build --quiet --manifest-path fuzz/Cargo.toml --target-dir target
bash scripts/package.sh
bash scripts/python.sh
