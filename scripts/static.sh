#!/usr/bin/env bash
# Builds the program without any shared library, for containers without an operating system and for
# Linux of any age: target/static/twiceshy. The C library inside is that of this machine.
# With --try it runs it like packaging/docker/Dockerfile does, in an empty root (as root); a second
# argument is a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
program="$target/static/twiceshy"
if [[ ${2:-} ]]; then
  install -D "$2" "$program"
else
  # The flag is for the program alone: libraries are compiled as for any other.
  cargo rustc --profile dist --locked --package twiceshy-cli --bin twiceshy -- -C target-feature=+crt-static
  install -D "$target/dist/twiceshy" "$program"
  bash scripts/binary.sh "$program"
fi
if readelf --wide --dynamic "$program" | grep NEEDED; then
  echo "it needs shared libraries" >&2
  exit 1
fi
[[ ${1:-} == --try ]] || exit 0

root="$target/static/root"
rm -rf "$root"
install -D "$program" "$root/twiceshy"
install -d -o 65532 -g 65532 "$root/data"
echo "a password" > "$root/password"
# Engines bring these devices. A static program asks them for random bytes.
mkdir "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
# Names are looked up as in a container: the host's files, and nothing else.
install -D -m 644 /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost shield.test" > "$root/etc/hosts"
mapfile -t variables < <(sed -n 's/^ENV //p' packaging/docker/Dockerfile)
inside=(env -i PATH="$PATH" "${variables[@]}" TWICESHY_PASSWORD_FILE=/password
  TWICESHY_LISTEN=shield.test:0 TWICESHY_PAGE=127.0.0.1:16391
  chroot --userspec=65532:65532 "$root" /twiceshy)
"${inside[@]}" serve --check-config | grep -E '^(dir|listen|page) |password'
"${inside[@]}" serve &
server=$!
trap 'kill "$server"' EXIT
for _ in {1..100}; do
  ! "${inside[@]}" health >/dev/null 2>&1 || break
  sleep 0.1
done
"${inside[@]}" health
"${inside[@]}" health --alive
kill -TERM "$server"
wait "$server"
trap - EXIT
echo "it works in an empty root"
