"""A real client, pymemcache, against a server: what applications do every day.

    pymemcache_smoke.py PATH_TO_GUIRA       starts `guira serve` on a free port and stops it afterwards
    pymemcache_smoke.py --address HOST:PORT talks to a running server, whose items it forgets
"""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError
from pymemcache.serde import pickle_serde
from server import Listening, host_and_port

PATIENCE_SECONDS = 10


def check(found, expected, what):
    if found != expected:
        raise SystemExit(f"pymemcache: {what}: expected {expected!r}, got {found!r}")


def refused(error, call, what):
    try:
        call()
    except error:
        return
    raise SystemExit(f"pymemcache: {what}: no {error.__name__}")


def set_and_get(client):
    check(client.set("key", b"value", noreply=False), True, "set")
    check(client.get("key"), b"value", "get")
    check(client.get("missing"), None, "get of a missing key")
    check(client.get("missing", b"default"), b"default", "get with a default")
    check(client.set("empty", b"", noreply=False), True, "set of nothing")
    check(client.get("empty"), b"", "get of nothing")
    check(client.set("binary", bytes(range(256)) * 4, noreply=False), True, "set of every byte")
    check(client.get("binary"), bytes(range(256)) * 4, "get of every byte")


def many(client):
    pairs = {f"many{number}": b"v%d" % number for number in range(500)}
    check(client.set_many(pairs, noreply=False), [], "set_many")
    check(client.get_many(list(pairs) + ["missing"]), pairs, "get_many")
    check({key: value for key, (value, _) in client.gets_many(list(pairs)).items()}, pairs, "gets_many")
    check(client.delete_many(list(pairs)[:250], noreply=False), True, "delete_many")
    check(len(client.get_many(list(pairs))), 250, "get_many after delete_many")


def storage_commands(client):
    check(client.add("added", b"1", noreply=False), True, "add of a new key")
    check(client.add("added", b"2", noreply=False), False, "add of a known key")
    check(client.replace("added", b"3", noreply=False), True, "replace of a known key")
    check(client.replace("other", b"3", noreply=False), False, "replace of a new key")
    check(client.append("added", b">", noreply=False), True, "append")
    check(client.prepend("added", b"<", noreply=False), True, "prepend")
    check(client.get("added"), b"<3>", "get after append and prepend")


def compare_and_swap(client):
    client.set("cas", b"old", noreply=False)
    value, unique = client.gets("cas")
    check(value, b"old", "gets")
    check(client.cas("cas", b"new", unique), True, "cas with the current unique")
    check(client.cas("cas", b"late", unique), False, "cas with an old unique")
    check(client.cas("missing", b"x", unique), None, "cas of a missing key")
    check(client.get("cas"), b"new", "get after cas")


def counters(client):
    client.set("count", b"10", noreply=False)
    check(client.incr("count", 5, noreply=False), 15, "incr")
    check(client.decr("count", 20, noreply=False), 0, "decr stops at zero")
    check(client.incr("missing", 1, noreply=False), None, "incr of a missing key")
    refused(MemcacheClientError, lambda: client.incr("key", 1, noreply=False), "incr of a word")


def expiration(client):
    client.set("short", b"x", expire=500, noreply=False)
    check(client.touch("short", 600, noreply=False), True, "touch")
    check(client.touch("missing", 600, noreply=False), False, "touch of a missing key")
    check(client.touch("short", -1, noreply=False), True, "touch into the past")
    check(client.get("short"), None, "get of an expired key")
    client.set("second", b"x", expire=1, noreply=False)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.get("second") is not None:
        if time.monotonic() > deadline:
            raise SystemExit("pymemcache: an item of one second does not expire")
        time.sleep(0.05)


def deletion(client):
    check(client.delete("key", noreply=False), True, "delete")
    check(client.delete("key", noreply=False), False, "second delete")
    check(client.get("key"), None, "get after delete")


def large_values(client):
    value = bytes(index % 251 for index in range(1_000_000))
    check(client.set("large", value, noreply=False), True, "set of a large value")
    check(client.get("large"), value, "get of a large value")
    refused(MemcacheServerError, lambda: client.set("large", b"x" * (1 << 20), noreply=False), "set of too much")
    check(client.set("after", b"x", noreply=False), True, "set after a refused set")


def without_replies(client):
    for number in range(1000):
        client.set(f"quiet{number}", b"%d" % number, noreply=True)
    client.incr("quiet7", 1, noreply=True)
    client.delete("quiet8", noreply=True)
    client.touch("quiet9", 100, noreply=True)
    check(client.get("quiet7"), b"8", "get after incr without reply")
    check(client.get("quiet8"), None, "get after delete without reply")
    check(client.get("quiet999"), b"999", "get after sets without reply")


def administration(client):
    stats = client.stats()
    check(b"curr_items" in stats and b"pid" in stats, True, "stats")
    check(client.version()[:1].isdigit(), True, "version")
    check(client.flush_all(noreply=False), True, "flush_all")
    check(client.get("quiet999"), None, "get after flush_all")


def other_clients(address):
    pooled = PooledClient(address, max_pool_size=4)
    check(pooled.set("pooled", b"x", noreply=False), True, "set of a pooled client")
    check(pooled.get("pooled"), b"x", "get of a pooled client")
    pooled.close()
    hashed = HashClient([address], serde=pickle_serde)
    check(hashed.set("object", {"a": [1, 2]}, noreply=False), True, "set of an object")
    check(hashed.get("object"), {"a": [1, 2]}, "get of an object, whose type is in the flags")
    hashed.close()


def run(address):
    client = Client(address, connect_timeout=PATIENCE_SECONDS, timeout=PATIENCE_SECONDS)
    client.flush_all(noreply=False)
    steps = [
        set_and_get,
        many,
        storage_commands,
        compare_and_swap,
        counters,
        expiration,
        deletion,
        large_values,
        without_replies,
        administration,
    ]
    for step in steps:
        step(client)
    client.close()
    other_clients(address)
    print(f"pymemcache: {len(steps) + 1} groups of calls as expected")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--address":
        server, address = None, arguments[1]
    elif len(arguments) == 1:
        server = Listening(arguments[0], ["--listen", "127.0.0.1:0"])
        address = server.places[0]
    else:
        raise SystemExit(__doc__)
    try:
        run(host_and_port(address))
    finally:
        if server is not None:
            server.close()


main(sys.argv[1:])
