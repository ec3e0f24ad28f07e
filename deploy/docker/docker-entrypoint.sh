#!/bin/sh
# Options alone are memcached's.
set -eu

if [ "${1#-}" != "$1" ]; then
    set -- memcached "$@"
fi
exec "$@"
