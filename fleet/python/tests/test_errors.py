"""Errors name the call, the key, the server and the cause."""

import pickle

import pytest

import guira


def caught(call):
    with pytest.raises(guira.MemcacheError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("call", ["get", "gets", "gat", "touch", "delete"])
def test_a_failed_call_names_its_key_and_server(make, nobody, call):
    client = make(nobody)
    error = caught(lambda: getattr(client, call)("user:1"))
    assert str(error) == f"{call} of key 'user:1' failed: cannot connect to {nobody}: Connection refused"
    assert (error.call, error.key, error.server) == (call, "user:1", nobody)
    error = caught(lambda: getattr(client, call)(b"user:1"))
    text = f"{call} of key b'user:1' failed: {nobody} is marked as failed: Connection refused"
    assert (str(error), type(error)) == (text, guira.MemcacheDownError)
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_a_failed_change_names_its_key_and_server(make, nobody):
    for name, arguments in {
        "set": [b"x"],
        "add": [b"x"],
        "replace": [b"x"],
        "cas": [b"x", 1],
        "append": [b"x"],
        "prepend": [b"x"],
        "incr": [1],
        "decr": [1],
    }.items():
        client = make(nobody, key_prefix="p:")
        error = caught(lambda client=client, name=name, rest=arguments: getattr(client, name)("k", *rest))
        assert str(error) == f"{name} of key 'k' failed: cannot connect to {nobody}: Connection refused"
        assert (error.key, error.server) == ("k", nobody)


def test_a_timeout_names_its_limit(make, silent):
    error = caught(lambda: make(silent, timeout=0.05).get("k"))
    assert str(error) == f"get of key 'k' failed: no reply from {silent}: timeout after 50 ms"


def test_a_call_with_many_keys_names_the_first_that_failed(make, nobody):
    client = make(nobody)
    for name in ("get_many", "gets_many", "delete_many"):
        error = caught(lambda name=name: getattr(client, name)(["a", "b", "c"]))
        assert str(error).startswith(f"{name} of key 'a' failed: ") and nobody in str(error)
        assert str(error).endswith("(and 2 more keys failed)")
        assert {key: one.key for key, one in error.failed.items()} == {"a": "a", "b": "b", "c": "c"}
        assert {one.server for one in error.failed.values()} == {nobody}
    error = caught(lambda: client.get_many(["a"]))
    assert str(error) == f"get_many of key 'a' failed: {nobody} is marked as failed: Connection refused"


def test_calls_without_a_key_name_the_server(make, nobody):
    client = make(nobody)
    for call in (client.versions, client.stats):
        error = caught(call)
        assert str(error).endswith(f" failed: cannot connect to {nobody}: Connection refused")
        assert (error.key, error.server) == (None, nobody)
    error = caught(client.flush_all)
    assert str(error) == f"flush_all failed: cannot connect to {nobody}: Connection refused"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "the key is empty"),
        ("a b", "the key has a blank at position 1"),
        ("a\r\n", "the key has the control byte 0x0d at position 1"),
        ("a" * 251, "the key has 251 bytes, and the limit is 250"),
        ("ключ", "the key is not ASCII"),
        (7, "a key must be str or bytes, not int"),
    ],
)
def test_a_bad_key_has_its_own_text(make, server, key, problem):
    client = make(server)
    for name, call in {
        "get": lambda: client.get(key),
        "set": lambda: client.set(key, b"x"),
        "get_many": lambda: client.get_many(["good", key]),
        "set_many": lambda: client.set_many({"good": b"x", key: b"x"}),
    }.items():
        error = caught(call)
        assert str(error) == f"{name} of key {key!r} failed: {problem}"
        assert (type(error), error.key, error.server) == (guira.MemcacheIllegalInputError, key, None)


def test_a_long_key_is_cut_in_the_text(make, server):
    error = caught(lambda: make(server).get("a" * 100_000))
    assert len(str(error)) < 500 and len(error.key) == 100_000


def test_bad_arguments_name_the_key(make, server):
    client = make(server)
    error = caught(lambda: client.set("k", b"x", expire="soon"))
    assert str(error) == "set of key 'k' failed: expire must be an integer, not 'soon'"
    error = caught(lambda: client.set("k", "é"))
    assert str(error).startswith("set of key 'k' failed: the value is not ASCII")


def test_a_value_that_is_too_large_has_its_size_in_the_text(make, any_server):
    client = make(any_server)
    error = caught(lambda: client.set("k", bytes(2 << 20)))
    assert str(error).startswith(f"set of key 'k' failed: the value is too large for {any_server}: SERVER_ERROR ")
    assert str(error).endswith(" (the value has 2097152 bytes)")
    error = caught(lambda: client.set("k", bytes(65 << 20)))
    limit = "the value is too large: the client's limit is 64 MiB"
    assert str(error) == f"set of key 'k' failed: {limit} (the value has {65 << 20} bytes)"


def test_what_a_server_refuses_names_the_server(make, any_server, key):
    client = make(any_server)
    client.set(key, b"no number")
    text = str(caught(lambda: client.incr(key, 1)))
    assert text.startswith(f"incr of key '{key}' failed: {any_server} refused the request: CLIENT_ERROR ")
