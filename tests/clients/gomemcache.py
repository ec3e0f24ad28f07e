"""The Go client gomemcache: its own tests, over TCP, and over a UNIX socket and TLS with servers that the tests start
themselves, as `memcached`; then the calls of gomemcache/main.go.

    gomemcache.py PATH_TO_GUIRA FOLDER   the folder takes a copy of the module, a link called memcached and the program
"""

import json
import os
import shutil
import subprocess
import sys

from server import Listening, Servers

MODULE = "github.com/bradfitz/gomemcache"
REQUIREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gomemcache")
# The tests skip those of them for which they find no server.
TESTS = ["TestLocalhost", "TestUnixSocket", "TestTLS"]
ADDRESS = 'const localhostTCPAddr = "localhost:11211"'


def module_copy(folder):
    """The module as it was fetched, in a folder that can be written."""
    command = ["go", "mod", "download", "-json", MODULE]
    fetched = subprocess.run(command, cwd=REQUIREMENTS, stdout=subprocess.PIPE, check=True)
    copy = os.path.join(folder, "module")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(json.loads(fetched.stdout)["Dir"], copy, copy_function=shutil.copyfile)
    for place, _, _ in os.walk(copy):
        os.chmod(place, 0o755)
    return copy


def point_at(module, address):
    path = os.path.join(module, "memcache", "memcache_test.go")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if ADDRESS not in text:
        raise SystemExit(f"{path} does not say {ADDRESS}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(ADDRESS, f'const localhostTCPAddr = "{address}"'))


def environment(binary, folder):
    """The server is called memcached and is found first. To run as root it wants to be told so, as memcached does."""
    programs = os.path.join(folder, "bin")
    shutil.rmtree(programs, ignore_errors=True)
    os.makedirs(programs)
    called, link = (os.path.join(place, "memcached") for place in (programs, folder))
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(os.path.abspath(binary), link)
    as_root = " -u root" if os.geteuid() == 0 else ""
    with open(called, "w", encoding="utf-8") as script:
        script.write(f"#!/bin/sh\nexec '{os.path.abspath(link)}'{as_root} \"$@\"\n")
    os.chmod(called, 0o755)
    return os.environ | {"PATH": programs + os.pathsep + os.environ["PATH"]}


def own_tests(binary, folder):
    module = module_copy(folder)
    server = Listening(binary, ["--listen", "127.0.0.1:0"])
    try:
        point_at(module, server.places[0])
        command = ["go", "test", "-v", "-count=1", "-timeout=120s", "./..."]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        ran = subprocess.run(command, cwd=module, env=environment(binary, folder), **streams, text=True, check=False)
    finally:
        server.close()
    missing = [test for test in TESTS if f"--- PASS: {test} " not in ran.stdout]
    if ran.returncode != 0 or missing:
        raise SystemExit(f"{ran.stdout}\ngomemcache's own tests: did not pass: {missing}")
    print(f"gomemcache's own tests: passed, among them {', '.join(TESTS)}", flush=True)


def our_calls(binary, folder):
    program = os.path.join(os.path.abspath(folder), "calls")
    subprocess.run(["go", "build", "-o", program, "."], cwd=REQUIREMENTS, check=True)
    with Servers(binary) as servers:
        ran = subprocess.run([program], env=os.environ | servers.environment(), check=False)
    if ran.returncode != 0:
        raise SystemExit(f"gomemcache: the calls ended with {ran.returncode}")


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    os.makedirs(arguments[1], exist_ok=True)
    own_tests(*arguments)
    our_calls(*arguments)


main(sys.argv[1:])
