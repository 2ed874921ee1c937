#!/usr/bin/env bash
# The tests of the Python package, in a virtual environment under target/ with what they need
# from PyPI. Uses what the workspace has compiled already.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
python="$target/python/venv/bin/python"
package=crates/twiceshy-python
# All libraries, so that their features are those of the other tests.
# The workspace's libraries include the module, whose bindings need it.
# shellcheck source=scripts/libclang.sh
source scripts/libclang.sh
cargo build --quiet --workspace --lib
cargo build --quiet --workspace --bin twiceshy

if ! cmp -s "$package/pyproject.toml" "$target/python/installed.toml"; then
  python3 -m venv "$target/python/venv"
  # The packages that pyproject.toml lists as `test`.
  mapfile -t needed < <("$python" -c "
import tomllib
project = tomllib.load(open('$package/pyproject.toml', 'rb'))['project']
print(*project['optional-dependencies']['test'], sep='\n')")
  "$python" -m pip install --quiet --disable-pip-version-check "${needed[@]}"
  cp "$package/pyproject.toml" "$target/python/installed.toml"
fi

# The package as a wheel lays it out.
place() {
  local packages
  packages="$("$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  rm -rf "$packages/twiceshy"
  cp -r "$package/python/twiceshy" "$packages/twiceshy"
  cp "$target/debug/lib_twiceshy.so" "$packages/twiceshy/_twiceshy.abi3.so"
}
place "$python"

# Another version of Python, where there is one.
own="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
for other in python3.{14,13,12} ~/.pyenv/versions/3.1[2-9].*/bin/python; do
  version="$("$other" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)"
  if [[ $version && $version != "$own" ]]; then
    "$other" -m venv --clear --without-pip "$target/python/other"
    place "$target/python/other/bin/python"
    export TWICESHY_OTHER_PYTHON="$target/python/other/bin/python"
    break
  fi
done

cd "$package"
TWICESHY_CLI="$target/debug/twiceshy" "$python" -m pytest --quiet -p no:cacheprovider "$@"
