# What the scripts beside this file share. They run as root, in namespaces of their own: nothing outside of them is changed,
# and no port of this machine is used.
set -euo pipefail

name=$(basename "$0")
fail() { echo "$name: $*" >&2; exit 1; }
say() { echo "-- $*"; }

# Begins the script anew in namespaces of its own, with an empty file system in memory at $stage.
enclose() {
    if [ "${GUIRA_ENCLOSED:-}" != yes ]; then
        GUIRA_ENCLOSED=yes exec unshare --mount --net --pid --fork --kill-child bash "$0" "$@"
    fi
    mount --make-rprivate /
    mount -t proc proc /proc
    stage=/mnt
    mount -t tmpfs none "$stage"
    ip link set lo up
}

# What the server at port 11211 answers to a line.
ask() {
    local reply
    exec 3<>/dev/tcp/127.0.0.1/11211
    printf '%s' "$1" >&3
    IFS= read -r -t 5 reply <&3 || fail "no answer to $1"
    exec 3>&-
    echo "${reply%$'\r'}"
}

# Waits until a server answers at port 11211, as long as the process lives.
await() {
    for _ in $(seq 100); do
        if (exec 3<>/dev/tcp/127.0.0.1/11211) 2>/dev/null; then return; fi
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

# Looks whether a file is a list of the parts of the program.
parts() {
    for part in '"bomFormat": "CycloneDX"' '"specVersion": "1.5"' 'pkg:cargo/ring@' 'pkg:generic/rust-std@'; do
        grep -q -F -e "$part" "$1" || fail "$part is not in $1"
    done
    [ -z "${SOURCE_DATE_EPOCH:-}" ] || return 0
    if grep -q -e '"timestamp"' -e '"serialNumber"' "$1"; then fail "$1 differs from build to build"; fi
}

# Looks whether a file has the licenses of what is linked: the texts, each once, and the names of crates.
licenses() {
    local text
    text=$(cat "$1")
    for part in '  ring [0-9]' '  rustls [0-9]' '  memchr [0-9]' 'Apache License' 'Permission is hereby granted' \
        'Permission to use, copy, modify' 'Redistribution and use in source' 'GNU LESSER GENERAL PUBLIC LICENSE'; do
        grep -q -e "$part" <<<"$text" || fail "$part is not in the file of licenses"
    done
}
