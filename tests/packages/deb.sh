#!/usr/bin/env bash
# Installs the .deb of a folder into a root of its own, starts it by its unit's command, upgrades, removes and purges it.
#
#   tests/packages/deb.sh FOLDER overlay       the root is this system
#   tests/packages/deb.sh FOLDER debootstrap   the root is the smallest Debian, from the mirror that apt-get uses
#
# A layer above the root is what is written to, and thrown away.
. "$(dirname "$0")/lib.sh"

folder=$(realpath "$1") kind=$2
case "$kind" in
overlay) base=/ ;;
debootstrap)
    # Made once, while there is a network.
    base=$folder/debian
    if [ ! -d "$base" ]; then
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -1)
        say "debootstrap from ${mirror:=http://deb.debian.org/debian/}"
        debootstrap --variant=minbase --include=systemd-standalone-sysusers "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
            "$base.unfinished" "$mirror" >"$folder/debootstrap.log" 2>&1 || { tail "$folder/debootstrap.log" >&2; fail "debootstrap failed"; }
        mv "$base.unfinished" "$base"
    fi
    ;;
*) fail "$kind is neither overlay nor debootstrap" ;;
esac
deb=$(ls "$folder"/guira_*.deb) lab=$(ls "$folder"/guira-lab_*.deb)
if [ "${GUIRA_ENCLOSED:-}" != yes ] && [ "$kind" = debootstrap ] && command -v lintian >/dev/null; then
    say "lintian"
    lintian --allow-root --fail-on error,warning "$deb" "$lab" || fail "lintian complains"
fi
enclose "$@"

root=$stage/root
mkdir "$root" "$stage"/{upper,work}
mount -t overlay overlay -o "lowerdir=$base,upperdir=$stage/upper,workdir=$stage/work" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 none "$root/run"
mount -t tmpfs none "$root/tmp"
mount -t tmpfs none "$root/dev"
mkdir "$root/dev/shm"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
dpkg_() { in_root dpkg "$@" >"$stage/log" 2>&1 || { cat "$stage/log" >&2; fail "dpkg $*"; }; }
# Everything that is not a record of dpkg, with links and what configuration says.
listing() { (cd "$root" && find etc usr var lib/systemd ! -path 'var/lib/dpkg/*' ! -path 'var/log/*' ! -path 'var/cache/*' \
    ! -path 'usr/share/mime/*' -printf '%p %y %l\n' 2>/dev/null | grep -v -e '^etc/[^ ]*- ' -e '^etc/\.pwd\.lock ' | sort); }

# The index of man pages is not made anew each time.
rm -f "$root/var/lib/man-db/auto-update"
# A Guira that is installed here is not the one that is tested.
for package in guira-lab guira memcached; do
    if in_root dpkg-query -W "$package" >/dev/null 2>&1; then dpkg_ --purge "$package"; fi
done
cp "$deb" "$root/tmp/guira.deb"
cp "$lab" "$root/tmp/guira-lab.deb"
listing >"$stage/before"

# Services that have to be told what to do.
others="guira-router.service guira-member.service guira-invalidator.service guira-checker.service"

say "install: $(basename "$deb")"
dpkg_ --install /tmp/guira.deb
for file in /usr/bin/guira /etc/guira/guira.toml /usr/lib/systemd/system/guira.service /usr/lib/systemd/system/guira.socket \
    /usr/share/doc/guira/examples/{invalidator.toml,checker.toml,router.json,router.env,member.env} /usr/share/doc/guira/guide/replacing-mcrouter.md \
    /usr/lib/sysusers.d/guira.conf /usr/lib/guira/memcached-options /usr/share/man/man1/guira.1.gz /usr/share/man/man1/guira-serve.1.gz \
    /usr/share/bash-completion/completions/guira /usr/share/zsh/vendor-completions/_guira \
    /usr/share/fish/vendor_completions.d/guira.fish /usr/share/doc/guira/copyright \
    /usr/share/doc/guira/rust-library-licenses.html.gz; do
    [ -e "$root$file" ] || fail "$file is not installed"
done
licenses <(gzip -cd "$root/usr/share/doc/guira/THIRD-PARTY-LICENSES.gz")
parts "$root/usr/share/doc/guira/guira.cdx.json"
in_root getent passwd guira >/dev/null || fail "there is no user guira"
enabled=/etc/systemd/system/multi-user.target.wants/guira.service
[ -L "$root$enabled" ] || fail "guira.service is not enabled"
for unit in $others; do
    [ -e "$root/usr/lib/systemd/system/$unit" ] || fail "$unit is not installed"
    [ ! -L "$root/etc/systemd/system/multi-user.target.wants/$unit" ] || fail "$unit is enabled"
done
[ ! -e "$root/etc/systemd/system/sockets.target.wants/guira.socket" ] || fail "guira.socket is enabled"
[ "$(in_root readlink -f /usr/bin/memcached)" = /usr/bin/guira ] || fail "memcached is no alternative"
[ "$(in_root readlink -f /usr/share/man/man1/memcached.1.gz)" = /usr/share/man/man1/guira-memcached.1.gz ] || fail "the man page is no slave"
in_root memcached -V | grep -q '^memcached 1\.6' || fail "memcached does not run"

say "completion of bash"
in_root bash -c '. /usr/share/bash-completion/completions/guira
    COMP_WORDS=(guira ser) COMP_CWORD=1; _guira guira ser guira; [ "${COMPREPLY[*]}" = serve ]' || fail "bash does not complete guira ser"

# What systemd does with a unit, as far as it decides whether the server comes up: the command, the user and the folders.
of_unit() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/guira.service"; }
start() {
    for name in $(of_unit RuntimeDirectory); do install -d -o "$uid" -g "$gid" "$root/run/$name"; done
    for name in $(of_unit StateDirectory); do install -d -o "$uid" -g "$gid" "$root/var/lib/$name"; done
    read -r -a command <<<"$(of_unit ExecStart)"
    chmod 1777 "$root/dev/shm"
    chroot --userspec="$uid:$gid" "$root" /usr/bin/env -i PATH=/usr/bin "${command[@]}" >"$stage/server" 2>&1 &
    server=$!
    await "$server" || { cat "$stage/server" >&2; fail "${command[*]} does not come up"; }
}
stop() { kill -TERM "$server"; wait "$server" || fail "the server ended with $?"; }
uid=$(in_root id -u "$(of_unit User)") gid=$(in_root id -g "$(of_unit Group)")
say "start: $(of_unit ExecStart)"
start
reply=$(ask $'version\r\n')
[[ $reply == "VERSION $(in_root memcached -V | cut -d' ' -f2)"* ]] || fail "the server answers $reply"
stop

say "upgrade, with a cache that lasts, a configuration that was changed and a service that was disabled"
sed -i 's/^#region = /region = /' "$root/etc/guira/guira.toml"
start
[ "$(ask $'set k 0 0 1\r\nv\r\n')" = STORED ] || fail "the server does not store"
stop
rm "$root$enabled"
dpkg_ --install --force-confdef --force-confold /tmp/guira.deb
grep -q '^region = ' "$root/etc/guira/guira.toml" || fail "the configuration is overwritten"
[ ! -L "$root$enabled" ] || fail "an upgrade enables what was disabled"
start
[ "$(ask $'get k\r\n')" = "VALUE k 0 1" ] || { cat "$stage/server" >&2; fail "the cache did not outlast the upgrade"; }
stop
[ -e "$root/dev/shm/guira-main" ] || fail "the cache is not where purge looks for it"

say "the laboratory, in a package of its own"
in_root guira load --help >/dev/null 2>"$stage/log" && fail "guira has the laboratory in it"
grep -q 'install the package guira-lab' "$stage/log" || { cat "$stage/log" >&2; fail "guira does not say where the laboratory is"; }
dpkg_ --install /tmp/guira-lab.deb
in_root guira load --help >/dev/null || fail "guira load does not start guira-lab"
[ -e "$root/usr/share/man/man1/guira-lab-load.1.gz" ] || fail "guira-lab has no man page"
licenses <(gzip -cd "$root/usr/share/doc/guira-lab/THIRD-PARTY-LICENSES.gz")
parts "$root/usr/share/doc/guira-lab/guira-lab.cdx.json"
dpkg_ --purge guira-lab

say "remove: configuration stays"
dpkg_ --remove guira
[ -e "$root/etc/guira/guira.toml" ] || fail "remove took the configuration"
[ ! -e "$root/usr/bin/guira" ] && [ ! -e "$root/usr/bin/memcached" ] || fail "remove left a binary"

say "purge: nothing stays but the user"
dpkg_ --purge guira
listing >"$stage/after"
if ! diff "$stage/before" "$stage/after" >"$stage/log"; then
    cat "$stage/log" >&2
    fail "purge left something"
fi
[ -z "$(ls "$root/dev/shm" "$root/run" | grep guira)" ] || fail "purge left a cache or a socket"

say "beside a memcached that is enabled: its file and its port stay its own"
printf '#!/bin/sh\necho other\n' >"$root/usr/bin/memcached"
chmod +x "$root/usr/bin/memcached"
mkdir -p "$root/usr/lib/systemd/system" "$root/etc/systemd/system/multi-user.target.wants"
printf '[Service]\nExecStart=/usr/bin/memcached\n[Install]\nWantedBy=multi-user.target\n' >"$root/usr/lib/systemd/system/memcached.service"
ln -s /usr/lib/systemd/system/memcached.service "$root/etc/systemd/system/multi-user.target.wants/"
dpkg_ --install /tmp/guira.deb
grep -q 'guira.service is left disabled' "$stage/log" || fail "nothing is said of memcached.service"
[ ! -L "$root$enabled" ] || fail "guira.service is enabled beside memcached.service"
[ "$(in_root memcached)" = other ] || fail "memcached was overwritten"
dpkg_ --install /tmp/guira.deb
[ ! -L "$root$enabled" ] || fail "an upgrade enables it beside memcached.service"
dpkg_ --purge guira
[ "$(in_root memcached)" = other ] || fail "purge took the file of another package"

say "what systemd is asked for, at each step of a package's life"
rm "$root/etc/systemd/system/multi-user.target.wants/memcached.service" "$root/usr/lib/systemd/system/memcached.service"
rm "$root/usr/bin/memcached"
mkdir -p "$root/run/systemd/system"
for program in systemctl deb-systemd-invoke; do
    rm -f "$root/usr/bin/$program"
    printf '#!/bin/sh\necho "%s $*" | grep -v -e daemon-reload -e --root= >>/tmp/asked\n' "$program" >"$root/usr/bin/$program"
    chmod +x "$root/usr/bin/$program"
done
script() { in_root "/var/lib/dpkg/info/guira.$1" "${@:2}" >>"$stage/log" 2>&1 || { cat "$stage/log" >&2; fail "$*"; }; }
expect() {
    local asked
    touch "$root/tmp/asked"
    asked=$(sed 's/^deb-systemd-invoke //' "$root/tmp/asked" | paste -sd ';')
    [ "$asked" = "$2" ] || fail "$1: systemd was asked for \"$asked\" and not for \"$2\""
    rm -f "$root/tmp/asked"
}
dpkg_ --install /tmp/guira.deb
expect "a first installation" "start guira.socket guira.service $others"
dpkg_ --install /tmp/guira.deb
expect "an upgrade" "try-restart guira.service $others"
dpkg_ --remove guira
expect "a removal" "stop guira.socket guira.service $others"
dpkg_ --install /tmp/guira.deb
expect "an installation after a removal" "start guira.socket guira.service $others"
sed -i 's/^#takeover = /takeover = /' "$root/etc/guira/guira.toml"
grep -q '^takeover = ' "$root/etc/guira/guira.toml" || fail "the configuration names no takeover"
dpkg_ --install --force-confold /tmp/guira.deb
expect "an upgrade with a takeover" "systemctl kill --kill-who=main --signal=USR2 guira.service;try-restart $others"
echo 'system-calls = "listed"' >> "$root/etc/guira/guira.toml"
dpkg_ --install --force-confold /tmp/guira.deb
expect "an upgrade of a server that starts no programs" "try-restart guira.service $others"
dpkg_ --remove guira
rm -f "$root/tmp/asked"
dpkg_ --install --force-confold /tmp/guira.deb
expect "an installation after a removal, with a takeover" "start guira.socket guira.service $others"
script prerm remove
[ ! -e "$root/usr/bin/memcached" ] || fail "prerm leaves the alternative"
script postinst abort-remove
[ "$(in_root readlink -f /usr/bin/memcached)" = /usr/bin/guira ] || fail "the alternative is gone after a removal that was given up"
expect "a removal that was given up" "stop guira.socket guira.service $others;start guira.socket guira.service $others"
script prerm upgrade 9.9
script postinst abort-upgrade 9.9
script prerm deconfigure in-favour other 1
script postinst abort-deconfigure in-favour other 1
expect "an upgrade that was given up" ""
[ ! -e "$root/run/guira.begins" ] || fail "a mark is left"
say "all is well"
