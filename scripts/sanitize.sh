#!/usr/bin/env bash
# The modules with `unsafe` under AddressSanitizer, which notices reads and writes outside
# of what was allocated. It builds on the stable toolchain. Run from anywhere.
#
# Miri, which also notices undefined behaviour that touches only our own memory, runs the
# same tests where it is installed (rustup +nightly component add miri). It knows neither
# prefetches nor AVX2, so it sees the safe twins of these, and the rest of the modules.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
if [[ "$(rustc -vV)" != *"host: $target"* ]]; then
  echo "left out: AddressSanitizer is tried on $target only"
  exit 0
fi
# A target directory of its own: other flags build everything again.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize \
  cargo test --quiet --target "$target" -p twiceshy-filters --lib -- \
  bits:: cuckoo:: broom:: remote:: quotient::glance quotient::block quotient::append line::lanes
if cargo +nightly miri --version >/dev/null 2>&1; then
  MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri \
    cargo +nightly miri test --quiet -p twiceshy-filters --lib -- bits::
else
  echo "left out: Miri is not installed"
fi
