#!/usr/bin/env bash
# Unpacks the tarball of a folder, and starts its binary where there is nothing else, no C library either.
#
#   tests/packages/tarball.sh FOLDER
. "$(dirname "$0")/lib.sh"
enclose "$@"

tar -C "$stage" -xzf "$(ls "$1"/guira-*-linux-*.tar.gz)"
tree=$(ls -d "$stage"/guira-*)
for file in LICENSE README.md etc/guira/guira.toml usr/share/man/man1/guira.1 usr/lib/systemd/system/guira.service; do
    [ -f "$tree/$file" ] || fail "$file is missing"
done
licenses "$tree/THIRD-PARTY-LICENSES"
parts "$tree/guira.cdx.json"
(cd "$1" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS does not fit"
mkdir "$stage/empty"
cp "$tree/usr/bin/guira" "$stage/empty/memcached"
mkdir "$stage/empty/proc"
mount -t proc proc "$stage/empty/proc"
chroot --userspec=65534:65534 "$stage/empty" /memcached -l 127.0.0.1 -m 64 &
server=$!
await "$server" || fail "the binary does not start alone"
reply=$(ask $'version\r\n')
[[ $reply == "VERSION "* ]] || fail "the server answers $reply"
kill "$server"
wait "$server" || fail "the server ended with $?"
say "the binary of $(basename "$tree") runs alone: $reply"
