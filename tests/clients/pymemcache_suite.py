"""pymemcache's own integration tests, all of them, over TCP, over a UNIX socket and over TLS.

    pymemcache_suite.py PATH_TO_GUIRA
"""

import os
import ssl
import sys

import pymemcache.client.base as base
import pymemcache.test
import pytest
from server import Servers, host_and_port

# Of 4.0.0. Fewer would mean that tests were not found, and nobody had noticed.
TESTS = 103

# What fails, and why; a test named here that passes is an error too.
EXPECTED_FAILURES = {}


class Plugin:
    """Counts what ran, says what may fail, and runs the one test that is skipped for want of a server with TLS."""

    def __init__(self):
        self.ran, self.wrong = 0, []

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if item.originalname == "test_tls":
                item.own_markers = [mark for mark in item.own_markers if mark.name != "skip"]
            if item.originalname in EXPECTED_FAILURES:
                reason = EXPECTED_FAILURES[item.originalname]
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.ran += 1
        # A failure that was expected counts as skipped, one that did not happen as failed.
        if report.failed or (report.skipped and not hasattr(report, "wasxfail")):
            self.wrong.append(f"{report.nodeid}: {report.outcome}\n{report.longreprtext}")


def run(name, address, tls_address):
    """The tests over one transport; what they say goes to standard output."""
    plugin = Plugin()
    (host, port), (tls_host, tls_port) = address, tls_address
    tests = os.path.join(os.path.dirname(pymemcache.test.__file__), "test_integration.py")
    places = [f"--server={host}", f"--port={port}", f"--tls-server={tls_host}", f"--tls-port={tls_port}"]
    quiet = ["-q", "-m", "integration", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no", "-rN"]
    pytest.main([tests, *quiet, *places], plugins=[plugin])
    if plugin.wrong or plugin.ran != TESTS:
        raise SystemExit("\n".join([f"pymemcache over {name}: {plugin.ran} of {TESTS} ran", *plugin.wrong]))
    print(f"pymemcache over {name}: {plugin.ran} tests as expected", flush=True)


def redirect(plain, place, context):
    """From now on clients of the plain address connect to this place, with TLS if there is a context."""
    connect = getattr(base.Client, "plainly", base.Client._connect)
    base.Client.plainly = connect

    def elsewhere(client):
        before = client.server, client.tls_context
        if client.server == plain:
            client.server, client.tls_context = place, context
        try:
            connect(client)
        finally:
            # HashClient looks its clients up by these names.
            client.server, client.tls_context = before

    base.Client._connect = elsewhere


def main(arguments):
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    with Servers(arguments[0]) as servers:
        plain, tls = host_and_port(servers.plain), ("localhost", host_and_port(servers.tls)[1])
        context = ssl.create_default_context(cafile=servers.certificate)
        # The tests name a certificate that is not part of the package.
        ssl.create_default_context = lambda **_: context
        run("TCP", plain, tls)
        redirect(plain, servers.unix, None)
        run("a UNIX socket", plain, tls)
        redirect(plain, tls, context)
        run("TLS", plain, tls)


main(sys.argv[1:])
