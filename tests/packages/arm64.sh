#!/usr/bin/env bash
# Unpacks the packages for arm64 of a folder, and starts their programs by an emulator of the processor.
#
#   tests/packages/arm64.sh FOLDER EMULATOR…     such as qemu-aarch64 -L /usr/aarch64-linux-gnu
. "$(dirname "$0")/lib.sh"
enclose "$@"

folder=$1
shift
deb=$(ls "$folder"/guira_*_arm64.deb) tarball=$(ls "$folder"/guira-*-linux-aarch64.tar.gz)
(cd "$folder" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS does not fit"
[ "$(dpkg-deb --field "$deb" Architecture)" = arm64 ] || fail "$deb is not for arm64"
[[ $(dpkg-deb --field "$deb" Depends) == "libc6 (>= "* ]] || fail "$deb needs $(dpkg-deb --field "$deb" Depends)"
mkdir "$stage/deb" "$stage/tarball"
dpkg-deb --extract "$deb" "$stage/deb"
tar -C "$stage/tarball" -xzf "$tarball"
for program in "$stage/deb/usr/bin/guira" "$stage"/tarball/guira-*/usr/bin/guira; do
    "$@" "$program" memcached -l 127.0.0.1 -m 64 -u root &
    server=$!
    await "$server" || fail "$program does not start"
    exec 4<>/dev/tcp/127.0.0.1/11211
    printf 'set a 0 0 2\r\nhi\r\nget a\r\n' >&4
    for expected in STORED 'VALUE a 0 2' hi END; do
        IFS= read -r -t 10 reply <&4 || fail "$program does not answer"
        [ "${reply%$'\r'}" = "$expected" ] || fail "$program answers $reply in place of $expected"
    done
    exec 4>&-
    kill "$server"
    wait "$server" || fail "the server ended with $?"
    say "${program#"$stage"/} stores and reads"
done
