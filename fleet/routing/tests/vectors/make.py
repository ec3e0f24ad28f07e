#!/usr/bin/env python3
"""Asks nutcracker (twemproxy) and libmemcached where keys go, and prints the vectors of twemproxy.tsv or libmemcached.tsv.

    make.py twemproxy > twemproxy.tsv          Debian's nutcracker 0.5.0, in front of servers of this script that answer with their number
    make.py libmemcached > libmemcached.tsv    Debian's libmemcached 1.1.4 (libmemcached11), no servers needed

A line: hash, key hash, servers, hash tag, and for each of the keys below the number of its server in base 36.
"""

import asyncio
import ctypes
import subprocess
import sys
import tempfile

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def keys(tag):
    for number in range(400):
        text = "k" * (number % 13) + str(number) + ("é" if number % 5 == 0 else "") + "x" * (number % 4)
        if tag and number % 2 == 0:
            text = f"a{tag[0]}{number % 7}{tag[1]}{text}"
        yield text.encode()


def servers(kind, count, weights, address):
    return [(kind, address(number), weights[number % len(weights)]) for number in range(count)]


NAMED = [servers("named", count, [1], lambda n: f"cache{n}") for count in (4, 7)]
DEFAULT_PORT = servers("at", 5, [1], lambda n: f"127.9.9.{n + 1}:11211")
OTHER_PORTS = servers("at", 5, [1], lambda n: f"127.9.9.1:{31000 + n}")
WEIGHTS = [[1, 2, 3, 10], [1, 1, 1, 1000], [7]]


def line(hash_name, key_hash, pool, tag, answers):
    listed = ",".join(f"{kind} {name} {weight}" for kind, name, weight in pool)
    print("\t".join([hash_name, key_hash, listed, tag or "-", "".join(DIGITS[answer] for answer in answers)]))


# twemproxy

TWEMPROXY_HASHES = "one_at_a_time md5 crc16 crc32 crc32a fnv1_64 fnv1a_64 fnv1_32 fnv1a_32 hsieh murmur jenkins".split()


def twemproxy_pools():
    for key_hash in TWEMPROXY_HASHES:
        for pool in NAMED:
            yield "ketama", key_hash, pool, None
            yield "modula", key_hash, pool, None
    for pool in (DEFAULT_PORT, OTHER_PORTS):
        yield "ketama", "fnv1a_64", pool, None
    for weights in WEIGHTS:
        pool = servers("named", 9, weights, lambda n: f"cache{n}")
        yield "ketama", "md5", pool, None
        yield "modula", "md5", pool, None
    for tag in ("{}", "$$"):
        yield "ketama", "murmur", NAMED[0], tag


async def serve_number(number, reader, writer):
    while request := await reader.readline():
        key = request.split()[1]
        writer.write(b"VALUE %s 0 1\r\n%s\r\nEND\r\n" % (key, DIGITS[number].encode()))
    writer.close()


async def ask(port, tag):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for key in keys(tag):
        writer.write(b"get " + key + b"\r\n")
        assert (await reader.readline()).startswith(b"VALUE "), key
        answers.append(DIGITS.index((await reader.readline()).strip().decode()))
        await reader.readline()
    writer.close()
    return answers


async def twemproxy():
    config, started, pools = "", set(), list(twemproxy_pools())
    for number, (distribution, key_hash, pool, tag) in enumerate(pools):
        config += f"p{number}:\n  listen: 127.0.0.1:{32000 + number}\n  hash: {key_hash}\n  distribution: {distribution}\n"
        config += f"  hash_tag: \"{tag}\"\n" if tag else ""
        config += "  servers:\n"
        for place, (kind, name, weight) in enumerate(pool):
            address = name if kind == "at" else f"127.9.9.1:{31000 + place}"
            config += f"  - {address}:{weight}" + (f" {name}\n" if kind == "named" else "\n")
            if address not in started:
                started.add(address)
                host, port = address.split(":")
                await asyncio.start_server(lambda r, w, place=place: serve_number(place, r, w), host, int(port))
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(config)
        file.flush()
        command = ["nutcracker", "-c", file.name, "-s", "32999", "-o", "/dev/null"]
        proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            await asyncio.sleep(1)
            for number, (distribution, key_hash, pool, tag) in enumerate(pools):
                name = {"ketama": "KetamaTwemproxy", "modula": "Modula"}[distribution]
                line(name, key_hash, pool, tag, await ask(32000 + number, tag))
        finally:
            proxy.terminate()
            proxy.wait()
            await asyncio.sleep(1)  # until the servers have seen the ends of their connections


# libmemcached

HASH, DISTRIBUTION, KETAMA, KETAMA_WEIGHTED = 2, 9, 3, 16
MODULA, CONSISTENT = 0, 1
LIBMEMCACHED_HASHES = {
    "one_at_a_time": 0, "md5": 1, "crc32": 2, "fnv1_64": 3, "fnv1a_64": 4, "fnv1_32": 5, "fnv1a_32": 6, "murmur": 8, "jenkins": 9,
}


def libmemcached_pools():
    for key_hash, number in LIBMEMCACHED_HASHES.items():
        for pool in (NAMED[0], DEFAULT_PORT):
            yield "Modula", key_hash, pool, [(DISTRIBUTION, MODULA), (HASH, number)]
            yield "KetamaLibmemcached", key_hash, pool, [(DISTRIBUTION, CONSISTENT), (HASH, number)]
            yield "KetamaLibmemcachedWeighted", key_hash, pool, [(KETAMA_WEIGHTED, 1), (HASH, number)]
    for pool in (NAMED[1], DEFAULT_PORT, OTHER_PORTS):
        yield "KetamaLibmemcached", "one_at_a_time", pool, [(KETAMA, 1)]  # earlier versions: md5
        yield "KetamaLibmemcachedWeighted", "md5", pool, [(KETAMA_WEIGHTED, 1)]
    for weights in WEIGHTS:
        pool = servers("at", 9, weights, lambda n: f"127.9.9.{n + 1}:11211")
        yield "KetamaLibmemcachedWeighted", "md5", pool, [(KETAMA_WEIGHTED, 1)]
    # A weight above 1 is enough.
    pool = servers("at", 9, WEIGHTS[0], lambda n: f"127.9.9.{n + 1}:11211")
    yield "KetamaLibmemcachedWeighted", "one_at_a_time", pool, [(DISTRIBUTION, CONSISTENT)]


def libmemcached():
    library = ctypes.CDLL("libmemcached.so.11")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32
    library.memcached_create.restype = pointer
    library.memcached_create.argtypes = [pointer]
    library.memcached_behavior_set.argtypes = [pointer, ctypes.c_int, ctypes.c_uint64]
    library.memcached_server_add_with_weight.argtypes = [pointer, text, ctypes.c_uint16, number]
    library.memcached_generate_hash.restype = number
    library.memcached_generate_hash.argtypes = [pointer, text, ctypes.c_size_t]
    for hash_name, key_hash, pool, behaviors in libmemcached_pools():
        client = library.memcached_create(None)
        for behavior in behaviors:
            assert library.memcached_behavior_set(client, *behavior) == 0
        for _, name, weight in pool:
            host, _, port = name.partition(":")
            assert library.memcached_server_add_with_weight(client, host.encode(), int(port or 11211), weight) == 0
        line(hash_name, key_hash, pool, None, [library.memcached_generate_hash(client, key, len(key)) for key in keys(None)])


if sys.argv[1:] == ["twemproxy"]:
    asyncio.run(twemproxy())
elif sys.argv[1:] == ["libmemcached"]:
    libmemcached()
else:
    sys.exit(__doc__)
