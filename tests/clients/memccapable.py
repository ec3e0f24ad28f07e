"""memccapable's tests of the text and the binary protocol against a server.

    memccapable.py PATH_TO_GUIRA       starts a server and stops it afterwards
    memccapable.py --address HOST:PORT talks to a running server, whose items it forgets
"""

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

PATIENCE_SECONDS = 300


def outcomes(text):
    """Names of tests, and whether they passed. The word FAIL goes to another stream, so a name may stand alone."""
    names = re.finditer(r"((?:ascii|binary) (?:[a-z]+ ?)+?) {2,}(\[pass\])?", text)
    return {match.group(1).strip(): match.group(2) is not None for match in names}


def complaints(address, protocol):
    host, port = host_and_port(address)
    command = ["memccapable", "-h", host, "-p", str(port), "-t", "30", protocol]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    ran = subprocess.run(command, **streams, text=True, timeout=PATIENCE_SECONDS, check=False)
    found = outcomes(ran.stdout)
    if len(found) != TESTS[protocol]:
        yield f"{len(found)} tests ran with {protocol}, {TESTS[protocol]} were expected:\n{ran.stdout}"
    for name, passed in found.items():
        if passed and name in EXPECTED_FAILURES:
            yield f"{name}: passed, but is expected to fail: {EXPECTED_FAILURES[name]}"
        if not passed and name not in EXPECTED_FAILURES:
            yield f"{name}: failed"
    print(f"memccapable {protocol}: {sum(found.values())} of {len(found)} passed", flush=True)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--address":
        server, address = None, arguments[1]
    elif len(arguments) == 1:
        server = Listening(arguments[0], ["--listen", "127.0.0.1:0"])
        address = server.places[0]
    else:
        raise SystemExit(__doc__)
    try:
        found = [complaint for protocol in TESTS for complaint in complaints(address, protocol)]
    finally:
        if server is not None:
            server.close()
    for name, reason in EXPECTED_FAILURES.items():
        print(f"memccapable: {name} fails as expected: {reason}")
    if found:
        raise SystemExit("\n".join(found))


main(sys.argv[1:])
