"""With what clients are made."""

import importlib.metadata
import json

import pytest

import guira
from guira._setup import all_named


def test_keys_are_spread_over_servers_as_a_router_spreads_them(make, servers, key):
    client = make(servers)
    keys = [f"{key}-{number}" for number in range(200)]
    client.set_many(dict.fromkeys(keys, b"x"))
    counts = []
    for server in servers:
        found = make(server).get_many(keys)
        counts.append(len(found))
    assert sum(counts) == 200 and all(40 < count < 100 for count in counts), counts
    config = {"pools": {"all": {"servers": servers}}, "route": "PoolRoute|all"}
    for same in (config, json.dumps(config)):
        assert make(config=same).get_many(keys) == dict.fromkeys(keys, b"x")
    assert sorted(client.versions()) == sorted(servers)
    with pytest.raises(guira.MemcacheClientError, match="versions"):
        client.version()


def test_a_configuration_says_where_keys_go_when_servers_are_away(make, server, nobody, key):
    client = make(
        config={
            "pools": {"main": {"servers": [nobody]}, "gutter": {"servers": [server]}},
            "route": {"type": "FailoverRoute", "children": ["PoolRoute|main", "PoolRoute|gutter"]},
        }
    )
    assert client.set(key, b"x") is True
    assert make(server).get(key) == b"x"


def test_servers_are_named_in_pymemcache_s_ways(make, start, server, tmp_path, key):
    host, port = server.split(":")
    socket = str(tmp_path / "socket")
    start("--listen", f"unix:{socket}")
    pair = (host, int(port))
    for name in (server, pair, [server], [pair], (pair,), f"unix:{socket}", socket):
        client = make(name)
        assert client.set(key, b"x") and client.get(key) == b"x", name
    hosts = ["cache", ("::1", 1), "[::1]", "cache:1:ascii:ssl"]
    assert all_named(hosts) == ["cache:11211", "[::1]:1", "[::1]:11211", "cache:1:ascii:ssl"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "either"),
        ({"server": "a:1", "config": "{}"}, "either"),
        ({"server": []}, "no server"),
        ({"server": 7}, "server"),
        ({"server": [7]}, "server"),
        ({"config": "{"}, "configuration"),
        ({"config": {"route": "PoolRoute|none"}}, "none"),
        ({"server": "127.0.0.1:1", "timeout": 0}, "timeout"),
        ({"server": "127.0.0.1:1", "timeout": -1}, "timeout"),
        ({"server": "127.0.0.1:1", "timeout": float("nan")}, "timeout"),
        ({"server": "127.0.0.1:1:ascii:ssl"}, "trusted"),
        ({"server": "127.0.0.1:1", "ca_file": "x", "verify": False}, "ca_file"),
    ],
)
def test_what_cannot_be_used_is_refused(make, arguments, problem):
    with pytest.raises(ValueError, match=problem):
        make(**arguments)


def test_names_without_address_are_errors_of_the_system(make):
    with pytest.raises(OSError, match="no-such-host.invalid"):
        make("no-such-host.invalid:11211")


def test_what_only_pymemcache_has_is_refused_with_its_replacement(make, nobody):
    for option, replacement in {
        "connect_timeout": "timeout is the limit for connecting and for replies",
        "default_noreply": "each call waits",
        "no_delay": "TCP_NODELAY",
        "tls_context": "ca_file",
        "socket_keepalive": "timeout",
        "hasher": "config",
        "use_pooling": "max_pool_size",
        "servers": "first argument",
    }.items():
        with pytest.raises(TypeError, match=f"has no argument '{option}': .*{replacement}"):
            make(nobody, **{option: True})
    with pytest.raises(TypeError, match="unexpected keyword argument 'time_out'"):
        make(nobody, time_out=1)
    with pytest.raises(TypeError, match="number of seconds"):
        make(nobody, timeout=None)
    with pytest.raises(TypeError, match="one connection"):
        guira.AsyncClient(nobody, max_pool_size=2)


def test_a_client_shows_its_servers_and_its_timeout(nobody):
    assert repr(guira.Client(nobody)) == f"Client(['{nobody}'], timeout=1.0)"
    pairs = (pair for pair in [("127.0.0.1", 1), ("127.0.0.1", 2)])
    shown = "AsyncClient(['127.0.0.1:1', '127.0.0.1:2'], timeout=0.5)"
    assert repr(guira.AsyncClient(pairs, timeout=0.5)) == shown
    config = {"pools": {"all": {"servers": [nobody]}}, "route": "PoolRoute|all"}
    assert repr(guira.Client(config=config)) == "Client(config=..., timeout=1.0)"


def test_the_version_is_that_of_the_package():
    assert guira.__version__ == importlib.metadata.version("guira")
    assert guira.Client[str] and guira.AsyncClient[str]


def test_gets_go_by_udp_if_somebody_wants_that(make, start, free_port, key):
    place = f"127.0.0.1:{free_port}"
    start("--udp", place, listen=place)
    client = make(place, udp_gets=True)
    client.set(key, b"x")
    assert client.get(key) == b"x"
    assert client.get_many([key, key + "-missing"]) == {key: b"x"}
    assert client.counters()["udp_keys"] == 3


def test_servers_over_tls_are_asked_if_they_are_trusted(make, start, certificate, key):
    authority, path, private = certificate
    server = start("--tls-cert", path, "--tls-key", private).places[0]
    for trust in ({"ca_file": authority}, {"verify": False}):
        client = make(f"{server}:ascii:ssl", **trust)
        assert client.set(key, b"x") and client.get(key) == b"x"
    plain = start().places[0]
    with pytest.raises(guira.MemcacheServerError):
        make(f"{plain}:ascii:ssl", ca_file=authority).get(key)
