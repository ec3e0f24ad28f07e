"""pylibmc's own tests, over TCP.

    pylibmc_suite.py PATH_TO_GUIRA FOLDER   the folder takes pylibmc's source package, which has the tests
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile

from server import Listening, host_and_port

# Of 1.6.3. Fewer would mean that tests were not found, and nobody had noticed.
TESTS = 38

# Of Amazon's configuration service, at a port that cannot be chosen.
LEFT_OUT = "tests/test_autoconf.py"


def tests_in(folder):
    """A folder with the tests and nothing else, or they would load the package that lies beside them."""
    version = importlib.metadata.version("pylibmc")
    archive = os.path.join(folder, f"pylibmc-{version}.tar.gz")
    if not os.path.exists(archive):
        package = ["--no-deps", "--no-binary", ":all:", f"pylibmc=={version}", "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *package], check=True)
    with tarfile.open(archive) as package:
        tests = [member for member in package if member.isfile() and member.name.split("/")[1] == "tests"]
        for member in tests:
            member.name = os.path.join("tests", os.path.basename(member.name))
        package.extractall(folder, tests)
    return folder


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    binary, folder = arguments
    os.makedirs(folder, exist_ok=True)
    server = Listening(binary, ["--listen", "127.0.0.1:0"])
    try:
        host, port = host_and_port(server.places[0])
        place = {"MEMCACHED_TYPE": "tcp", "MEMCACHED_HOST": host, "MEMCACHED_PORT": str(port)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", f"--ignore={LEFT_OUT}"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        environment = os.environ | place
        ran = subprocess.run(command, cwd=tests_in(folder), env=environment, **streams, text=True, check=False)
    finally:
        server.close()
    if ran.returncode != 0 or f"{TESTS} passed" not in ran.stdout:
        raise SystemExit(f"{ran.stdout}\npylibmc's own tests: {TESTS} should pass")
    print(f"pylibmc's own tests: {TESTS} passed")


main(sys.argv[1:])
