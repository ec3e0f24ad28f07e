"""What becomes of calls when servers fail."""

import socket
import threading
import time

import pytest
from conftest import until

import guira


def test_a_miss_is_no_error_and_an_error_is_no_miss(make, nobody, key):
    client = make(nobody)
    for call in (
        lambda: client.get(key),
        lambda: client.gets(key),
        lambda: client.get_many([key]),
        lambda: client.set(key, b"x"),
        lambda: client.delete(key),
        lambda: client.delete_many([key]),
        lambda: client.incr(key, 1),
        lambda: client.flush_all(),
        lambda: client.versions(),
        lambda: client.stats(),
    ):
        with pytest.raises(guira.MemcacheUnreachableError) as caught:
            call()
        # What programs that were written for pymemcache and sockets catch.
        assert isinstance(caught.value, (guira.MemcacheServerError, ConnectionError))
        assert isinstance(caught.value, guira.MemcacheServerError) and isinstance(caught.value, OSError)
    assert client.set_many({key: b"x"}) == [key]


def test_failures_of_gets_are_misses_if_somebody_wants_that(make, nobody, key):
    client = make(nobody, ignore_exc=True)
    assert client.get(key) is None
    assert client.get(key, "none") == "none"
    assert client.gets(key, 1, 2) == (1, 2)
    assert client.gat(key, 0, 3) == 3
    assert client.get_many([key]) == client.gets_many([key]) == {}
    with pytest.raises(guira.MemcacheServerError):
        client.set(key, b"x")


def test_a_server_that_does_not_answer_is_too_late_and_then_down(make, silent, key):
    client = make(silent, timeout=0.05)
    for _ in range(3):
        with pytest.raises(guira.MemcacheTimeoutError) as caught:
            client.get(key)
        assert isinstance(caught.value, TimeoutError)
    with pytest.raises(guira.MemcacheDownError):
        client.get(key)
    assert client.counters()["timeouts"] == 3


def test_what_was_found_of_many_is_told_with_the_error(make, server, nobody, key):
    keys = [f"{key}-{number}" for number in range(50)]
    make(server).set_many(dict.fromkeys(keys, b"x"))
    client = make([server, nobody])
    with pytest.raises(guira.MemcacheServerError) as caught:
        client.get_many(keys)
    found, failed = caught.value.found, caught.value.failed
    assert found and failed and sorted([*found, *failed]) == sorted(keys)
    assert set(found.values()) == {b"x"}
    assert all(isinstance(error, guira.MemcacheServerError) for error in failed.values())
    assert make([server, nobody], ignore_exc=True).get_many(keys) == found
    with pytest.raises(guira.MemcacheServerError) as caught:
        client.delete_many(keys)
    assert list(caught.value.failed) == list(failed)
    assert client.set_many(dict.fromkeys(keys, b"y")) == list(failed)
    with pytest.raises(guira.MemcacheServerError) as caught:
        client.versions()
    assert list(caught.value.found) == [server]
    assert list(caught.value.failed) == [nobody]


def test_a_server_that_comes_back_is_used_again(make, start, free_port, key):
    place = f"127.0.0.1:{free_port}"
    first = start(listen=place)
    client = make(place)
    assert client.set(key, b"x")
    first.close()
    with pytest.raises(guira.MemcacheServerError):
        client.get(key)
    start(listen=place)

    def is_back():
        try:
            return client.set(key, b"y")
        except guira.MemcacheServerError:
            return False

    until(is_back)
    assert client.get(key) == b"y"


def test_nonsense_is_an_error(make, key):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"nonsense\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        client = make("127.0.0.1:{}".format(listener.getsockname()[1]))
        with pytest.raises(guira.MemcacheUnexpectedCloseError):
            client.get(key)
        thread.join()


def test_a_blocking_call_lets_other_threads_run(silent):
    """What counts meanwhile would stand still if the call held the lock of Python."""
    counted = 0
    is_over = threading.Event()

    def count():
        nonlocal counted
        while not is_over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(guira.MemcacheTimeoutError):
        guira.Client(silent, timeout=0.5).get("key")
    during = counted
    is_over.set()
    thread.join()
    assert during > 10
