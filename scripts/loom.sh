#!/usr/bin/env bash
# The guard's locks under a model checker: every interleaving of a few operations
# with at most three preemptions.
set -euo pipefail
cd "$(dirname "$0")/.."
# A directory of its own: another cfg is another build of everything. No engine is needed.
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  cargo test -p twiceshy --no-default-features --test guard_loom --quiet -- "$@"
