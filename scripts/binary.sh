#!/usr/bin/env bash
# Checks a program that is about to be packaged: it runs, has no symbols, and is below 15 MB.
set -euo pipefail
program="$1"
"$program" --version
bytes="$(stat -c %s "$program")"
echo "$program: $bytes bytes"
((bytes < 15000000)) || { echo "that is 15 MB or more" >&2; exit 1; }
if readelf --wide --sections "$program" | grep -qE '\.(symtab|debug_)'; then
  echo "it is not stripped" >&2
  exit 1
fi
