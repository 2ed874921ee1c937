#!/usr/bin/env bash
# Do the tests notice when the filters, codes or guards are wrong? Takes mutants (one small change
# of the code each) that cargo-mutants lists for the files of .cargo/mutants.toml, and runs the
# tests on them. Not part of CI; docs/mutants.md has what it found, and the survivors we accept.
#
#   scripts/mutants.sh SEED TAKE [FIRST [COUNT]]
#   scripts/mutants.sh 22 92           # 92 of each of the eight folders, at random
#   scripts/mutants.sh 22 92 0 46      # of these, the first 46 of each folder; what is left: 46 46
#   scripts/mutants.sh 1 100000        # all 7,800
#
# A build for each mutant would take weeks. So all are woven into one build, each behind a switch
# (scripts/mutants/src/weave.rs), and a mutant meets only the tests that reach it, fast ones first,
# until one fails. A test that computes five times as long as it should counts as failed. Left out:
# constants, `const fn`, functions that return `impl Trait`. `cargo mutants --re NAME` builds those.
#
# What it costs on two idle cores: docs/mutants.md. A run can be stopped and started again, and what
# was tested is not tested again. After a change of the code or of the tests, remove
# target/mutants/SEED-TAKE. TWICESHY_MUTANT_SECONDS says how long the tests of one mutant may take
# without it, in all (60).
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:?SEED TAKE [FIRST [COUNT]]} take=${2:?SEED TAKE [FIRST [COUNT]]}
work=target/mutants tree=target/mutants/$seed-$take
tool() {
  cargo run --quiet --release --manifest-path scripts/mutants/Cargo.toml --target-dir "$work/tool" -- "$@"
}
if [ ! -e "$tree/woven.json" ]; then
  cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
  mkdir -p "$tree"
  git ls-files -z | xargs -0 cp --parents -t "$tree"
  # Seconds less for each build, and tests that are fast enough.
  sed -i 's/^opt-level = 2$/opt-level = 1\ndebug = 0/' "$tree/Cargo.toml"
  cargo mutants --list --json -p twiceshy-filters -p twiceshy >"$work/list.json"
  tool weave "$work/list.json" "$tree" "$seed" "$take"
fi
tool run "$tree" "${3:-0}" "${4:-$take}"
tool report "$tree" "${3:-0}" "${4:-$take}"
