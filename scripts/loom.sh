#!/usr/bin/env bash
# The guard's locks under a model checker: every interleaving of a few operations
# with at most three preemptions.
set -euo pipefail
cd "$(dirname "$0")/.."
# A directory of its own: another cfg is another build of everything.
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  cargo test -p twiceshy --test guard_loom --quiet -- "$@"
