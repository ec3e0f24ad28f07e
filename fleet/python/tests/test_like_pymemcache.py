"""The same calls of pymemcache's client and of ours have the same results."""

import inspect

import pytest

import guira

pymemcache = pytest.importorskip("pymemcache")
from pymemcache.client.base import Client as Theirs, PooledClient  # noqa: E402
from pymemcache.client.hash import HashClient  # noqa: E402
from pymemcache.client.retrying import RetryingClient  # noqa: E402
from pymemcache.serde import CompressedSerde, PickleSerde, pickle_serde  # noqa: E402

SERDES = [None, pickle_serde, PickleSerde(2), CompressedSerde(min_compress_len=10)]


def outcome(call):
    """What a call returns, or the nearest class of its error that both have."""
    try:
        return call()
    except Exception as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        return next(name for name in names if hasattr(pymemcache, name) or name in ("ValueError", "TypeError"))


def calls(key):
    a, b, none = f"{key}a", f"{key}b", f"{key}none"
    yield lambda client: client.set(a, b"1", 100)
    yield lambda client: client.set(b, b"x", expire=100, noreply=False)
    yield lambda client: client.get(a)
    yield lambda client: client.get(none, 7)
    yield lambda client: client.get_many([a, b, none])
    yield lambda client: client.get_multi([])
    yield lambda client: client.gets(none)
    yield lambda client: client.gets(none, 1, 2)
    yield lambda client: client.gets(b)[0]
    yield lambda client: {key: value for key, (value, _) in client.gets_many([a, none, b]).items()}
    yield lambda client: client.incr(a, 5)
    yield lambda client: client.decr(a, 2, False)
    yield lambda client: client.get(a)
    yield lambda client: client.incr(none, 5)
    yield lambda client: client.incr(b, 5)
    yield lambda client: client.incr(a, "5")
    yield lambda client: client.append(b, b"y")
    yield lambda client: client.prepend(none, b"y")
    yield lambda client: client.get(b)
    yield lambda client: client.add(a, b"2")
    yield lambda client: client.replace(a, b"3")
    yield lambda client: client.replace(none, b"3")
    yield lambda client: client.cas(a, b"4", client.gets(a)[1])
    yield lambda client: client.cas(a, b"5", b"1")
    yield lambda client: client.cas(none, b"5", "1")
    yield lambda client: client.cas(a, b"5", "x")
    yield lambda client: client.touch(a, 10)
    yield lambda client: client.touch(none, 10)
    yield lambda client: client.set_many({a: b"6", b: b"7"}, expire=10)
    yield lambda client: client.set_multi({a: b"6"}, 10)
    yield lambda client: client.get_many((a, b))
    yield lambda client: client.delete(a)
    yield lambda client: client.delete(a)
    yield lambda client: client.delete_many([a, b])
    yield lambda client: client.delete_multi([])
    yield lambda client: client.set("with blank", b"x")
    yield lambda client: client.get("x" * 251)
    yield lambda client: client.get("ключ")
    yield lambda client: client.set(a, "é")
    yield lambda client: client.set(a, b"x", expire="soon")
    yield lambda client: client.set(a, 12)
    yield lambda client: client.get(a)
    yield lambda client: client.set(a, "text" * 20)
    yield lambda client: client.get(a)
    yield lambda client: client.set(a, {"a": [1, 2.5, None]})
    yield lambda client: client.get(a)
    yield lambda client: client.version()


@pytest.mark.parametrize("serde", SERDES)
def test_results_are_those_of_pymemcache(any_server, key, serde):
    host, port = any_server.split(":")
    theirs = Theirs((host, int(port)), serde=serde, default_noreply=False, key_prefix="p:")
    ours = guira.Client((host, int(port)), serde=serde, key_prefix="p:")
    expected = [outcome(lambda call=call: call(theirs)) for call in calls(f"{key}-theirs")]
    got = [outcome(lambda call=call: call(ours)) for call in calls(f"{key}-theirs")]
    theirs.close()
    assert got == expected


def test_each_argument_of_pymemcache_is_taken_or_refused_with_a_reason(nobody):
    for theirs in (Theirs, HashClient, PooledClient, RetryingClient):
        for name in list(inspect.signature(theirs).parameters)[1:]:
            try:
                guira.Client(nobody, **{name: None})
            except TypeError as error:
                assert "unexpected keyword" not in str(error), name
            except Exception:
                # It exists, and None is no value of it.
                pass


def test_one_reads_what_the_other_has_stored(any_server, key):
    host, port = any_server.split(":")
    theirs = HashClient([(host, int(port))], serde=pickle_serde, default_noreply=False)
    ours = guira.Client(any_server, serde=pickle_serde)
    for number, value in enumerate([b"bytes", "text", 12, {"a": [1, None]}]):
        name = f"{key}-{number}"
        ours.set(name, value)
        assert theirs.get(name) == ours.get(name) == value
        theirs.set(name, [value])
        assert ours.get(name) == [value]
    theirs.close()
