"""pylibmc (libmemcached) against the servers that server.py names in the environment: what applications do every day.

It speaks text and binary by TCP and a UNIX socket, and binary with a password by TCP. libmemcached has no TLS, and
cannot log in by a UNIX socket, whose address it cannot name.
"""

import glob
import os
import time

# The library comes with a libsasl that looks for its mechanisms in one folder only. It must be told before it is loaded.
PLUGINS = glob.glob("/usr/lib/*/sasl2/libplain.so") + glob.glob("/usr/lib*/sasl2/libplain.so")
if PLUGINS:
    os.environ.setdefault("SASL_PATH", os.path.dirname(PLUGINS[0]))

import pylibmc  # noqa: E402

PATIENCE_SECONDS = 10
MISSING = pylibmc.NotFound


def check(found, expected, what):
    if found != expected:
        raise SystemExit(f"pylibmc: {what}: expected {expected!r}, got {found!r}")


def refused(error, call, what):
    try:
        call()
    except error:
        return
    raise SystemExit(f"pylibmc: {what}: no {error.__name__}")


def not_stored(call, what):
    """In binary the server tells a missing key from other reasons, and libmemcached hands that on."""
    try:
        check(call(), False, what)
    except MISSING:
        pass


def storage_commands(client):
    check(client.set("key", b"value"), True, "set")
    check(client.get("key"), b"value", "get")
    check(client.get("missing"), None, "get of a missing key")
    check(client.set("empty", b""), True, "set of nothing")
    check(client.get("empty"), b"", "get of nothing")
    check(client.add("added", b"1"), True, "add of a new key")
    check(client.add("added", b"2"), False, "add of a known key")
    check(client.replace("added", b"3"), True, "replace of a known key")
    not_stored(lambda: client.replace("other", b"3"), "replace of a new key")
    check(client.append("added", b">"), True, "append")
    check(client.prepend("added", b"<"), True, "prepend")
    check(client.get("added"), b"<3>", "get after append and prepend")
    not_stored(lambda: client.append("other", b">"), "append to nothing")
    check(client.delete("key"), True, "delete")
    check(client.delete("key"), False, "second delete")
    check(client.get("key"), None, "get after delete")


def flags(client):
    # The type of a value travels in the flags.
    values = {"text": "å∫ç", "int": 7, "true": True, "object": {"a": [1, 2]}, "bytes": bytes(range(256))}
    for name, value in values.items():
        check(client.set(name, value), True, f"set of {name}")
        check(client.get(name), value, f"get of {name}")
    text = "compress me " * 1000
    check(client.set("compressed", text, min_compress_len=100), True, "set of compressed text")
    check(client.get("compressed"), text, "get of compressed text")


def counters(client):
    client.set("count", 10)
    check(client.incr("count", 5), 15, "incr")
    check(client.decr("count", 20), 0, "decr stops at zero")
    refused(MISSING, lambda: client.incr("missing", 1), "incr of a missing key")
    client.set("word", "x")
    # libmemcached gives the server up after this error, so a client is spent on it.
    spent = client.clone()
    refused(pylibmc.Error, lambda: spent.incr("word", 1), "incr of a word")


def many(client):
    pairs = {f"many{number}": b"v%d" % number for number in range(500)}
    check(client.set_multi(pairs), [], "set_multi")
    check(client.get_multi([*pairs, "missing"]), pairs, "get_multi")
    check(client.delete_multi(list(pairs)[:250]), True, "delete_multi")
    check(len(client.get_multi(list(pairs))), 250, "get_multi after delete_multi")
    check(client.set_multi({"b": b"2", "c": b"3"}, key_prefix="a"), [], "set_multi with a prefix")
    check(client.get_multi(["b", "c"], key_prefix="a"), {"b": b"2", "c": b"3"}, "get_multi with a prefix")


def compare_and_swap(client):
    client.set("cas", b"old")
    value, unique = client.gets("cas")
    check(value, b"old", "gets")
    check(client.cas("cas", b"new", unique), True, "cas with the current unique")
    check(client.cas("cas", b"late", unique), False, "cas with an old unique")
    refused(MISSING, lambda: client.cas("missing", b"x", unique), "cas of a missing key")
    check(client.get("cas"), b"new", "get after cas")


def expiration(client):
    client.set("long", b"x", time=500)
    check(client.touch("long", 600), True, "touch")
    check(client.touch("missing", 600), False, "touch of a missing key")
    check(client.get("long"), b"x", "get after touch")
    client.set("second", b"x", time=1)
    client.touch("long", 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.get("second") is not None or client.get("long") is not None:
        if time.monotonic() > deadline:
            raise SystemExit("pylibmc: an item of one second does not expire")
        time.sleep(0.05)


def keys_and_values(client):
    longest, unicode_key = "k" * 250, "schlüssel-键-ключ"
    for key in (longest, unicode_key):
        check(client.set(key, key), True, f"set of {key}")
        check(client.get(key), key, f"get of {key}")
    check(client.get_multi([longest, unicode_key]), {key: key for key in (longest, unicode_key)}, "get_multi of these")
    refused((ValueError, pylibmc.Error), lambda: client.set("k" * 251, b"x"), "set of a key of 251 bytes")
    large = bytes(index % 251 for index in range((1 << 20) - 1000))
    check(client.set("large", large), True, "set of a large value")
    check(client.get("large"), large, "get of a large value")
    refused(pylibmc.Error, lambda: client.set("large", b"x" * ((1 << 20) + 1)), "set of too much")
    check(client.set("after", b"x"), True, "set after a refused set")


def administration(client):
    [(_, stats)] = client.get_stats()
    check("curr_items" in stats and "pid" in stats, True, "stats")
    check(client.flush_all(), True, "flush_all")
    check(client.get("after"), None, "get after flush_all")


STEPS = [
    storage_commands,
    flags,
    counters,
    many,
    compare_and_swap,
    expiration,
    keys_and_values,
    administration,
]


def run(name, place, **options):
    client = pylibmc.Client([place], behaviors={"cas": True, "tcp_nodelay": True}, **options)
    client.flush_all()
    for step in STEPS:
        step(client)
    client.disconnect_all()
    print(f"pylibmc over {name}: {len(STEPS)} groups of calls as expected", flush=True)


def main():
    place = os.environ.__getitem__
    for protocol, binary in {"text": False, "binary": True}.items():
        run(f"TCP, {protocol}", place("GUIRA_PLAIN"), binary=binary)
        run(f"a UNIX socket, {protocol}", place("GUIRA_UNIX"), binary=binary)
    if not PLUGINS:
        print("pylibmc with a password: left out: libsasl2-modules is not installed")
        return
    login = {"username": place("GUIRA_USER"), "password": place("GUIRA_PASSWORD")}
    run("TCP, with a password", place("GUIRA_SASL"), binary=True, **login)
    wrong = pylibmc.Client([place("GUIRA_SASL")], binary=True, **(login | {"password": "wrong"}))
    refused(pylibmc.Error, lambda: wrong.set("key", b"x"), "set with a wrong password")
    stranger = pylibmc.Client([place("GUIRA_SASL")], binary=True)
    refused(pylibmc.Error, lambda: stranger.set("key", b"x"), "set without a password")


main()
