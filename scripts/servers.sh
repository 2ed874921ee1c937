#!/usr/bin/env bash
# What the tests of the server need and do not bring: Redis, PostgreSQL, OpenSSL, curl,
# Chromium and redis-py, from Debian's packages and PyPI. Does nothing where all is there.
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
  # Tests start servers of their own: those of the packages must not run.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

venv="${CARGO_TARGET_DIR:-target}/venv"
if ! "$venv/bin/python" -c 'import redis' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'redis>=5,<9'
fi
