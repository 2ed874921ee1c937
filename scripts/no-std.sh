#!/usr/bin/env bash
# The filters without std: builds, links and runs a program that has none.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --quiet --manifest-path crates/twiceshy-filters/tests/no-std/Cargo.toml \
  --target-dir target/no-std
