#!/usr/bin/env bash
# Loads the image of a folder into podman, and runs it as memcached's image is run. Without podman it says so, and ends well.
#
#   tests/packages/image.sh FOLDER
. "$(dirname "$0")/lib.sh"
command -v podman >/dev/null || { say "podman is not installed: the image is not run"; exit 0; }
enclose "$@"

# crun wants one hierarchy of control groups, which not every machine has.
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup

# Images are kept in $stage, and nothing is asked of a daemon or of systemd.
podman_() { podman --root "$stage/images" --runroot "$stage/run" --tmpdir "$stage/tmp" --storage-driver vfs \
    --cgroup-manager cgroupfs --events-backend file "$@"; }
run() { podman_ run --rm --cgroups=disabled --network=host --read-only --cap-drop=ALL "$@"; }

podman_ load -q -i "$1/guira-image.tar" | grep -q '/guira:[0-9]' || fail "the image cannot be loaded, or has no name"
image=$(podman_ images -q | head -1)
[[ $(run "$image" -V) == memcached* ]] || fail "options alone are not memcached's"
[[ $(run "$image" memcached -V) == memcached* ]] || fail "memcached is not started by its name"
[[ $(run "$image" guira --version) == guira* ]] || fail "guira is not started by its name"
run --name cache "$image" -m 64 &
server=$!
await "$server" || fail "the image does not serve"
reply=$(ask $'version\r\n')
[[ $reply == "VERSION "* ]] || fail "the server answers $reply"
[ "$(podman_ inspect --format '{{.Config.User}}' cache)" = 11211:11211 ] || fail "the server runs as another user"
podman_ cp cache:/usr/share/doc/guira/THIRD-PARTY-LICENSES "$stage/licenses"
licenses "$stage/licenses"
podman_ cp cache:/usr/share/doc/guira/guira.cdx.json "$stage/parts"
parts "$stage/parts"
podman_ stop -t 10 cache >/dev/null
wait "$server" || fail "the server ended with $?"
say "the image serves: $reply"
