"""Real servers: guira as it was built, and memcached if it is installed."""

import asyncio
import itertools
import shutil
import socket
import subprocess
import time

import pytest
from server import Listening, make_certificate

import guira

PATIENCE_SECONDS = 30
_numbers = itertools.count()


def pytest_addoption(parser):
    parser.addoption("--guira", required=True, metavar="PATH", help="the program guira")


class Memcached:
    """A process of memcached, and where it listens, as `Listening` has it."""

    def __init__(self):
        port = a_free_port()
        command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-u", "nobody"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.places = [f"127.0.0.1:{port}"]
        until(lambda: can_be_connected_to(port))

    def close(self):
        self._process.kill()
        self._process.wait()


def a_free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def can_be_connected_to(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


def until(condition):
    """Waits until something is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not come to be so"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def start(pytestconfig):
    """Starts a node, with more options."""
    running = []

    def start(*options, listen="127.0.0.1:0"):
        running.append(Listening(pytestconfig.getoption("--guira"), ["--listen", listen, *options]))
        return running[-1]

    yield start
    for process in running:
        process.close()


@pytest.fixture(scope="session", params=["guira", "memcached"])
def any_server(request, start):
    """A server of each kind."""
    if request.param == "memcached":
        if shutil.which("memcached") is None:
            pytest.skip("memcached is not installed")
        server = Memcached()
        request.addfinalizer(server.close)
    else:
        server = start()
    return server.places[0]


@pytest.fixture(scope="session")
def server(start):
    return start().places[0]


@pytest.fixture(scope="session")
def servers(start):
    return [start().places[0] for _ in range(3)]


@pytest.fixture
def free_port():
    return a_free_port()


@pytest.fixture
def nobody():
    """Where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield "127.0.0.1:{}".format(bound.getsockname()[1])


@pytest.fixture
def silent():
    """A server that never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "127.0.0.1:{}".format(listener.getsockname()[1])


class OnLoop:
    """An `AsyncClient` that is called like a `Client`."""

    def __init__(self, *arguments, **options):
        self._client = guira.AsyncClient(*arguments, **options)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name):
        call = getattr(self._client, name)
        return lambda *arguments, **options: self._loop.run_until_complete(call(*arguments, **options))

    def counters(self):
        return self._client.counters()

    def end(self):
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


@pytest.fixture(params=["blocking", "asyncio"])
def make(request):
    """Makes a client of either kind."""
    made = []

    def make(*arguments, **options):
        if request.param == "blocking":
            return guira.Client(*arguments, **options)
        made.append(OnLoop(*arguments, **options))
        return made[-1]

    yield make
    for client in made:
        client.end()


@pytest.fixture
def client(make, any_server):
    return make(any_server)


@pytest.fixture
def key():
    """A key that no other test has."""
    return f"key-{next(_numbers)}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The file of an authority, and those of a certificate that it has given and of its key: rustls takes no server that is its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    path = lambda name: str(folder / name)  # noqa: E731
    authority, authority_key = path("authority.pem"), path("authority-key.pem")
    make_certificate(authority, authority_key)
    names = folder / "names"
    names.write_text("basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
    request, certificate, key = path("request.pem"), path("certificate.pem"), path("key.pem")
    new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout", key, "-out", request]
    signed = ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key]
    signed += ["-CAcreateserial", "-days", "2", "-extfile", str(names), "-out", certificate]
    for arguments in (new, signed):
        subprocess.run(["openssl", *arguments], check=True, stderr=subprocess.DEVNULL)
    return authority, certificate, key
