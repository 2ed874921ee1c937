#!/usr/bin/env bash
# What a user of the published crates gets: every package has all its files and builds from
# them alone, and the oldest Rust that Cargo.toml promises can build it where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
# Optimised like the workspace's own builds, whose dependencies it can use then.
CARGO_PROFILE_DEV_OPT_LEVEL=2 \
  cargo package --workspace --exclude twiceshy-bench --allow-dirty --quiet
msrv=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if cargo "+$msrv" --version >/dev/null 2>&1; then
  CARGO_TARGET_DIR=target/msrv cargo "+$msrv" check --workspace --exclude twiceshy-bench --quiet
else
  echo "left out: Rust $msrv is not installed (rustup toolchain install $msrv)"
fi
