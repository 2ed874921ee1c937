#!/usr/bin/env bash
# Builds what PyPI gets: the source distribution, and from it the wheel for CPython 3.11 and newer
# on every Linux since 2014 (glibc 2.17), linked by zig. Then installs the wheel in a new
# environment and uses it. Both land in target/python/wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(realpath -m "${CARGO_TARGET_DIR:-target}")/python"
python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9.4,<2' ziglang
rm -f "$work"/wheels/*manylinux2014* "$work"/wheels/*.tar.gz
# From the source distribution, which so has all that it needs.
PATH="$work/build/bin:$PATH" maturin sdist --manifest-path crates/twiceshy-python/Cargo.toml --out "$work/wheels"
source="$(ls "$work"/wheels/*.tar.gz)"
rm -rf "$work/source"
mkdir "$work/source"
tar -xzf "$source" -C "$work/source" --strip-components=1
# maturin finds zig through `python3 -m ziglang`.
(
  export PATH="$work/build/bin:$PATH" CARGO_TARGET_DIR="$work/.."
  cd "$work/source"
  maturin build --release --strip --zig --compatibility manylinux2014 --out "$work/wheels"
)
wheel="$(ls "$work"/wheels/*manylinux2014*.whl)"
python3 -m venv --clear "$work/installed"
"$work/installed/bin/pip" install --quiet --disable-pip-version-check "$wheel"
"$work/installed/bin/python" -c "
import twiceshy
seen = twiceshy.Filter(1000)
seen.add('alice')
assert 'alice' in seen and 'bob' not in seen
print(twiceshy.__version__, seen)"
ls -l "$source" "$wheel"
