"""Children of a process that has a client: multiprocessing, servers that fork their workers."""

import asyncio
import multiprocessing
import os
import threading
import traceback
import warnings

import pytest

import guira

# Python warns of forks with threads, which is what is tried here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work):
    """Runs something in a child. Returns what it raised, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        try:
            os.close(reader)
            work()
        except BaseException:
            said = traceback.format_exc().encode()
        finally:
            os.write(writer, said)
            # Without what the parent is to do at its end.
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        problem = said.read()
    os.waitpid(child, 0)
    return problem


def test_parent_and_child_both_go_on_with_a_blocking_client(any_server, key):
    client = guira.Client(any_server, timeout=10)
    client.set(key, b"parent")

    def work():
        for number in range(200):
            client.set(f"{key}-child", number)
            assert client.get(f"{key}-child") == str(number).encode()

    is_over = threading.Event()

    def meanwhile():
        while not is_over.is_set():
            assert client.get(key) == b"parent"

    thread = threading.Thread(target=meanwhile)
    thread.start()
    try:
        for _ in range(5):
            assert in_child(work) == ""
    finally:
        is_over.set()
        thread.join()
    assert client.get(f"{key}-child") == b"199"
    assert client.counters()["nonsense"] == 0


def test_parent_and_child_both_go_on_with_a_client_for_asyncio(any_server, key):
    client = guira.AsyncClient(any_server, timeout=10)

    async def work(name):
        for number in range(100):
            await client.set(name, number)
            assert await client.get(name) == str(number).encode()

    asyncio.run(work(key))
    for _ in range(3):
        assert in_child(lambda: asyncio.run(work(f"{key}-child"))) == ""
        asyncio.run(work(key))
    assert client.counters()["nonsense"] == 0


def test_a_child_of_a_loop_with_calls_under_way_ends(silent, server, key):
    async def main():
        client = guira.AsyncClient(silent, timeout=10)
        call = asyncio.ensure_future(client.get(key))
        await asyncio.sleep(0.05)

        def work():
            nonlocal client, call
            del client, call
            other = guira.Client(server)
            assert other.set(key, b"x")

        assert in_child(work) == ""
        assert not call.done()
        await client.close()
        with pytest.raises(guira.MemcacheUnexpectedCloseError):
            await call

    asyncio.run(main())


def test_a_fork_that_python_has_not_seen_is_told(server, key):
    client = guira.Client(server)
    client.set(key, b"x")
    inner = client._client

    def work():
        # As if the hook of forks had not run.
        client._client = inner
        with pytest.raises(RuntimeError, match="fork"):
            client.get(key)

    assert in_child(work) == ""
    assert client.get(key) == b"x"


def in_pool(number):
    _client.set(f"{_key}-{number}", number)
    return _client.get(f"{_key}-{number}")


def test_workers_of_multiprocessing_use_the_client_of_their_parent(server, key):
    global _client, _key
    _client, _key = guira.Client(server, timeout=10), key
    _client.set(key, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(in_pool, range(30)) == [str(number).encode() for number in range(30)]
    assert _client.get(key) == b"x"
