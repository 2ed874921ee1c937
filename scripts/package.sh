#!/usr/bin/env bash
# What a user of the published crates gets: every package has all its files and compiles from
# them alone. The oldest Rust that Cargo.toml promises compiles them too, where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf target/package
# It warns of each test that is left out of a package on purpose.
log=$(cargo package --workspace --exclude twiceshy-bench --exclude twiceshy-python --exclude twiceshy-module --allow-dirty --no-verify 2>&1) ||
  { echo "$log"; exit 1; }
# The packages beside each other, in a workspace of their own. cargo's own verification builds
# every dependency again; this one uses what clippy has checked.
packages=target/package/unpacked
mkdir "$packages"
for package in target/package/*.crate; do
  # With the time of today: cargo takes files of an earlier one for those it has seen.
  tar -xzmf "$package" -C "$packages"
done
cp Cargo.lock "$packages"
{
  echo '[workspace]'
  echo 'resolver = "3"'
  echo 'members = ["*"]'
  echo '[patch.crates-io]'
  for folder in "$packages"/twiceshy*; do
    name=$(basename "$folder")
    echo "${name%-[0-9]*} = { path = \"$name\" }"
  done
  # With our profile, or nothing is shared.
  sed -n '/^\[profile\.dev/,/^$/p' Cargo.toml
} > "$packages/Cargo.toml"
cargo check --quiet --manifest-path "$packages/Cargo.toml" --workspace --target-dir target
msrv=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if cargo "+$msrv" --version >/dev/null 2>&1; then
  cargo "+$msrv" check --quiet --workspace --exclude twiceshy-bench --exclude twiceshy-module --target-dir target/msrv
else
  echo "left out: Rust $msrv is not installed (rustup toolchain install $msrv)"
fi
