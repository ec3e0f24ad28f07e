"""memccapable's tests of the text and the binary protocol against a server.

    memccapable.py PATH_TO_GUIRA          starts a server and stops it afterwards
    memccapable.py PATH_TO_GUIRA --router puts a router in front of it
    memccapable.py --address HOST:PORT    talks to a running server, whose items it forgets
"""

import json
import re
import subprocess
import sys

from server import Listening, host_and_port

# Of libmemcached 1.1.4, as in Debian 12.
TESTS = {"-a": 27, "-b": 27}

# What fails, and why it should.
EXPECTED_FAILURES = {
    "ascii delete": "wants an error for `delete a b c d e`; memcached 1.6.45 ignores what follows the key",
    "ascii delete noreply": "the same",
}

# What fails behind a router besides, and why it should.
NO_FLUSH = "the router does not pass on flushes"
EXPECTED_BEHIND_ROUTER = {
    "ascii flush": NO_FLUSH,
    "ascii flush noreply": NO_FLUSH,
    "binary flush": NO_FLUSH,
    "binary flushq": NO_FLUSH,
}

PATIENCE_SECONDS = 300


def outcomes(text):
    """Names of tests, and whether they passed. The word FAIL goes to another stream, so a name may stand alone."""
    names = re.finditer(r"((?:ascii|binary) (?:[a-z]+ ?)+?) {2,}(\[pass\])?", text)
    return {match.group(1).strip(): match.group(2) is not None for match in names}


def complaints(address, protocol, expected_failures):
    host, port = host_and_port(address)
    command = ["memccapable", "-h", host, "-p", str(port), "-t", "30", protocol]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    ran = subprocess.run(command, **streams, text=True, timeout=PATIENCE_SECONDS, check=False)
    found = outcomes(ran.stdout)
    if len(found) != TESTS[protocol]:
        yield f"{len(found)} tests ran with {protocol}, {TESTS[protocol]} were expected:\n{ran.stdout}"
    for name, passed in found.items():
        if passed and name in expected_failures:
            yield f"{name}: passed, but is expected to fail: {expected_failures[name]}"
        if not passed and name not in expected_failures:
            yield f"{name}: failed"
    print(f"memccapable {protocol}: {sum(found.values())} of {len(found)} passed", flush=True)


def start(binary, behind_router):
    """A server, and the router in front of it if there is to be one: the last is what clients talk to."""
    started = [Listening(binary, ["--listen", "127.0.0.1:0"])]
    if behind_router:
        pools = {"all": {"servers": [started[0].places[0]]}}
        config = json.dumps({"pools": pools, "route": "PoolRoute|all"})
        # memccapable expects other errors of memcached 1.0.0, whose number the router has by default.
        version = ["--reported-version", "1.6.45"]
        started.append(
            Listening(binary, ["--listen", "127.0.0.1:0", "--config-str", config, *version], ("router",))
        )
    return started


def main(arguments):
    behind_router = len(arguments) == 2 and arguments[1] == "--router"
    if len(arguments) == 2 and arguments[0] == "--address":
        started, address = [], arguments[1]
    elif len(arguments) == 1 or behind_router:
        started = start(arguments[0], behind_router)
        address = started[-1].places[0]
    else:
        raise SystemExit(__doc__)
    expected_failures = EXPECTED_FAILURES | (EXPECTED_BEHIND_ROUTER if behind_router else {})
    try:
        found = [complaint for protocol in TESTS for complaint in complaints(address, protocol, expected_failures)]
    finally:
        for process in reversed(started):
            process.close()
    for name, reason in expected_failures.items():
        print(f"memccapable: {name} fails as expected: {reason}")
    if found:
        raise SystemExit("\n".join(found))


main(sys.argv[1:])
