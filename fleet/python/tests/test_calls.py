"""What calls do, of both clients, with every kind of server."""

import random

import pytest

import guira


def test_what_is_stored_is_found(client, key):
    assert client.get(key) is None
    assert client.get(key, "none") == "none"
    assert client.set(key, b"value") is True
    assert client.get(key) == client.get(key.encode()) == b"value"
    assert client.delete(key) is True
    assert client.delete(key) is False
    assert client.get(key) is None


def test_any_bytes_are_a_value(client, key):
    for value in (b"", b"\r\nEND\r\n", bytes(range(256)), bytearray(b"array"), memoryview(b"view")):
        client.set(key, value)
        assert client.get(key) == bytes(value)


def test_long_values_arrive_whole(client, key):
    seed = 7
    for size in (1 << 14, 1_000_000):
        value = random.Random(seed).randbytes(size)
        assert client.set(key, value)
        assert client.get(key) == value, f"seed {seed}"


def test_values_that_the_server_does_not_take_are_too_large(client, key):
    with pytest.raises(guira.MemcacheTooLargeError):
        client.set(key, bytes(65 << 20))
    with pytest.raises(guira.MemcacheTooLargeError):
        client.set(key, bytes(2 << 20))
    assert client.set(key, b"small")


def test_add_and_replace_look_at_what_is_there(client, key):
    assert client.replace(key, b"1") is False
    assert client.add(key, b"2") is True
    assert client.add(key, b"3") is False
    assert client.replace(key, b"4") is True
    assert client.get(key) == b"4"


def test_more_is_put_at_either_end(client, key):
    assert client.append(key, b"x") is False
    assert client.prepend(key, b"x") is False
    client.set(key, b"b")
    assert client.append(key, b"c") is True
    assert client.prepend(key, b"a") is True
    assert client.get(key) == b"abc"


def test_cas_stores_in_place_of_what_was_read_only(client, key):
    assert client.gets(key) == (None, None)
    assert client.gets(key, 1, 2) == (1, 2)
    assert client.cas(key, b"x", 1) is None
    client.set(key, b"first")
    value, cas = client.gets(key)
    assert value == b"first"
    assert client.cas(key, b"second", cas) is True
    assert client.cas(key, b"third", cas) is False
    value, cas = client.gets(key)
    assert value == b"second"
    assert client.cas(key, b"third", str(cas)) is True
    assert client.cas(key, b"fourth", str(client.gets(key)[1]).encode()) is True
    with pytest.raises(guira.MemcacheIllegalInputError):
        client.cas(key, b"x", "many")


def test_numbers_are_counted(client, key):
    assert client.incr(key, 1) is None
    assert client.decr(key, 1) is None
    client.set(key, 10)
    assert client.incr(key, 5) == 15
    assert client.decr(key, 20) == 0
    client.set(key, b"2" + b"0" * 18)
    assert client.incr(key, 10**18) == 3 * 10**18
    client.set(key, b"no number")
    with pytest.raises(guira.MemcacheClientError, match="non-numeric"):
        client.incr(key, 1)
    for amount in (-1, 2**64, "1"):
        with pytest.raises(guira.MemcacheIllegalInputError):
            client.incr(key, amount)


def test_many_keys_are_asked_for_at_once(client, key):
    keys = [f"{key}-{number}" for number in range(300)]
    assert client.set_many({key: key.upper() for key in keys[::2]}) == []
    assert client.get_many(keys) == {key: key.upper().encode() for key in keys[::2]}
    assert client.get_multi(iter(keys[:3])) == client.get_many(keys[:3])
    found = client.gets_many(keys)
    assert list(found) == keys[::2]
    value, cas = found[keys[0]]
    assert client.cas(keys[0], value + b"!", cas) is True
    assert client.delete_many(keys) is True
    assert client.get_many(keys) == client.get_many([]) == {}
    assert client.set_many({}) == []
    assert client.delete_many([]) is True


def test_what_cannot_be_stored_of_many_is_said(client, key):
    keys = [f"{key}-{number}" for number in range(3)]
    assert client.set_many({keys[0]: b"a", keys[1]: bytes(2 << 20), keys[2]: b"c"}) == [keys[1]]
    assert client.get_many(keys) == {keys[0]: b"a", keys[2]: b"c"}


def test_expired_values_are_not_found(client, key):
    client.set(key, b"x", expire=-1)
    assert client.get(key) is None
    client.set(key, b"x", 1000)
    assert client.touch(key, -1) is True
    assert client.touch(key, 10) is False
    client.set(key, b"x")
    assert client.gat(key, 1000) == b"x"
    assert client.gat(key, -1) == b"x"
    assert client.gat(key, 10, "none") == "none"
    for expire in (1.5, "1", 2**31):
        with pytest.raises(guira.MemcacheIllegalInputError):
            client.set(key, b"x", expire)


def test_keys_that_would_be_commands_are_not_sent(client):
    for key in ("", "a b", "a\r\nflush_all", "a\0", "a" * 251, "ключ", 7, None, b" x"):
        for call in (client.get, client.delete, client.gets, lambda key: client.get_many([key, "good"])):
            with pytest.raises(guira.MemcacheIllegalInputError):
                call(key)
        with pytest.raises(guira.MemcacheIllegalInputError):
            client.set(key, b"x")
        with pytest.raises(guira.MemcacheIllegalInputError):
            client.set_many({"good": b"x", key: b"x"})
    assert client.set("a" * 250, b"longest")


def test_keys_are_unicode_if_somebody_wants_that(make, any_server):
    client = make(any_server, allow_unicode_keys=True)
    assert client.set("ключ", b"x")
    assert client.get_many(["ключ", "другой"]) == {"ключ": b"x"}
    assert client.get("ключ".encode()) == b"x"


def test_a_prefix_stands_before_every_key_and_nobody_sees_it(make, any_server, key):
    plain, prefixed = make(any_server), make(any_server, key_prefix=f"{key}:")
    assert prefixed.set("a", b"1")
    assert prefixed.set_many({"b": b"2"}) == []
    assert plain.get_many([f"{key}:a", f"{key}:b"]) == {f"{key}:a": b"1", f"{key}:b": b"2"}
    assert prefixed.get_many(["a", "b"]) == {"a": b"1", "b": b"2"}
    assert prefixed.delete("a") and plain.get(f"{key}:a") is None


def test_values_that_are_not_bytes_are_stored_as_their_text(make, any_server, key):
    client = make(any_server)
    client.set(key, 12)
    assert client.get(key) == b"12"
    with pytest.raises(guira.MemcacheIllegalInputError):
        client.set(key, "é")
    other = make(any_server, encoding="utf-8")
    other.set(key, "é")
    assert client.get(key) == "é".encode()


class Tagged:
    """A serializer that is told the key, and tells texts from bytes by a flag."""

    def serialize(self, key, value):
        return (f"{key}={value}", 4) if isinstance(value, str) else (value, 0)

    def deserialize(self, key, value, flags):
        return value.decode().removeprefix(f"{key}=") if flags & 4 else value


def test_a_serializer_makes_what_is_stored(make, any_server, key):
    plain, client = make(any_server), make(any_server, serde=Tagged(), key_prefix="p:")
    client.set(key, "text")
    client.set_many({key + "2": b"bytes"})
    assert plain.get(f"p:{key}") == f"{key}=text".encode()
    assert client.get(key) == "text"
    assert client.get_many([key, key + "2"]) == {key: "text", key + "2": b"bytes"}
    assert client.gets(key)[0] == client.gat(key) == "text"
    client.set(key, b"whatever", flags=4)
    assert client.get(key) == "whatever"
    with pytest.raises(guira.MemcacheIllegalInputError):
        client.set(key, b"x", flags=2**32)
    with pytest.raises(ValueError, match="serde"):
        make(any_server, serde=Tagged(), serializer=lambda key, value: (value, 0))


def test_a_value_that_cannot_be_read_is_an_error_or_a_miss(make, any_server, key):
    def refuse(key, value, flags):
        raise ZeroDivisionError(key)

    make(any_server).set(key, b"x")
    strict = make(any_server, deserializer=refuse)
    for call in (strict.get, strict.gets, strict.gat, lambda key: strict.get_many([key])):
        with pytest.raises(ZeroDivisionError):
            call(key)
    mild = make(any_server, deserializer=refuse, ignore_exc=True)
    assert (mild.get(key, 1), mild.get_many([key]), mild.gat(key, 9, 2)) == (1, {}, 2)


def test_servers_say_what_they_are(client, any_server):
    versions = client.versions()
    assert list(versions) == [any_server]
    assert client.version() == versions[any_server].encode()
    assert client.stats()[any_server]["version"] == versions[any_server]
    assert "maxbytes" in client.stats("settings")[any_server]


def test_a_flush_drops_all(make, start, key):
    servers = [start().places[0] for _ in range(2)]
    client = make(servers)
    keys = [f"{key}-{number}" for number in range(20)]
    client.set_many(dict.fromkeys(keys, b"x"))
    assert client.flush_all() is True
    assert client.get_many(keys) == {}
    with pytest.raises(NotImplementedError):
        client.flush_all(10)


def test_a_client_that_was_closed_opens_again(client, key):
    client.set(key, b"x")
    client.close()
    assert client.get(key) == b"x"
    client.quit()
    client.disconnect_all()


def test_counters_tell_what_was_done(make, any_server, key):
    client = make(any_server)
    client.set(key, b"x")
    client.get_many([key, key + "-missing"])
    counters = client.counters()
    assert (counters["keys"], counters["hits"], counters["changes"]) == (2, 1, 1)


def test_compressed_values_are_read_as_they_were(make, any_server, key):
    client, plain = make(any_server, compress_from=100), make(any_server)
    client.set(key, b"a" * 1000, flags=3)
    assert client.get(key) == b"a" * 1000
    assert client.counters()["compressed"] == 1
    with pytest.raises(guira.MemcacheClientError, match="append"):
        client.append(key, b"x")
    plain.set(key, b"b" * 1000)
    assert client.get(key) == b"b" * 1000


def test_a_blocking_client_is_a_context_and_a_mapping(any_server, key):
    with guira.Client(any_server) as client:
        client[key] = b"x"
        assert client[key] == b"x"
        del client[key]
        with pytest.raises(KeyError):
            client[key]
