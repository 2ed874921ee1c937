#!/usr/bin/env bash
# Tries the Debian package of scripts/deb.sh on a clean root file system, as root and with
# debootstrap: installs it, uses it, removes and purges it, and looks whether anything is left. The
# network inside has nothing but itself. TWICESHY_SUITE is Debian's release, bookworm by default.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
suite="${TWICESHY_SUITE:-bookworm}"
package="$(ls -t "$target"/deb/twiceshy_*.deb | head -1)"
clean="$target/deb/$suite" root="$target/deb/try"
[[ -e "$clean/etc/debian_version" ]] ||
  debootstrap --variant=minbase --include=adduser,iproute2,man-db "$suite" "$clean" >/dev/null
rm -rf "$root"
cp -a "$clean" "$root"
cp "$package" "$root/root/twiceshy.deb"
# Runs a script from standard input.
inside() {
  unshare --net --pid --fork --mount-proc="$root/proc" chroot "$root" /bin/bash -euo pipefail -c "$(cat)" </dev/null
}
# Without caches, logs, dpkg's own lists, and what adduser keeps for itself.
files() {
  (cd "$root" && find . -xdev ! -path './proc/*' ! -path './var/cache/*' ! -path './var/log/*' \
    ! -path './var/lib/dpkg/*' ! -path './etc/*-' ! -path './run/adduser' -printf '%p %u:%g %m\n' | sort)
}
users() { sort "$root/etc/passwd" "$root/etc/group"; }
# man-db's index is made at the first installation of a page.
inside <<<'mandb --quiet'
files > "$target/deb/before"
users > "$target/deb/users"

inside <<'SCRIPT'
  dpkg --install /root/twiceshy.deb
  dpkg --verify twiceshy
  twiceshy --version
  id twiceshy
  [[ $(stat -c %U:%a /var/lib/twiceshy) == twiceshy:700 ]]

  for page in twiceshy twiceshy-serve twiceshy-plan; do
    MANWIDTH=100 man --warnings --encoding=UTF-8 "$page" 2>/tmp/warnings >/tmp/page
    grep -q EXAMPLES /tmp/page
    [[ ! -s /tmp/warnings ]] || { cat /tmp/warnings; exit 1; }
  done
  source /usr/share/bash-completion/completions/twiceshy
  complete -p twiceshy

  run_as="setpriv --reuid twiceshy --regid twiceshy --clear-groups --no-new-privs"
  $run_as twiceshy serve --config /etc/twiceshy/twiceshy.toml --check-config | grep '^dir ='
  ip link set lo up
  $run_as twiceshy serve --config /etc/twiceshy/twiceshy.toml 2>/tmp/log &
  server=$!
  for attempt in {1..100}; do
    ! twiceshy health >/dev/null 2>&1 || break
    sleep 0.1
  done
  twiceshy health
  exec 3<>/dev/tcp/127.0.0.1/6390
  printf 'SET key value\r\nGET key\r\nGET other\r\n' >&3
  for expected in +OK '$5' value '$-1'; do
    read -r -t 5 answer <&3
    [[ ${answer%$'\r'} == "$expected" ]] || { echo "it answers $answer, not $expected"; exit 1; }
  done
  exec 3>&-
  kill -TERM "$server"
  wait "$server"
  cat /tmp/log
  grep -q stopped /tmp/log
  rm /tmp/log /tmp/warnings /tmp/page
SCRIPT
inside <<'SCRIPT'
  dpkg --remove twiceshy
  [[ ! -e /usr/bin/twiceshy && -e /etc/twiceshy/twiceshy.toml && -e /var/lib/twiceshy/records.redb ]]
  dpkg --install /root/twiceshy.deb >/dev/null
  echo secret > /etc/twiceshy/environment
  dpkg --purge twiceshy
  mandb --quiet
SCRIPT
diff "$target/deb/before" <(files)
diff "$target/deb/users" <(users)
echo "nothing is left"
rm -rf "$root"
