#!/usr/bin/env bash
# Builds the Debian package: the program, its manual pages and completions, the service with its
# user and settings, and the dashboard and alerts as examples. It lands in target/deb.
# scripts/deb-try.sh tries it. An argument is a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
root="$target/deb/root"
program="${1:-}"
if [[ ! $program ]]; then
  cargo build --profile dist --locked --package twiceshy-cli
  program="$target/dist/twiceshy"
  bash scripts/binary.sh "$program"
fi

# Every file has the time of the commit, so that equal sources make equal packages. Not before the
# program is built: ring would be compiled again, and all that uses it.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
rm -rf "$root"
mkdir -p "$root"
install -D -m 755 "$program" "$root/usr/bin/twiceshy"
install -D -m 644 packaging/debian/twiceshy.toml "$root/etc/twiceshy/twiceshy.toml"
install -D -m 644 packaging/debian/twiceshy.service "$root/usr/lib/systemd/system/twiceshy.service"

"$program" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*
completions() { install -D -m 644 <("$program" completions "$1") "$root/usr/share/$2"; }
completions bash bash-completion/completions/twiceshy
completions zsh zsh/vendor-completions/_twiceshy
completions fish fish/vendor_completions.d/twiceshy.fish

documents="$root/usr/share/doc/twiceshy"
install -D -m 644 packaging/debian/copyright "$documents/copyright"
install -D -m 644 packaging/grafana/twiceshy.json "$documents/examples/grafana.json"
install -D -m 644 packaging/prometheus/alerts.yml "$documents/examples/prometheus-alerts.yml"
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)-1"
maintainer="The twiceshy authors <twiceshy@localhost>"
{
  printf 'twiceshy (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n' "$version"
  printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date --utc -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n > "$documents/changelog.Debian.gz"

mkdir "$root/DEBIAN"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN"
echo /etc/twiceshy/twiceshy.toml > "$root/DEBIAN/conffiles"
# The oldest C library that has every function that the program takes from it.
glibc="$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)"
cat > "$root/DEBIAN/control" <<CONTROL
Package: twiceshy
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: adduser, libc6 (>= $glibc), libgcc-s1
Section: database
Priority: optional
Description: adaptive filters in front of a store, for Redis clients
 A filter in memory keeps lookups of missing keys away from a slow store. This
 one is told of its false positives and never repeats them, not even for an
 attacker who asks again. The server speaks the Redis protocol and stands in
 front of PostgreSQL, Redis or a store of its own.
CONTROL
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
chmod -R go-w "$root"
dpkg-deb --root-owner-group --build "$root" "$target/deb" >/dev/null
ls -l "$target"/deb/twiceshy_"$version"_*.deb
