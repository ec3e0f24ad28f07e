"""Debian's memcached-tool against a server: every mode that reads shows what is there.

    memcached_tool.py PATH_TO_GUIRA
"""

import re
import socket
import subprocess
import sys

from server import Listening, host_and_port

TOOL = "/usr/share/memcached/scripts/memcached-tool"
ITEMS = 300


def run(address, *mode):
    ran = subprocess.run(["perl", TOOL, address, *mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"memcached-tool {mode} ended with {ran.returncode}:\n{ran.stderr}")
    # What perl says of figures that are missing.
    if "uninitialized" in ran.stderr:
        raise SystemExit(f"memcached-tool {mode} misses figures:\n{ran.stderr}")
    return ran.stdout


def fill(address):
    with socket.create_connection(host_and_port(address)) as client:
        replies = client.makefile("rb")
        for number in range(ITEMS):
            value = b"v" * (1 + number * 7)
            client.sendall(b"set key:%d 5 0 %d\r\n%s\r\n" % (number, len(value), value))
            expect("the reply to a set", replies.readline(), b"STORED\r\n")


def expect(what, is_so, should_be):
    if is_so != should_be:
        raise SystemExit(f"{what}: {is_so!r}, not {should_be!r}")


def fields(output):
    """Names and values, in lines of two words."""
    return dict(line.split() for line in output.splitlines()[1:] if len(line.split()) == 2)


def check(address):
    fill(address)
    rows = [line.split() for line in run(address, "display").splitlines()[1:]]
    expect("items that display shows", sum(int(row[4]) for row in rows), ITEMS)
    if not all(re.fullmatch(r"[\d.]+[BK]", row[1]) and int(row[3]) > 0 for row in rows):
        raise SystemExit(f"display shows classes without a size or a page: {rows}")
    expect("display without a mode", run(address), run(address, "display"))
    expect("curr_items", fields(run(address, "stats"))["curr_items"], str(ITEMS))
    expect("num_threads", fields(run(address, "settings"))["num_threads"], "2")
    sizes = fields(run(address, "sizes"))
    expect("items that sizes shows", sum(int(count) for count in sizes.values()), ITEMS)
    dumped = re.findall(r"^add key:(\d+) 5 0 (\d+)\r?\n(v+)\r?$", run(address, "dump"), re.MULTILINE)
    lengths = {int(number): int(length) for number, length, value in dumped if len(value) == int(length)}
    expect("items that dump shows", lengths, {number: 1 + number * 7 for number in range(ITEMS)})
    expect("keys that keys shows", len(run(address, "keys").splitlines()), ITEMS)


def main(arguments):
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    server = Listening(arguments[0], ["--listen", "127.0.0.1:0"])
    try:
        check(server.places[0])
    finally:
        server.close()
    print("memcached-tool: display, stats, settings, sizes, dump and keys show what is there")


main(sys.argv[1:])
