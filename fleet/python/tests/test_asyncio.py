"""What only a client for asyncio has to do: loops, and coroutines that end early."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import pytest
from conftest import until

import guira


def test_coroutines_run_together_and_get_each_their_own_answers(any_server, key):
    async def work(client, number):
        name = f"{key}-{number}"
        assert await client.set(name, name.encode())
        assert await client.get(name) == name.encode()

    async def main():
        async with guira.AsyncClient(any_server, timeout=10) as client:
            await asyncio.gather(*(work(client, number) for number in range(500)))
            assert client.counters()["opened"] == 1

    asyncio.run(main())


def test_the_loop_goes_on_while_a_server_is_silent(silent):
    async def main():
        async with guira.AsyncClient(silent, timeout=0.5) as client:
            call = asyncio.ensure_future(client.get("key"))
            ticks = 0
            while not call.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert ticks > 10
            with pytest.raises(guira.MemcacheTimeoutError):
                await call

    asyncio.run(main())


def test_cancelled_calls_leave_the_others_alone(any_server, silent, key):
    async def main():
        async with guira.AsyncClient(any_server, timeout=10) as client:
            await client.set(key, b"x")
            for _ in range(20):
                calls = [asyncio.ensure_future(client.get(key)) for _ in range(50)]
                await asyncio.sleep(0)
                for call in calls[::2]:
                    call.cancel()
                answers = await asyncio.gather(*calls, return_exceptions=True)
                assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
                assert set(answers[1::2]) == {b"x"}
            assert client._pending()._waiting == {}
        async with guira.AsyncClient(silent, timeout=0.2) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.get(key), 0.01)
            with pytest.raises(guira.MemcacheTimeoutError):
                await client.get(key)

    asyncio.run(main())


def test_a_change_that_nobody_waits_for_any_more_is_carried_out(any_server, key):
    async def main():
        async with guira.AsyncClient(any_server, timeout=10) as client:
            call = asyncio.ensure_future(client.set(key, b"x"))
            await asyncio.sleep(0)
            call.cancel()
            deadline = time.monotonic() + 30
            while await client.get(key) is None:
                assert time.monotonic() < deadline

    asyncio.run(main())


def test_calls_under_way_fail_when_the_client_is_closed(silent):
    async def main():
        client = guira.AsyncClient(silent, timeout=10)
        call = asyncio.ensure_future(client.get("key"))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(guira.MemcacheUnexpectedCloseError, match="closed"):
            await call

    asyncio.run(main())


def test_a_client_serves_one_loop_after_the_other(any_server, key):
    client = guira.AsyncClient(any_server, timeout=10)
    for number in range(5):
        asyncio.run(client.set(key, number))
        assert asyncio.run(client.get(key)) == str(number).encode()
    assert len(client._by_loop) <= 1


def test_a_client_serves_loops_of_several_threads(any_server, key):
    client = guira.AsyncClient(any_server, timeout=10)
    failures = []

    async def work(name):
        for number in range(100):
            assert await client.set(name, number)
            assert await client.get(name) == str(number).encode()

    def run(name):
        try:
            asyncio.run(work(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"{key}-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_loop_that_is_closed_with_calls_under_way_disturbs_nobody(server, silent, key):
    late = guira.AsyncClient(silent, timeout=0.1)
    loop = asyncio.new_event_loop()
    call = loop.create_task(late.get(key))
    loop.run_until_complete(asyncio.sleep(0.01))
    call.cancel()
    loop.run_until_complete(asyncio.gather(call, return_exceptions=True))
    loop.close()
    # The answer comes, and finds no loop.
    until(lambda: late.counters()["timeouts"] == 1)
    with pytest.raises(guira.MemcacheServerError):
        asyncio.run(late.get(key))
    client = guira.AsyncClient(server)
    assert asyncio.run(client.get(key)) is None


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_clients_that_were_dropped_leave_nothing_open(server, key):
    async def use():
        client = guira.AsyncClient(server, timeout=10)
        assert await client.get(key) is None
        del client
        gc.collect()
        await asyncio.sleep(0)

    async def main():
        await use()
        before = descriptors()
        threads = len(os.listdir("/proc/self/task"))
        for _ in range(20):
            await use()
        return before, threads

    loop = asyncio.new_event_loop()
    before, threads = loop.run_until_complete(main())
    until(lambda: descriptors() <= before and len(os.listdir("/proc/self/task")) <= threads)
    # A descriptor of the same number as one before is no matter to the loop.
    loop.run_until_complete(main())
    loop.close()


def test_a_program_ends_with_calls_under_way(silent):
    program = f"""
import asyncio, guira
client = guira.AsyncClient("{silent}", timeout=30)
async def main():
    call = asyncio.ensure_future(client.get("key"))
    await asyncio.sleep(0.05)
asyncio.run(main())
loop = asyncio.new_event_loop()
call = loop.create_task(client.get("key"))
loop.run_until_complete(asyncio.sleep(0.05))
print("end", flush=True)
import os, sys
sys.stderr = open(os.devnull, "w")  # asyncio complains of the task, as it should
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
