"""One client, many threads."""

import concurrent.futures
import threading

import guira


def test_threads_get_each_their_own_answers(any_server, key):
    client = guira.Client(any_server, max_pool_size=4, timeout=10)

    def work(thread):
        for number in range(200):
            name = f"{key}-{thread}-{number % 10}"
            value = f"{thread}.{number}".encode()
            assert client.set(name, value)
            assert client.get(name) == value
            assert client.get_many([name, name + "-missing"]) == {name: value}

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert client.counters()["opened"] <= 4


def test_of_threads_that_race_by_cas_each_counts_once(any_server, key):
    client = guira.Client(any_server, timeout=10)
    client.set(key, 0)
    lost = 0
    lock = threading.Lock()

    def work(_):
        nonlocal lost
        done = 0
        while done < 50:
            value, cas = client.gets(key)
            if client.cas(key, int(value) + 1, cas):
                done += 1
            else:
                with lock:
                    lost += 1

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert client.get(key) == b"200", f"{lost} races were lost"


def test_a_client_is_closed_while_others_use_it(server, key):
    client = guira.Client(server, timeout=10)
    client.set(key, b"x")
    is_over = threading.Event()

    def work(_):
        count = 0
        while not is_over.is_set():
            assert client.get(key) == b"x"
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        counts = pool.map(work, range(4))
        for _ in range(50):
            client.close()
            client.get(key)
        is_over.set()
        assert all(counts)
