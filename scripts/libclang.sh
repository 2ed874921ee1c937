#!/usr/bin/env bash
# Source this before building crates/twiceshy-module: it installs libclang from PyPI under target/
# and says where it is. Building the bindings of the server's module API needs it.
venv="$(realpath -m "${CARGO_TARGET_DIR:-target}")/venv"
if ! ls "$venv"/lib/python3*/site-packages/clang/native/libclang.so >/dev/null 2>&1; then
  [[ -x "$venv/bin/pip" ]] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check libclang
fi
LIBCLANG_PATH="$(dirname "$(ls "$venv"/lib/python3*/site-packages/clang/native/libclang.so)")"
# The wheel has the library without its headers: those of the C compiler do.
BINDGEN_EXTRA_CLANG_ARGS="-I$("${CC:-cc}" -print-file-name=include)"
export LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS
