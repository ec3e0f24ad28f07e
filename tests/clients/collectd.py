"""collectd's input for memcached, configured as docs/guide/run.md says: what it writes down of a server is what `stats` says.

    collectd.py PATH_TO_GUIRA COLLECTD
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time

from server import PATIENCE_SECONDS, Listening, host_and_port

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guide/run.md")
AROUND = """
Hostname "host"
BaseDir "{folder}"
PIDFile "{folder}/pid"
Interval 1
LoadPlugin csv
<Plugin csv>
  DataDir "{folder}/csv"
</Plugin>
"""
# Its names, and those of `stats`.
SAME = {
    "memcached_items-current": "curr_items",
    "memcached_command-get": "cmd_get",
    "memcached_command-set": "cmd_set",
    "memcached_command-touch": "cmd_touch",
    "memcached_command-flush": "cmd_flush",
    "memcached_ops-hits": "get_hits",
    "memcached_ops-misses": "get_misses",
    "memcached_ops-evictions": "evictions",
    "memcached_ops-incr_hits": "incr_hits",
    "memcached_ops-decr_misses": "decr_misses",
    "ps_count": "threads",
}


def configuration(folder, address):
    """That of the document, for this server."""
    with open(DOCUMENT, encoding="utf-8") as document:
        text = re.search(r"```\n(LoadPlugin memcached\n.*?)```", document.read(), re.DOTALL).group(1)
    host, port = host_and_port(address)
    text = re.sub(r'Host ".*"', f'Host "{host}"', text)
    return AROUND.format(folder=folder) + re.sub(r'Port ".*"', f'Port "{port}"', text)


def work(client, replies):
    def ask(request, lines=1):
        client.sendall(request)
        for _ in range(lines):
            replies.readline()

    for number in range(100):
        ask(b"set key:%d 0 0 5\r\nvalue\r\n" % number)
    for number in range(70):
        ask(b"get key:%d\r\n" % number, 3)
    for request in (b"get none\r\n", b"touch key:1 0\r\n", b"set n 0 0 1\r\n1\r\n", b"incr n 1\r\n", b"decr none 1\r\n", b"verbosity 1\r\n"):
        ask(request)


def stats(client, replies):
    client.sendall(b"stats\r\n")
    lines = iter(replies.readline, b"END\r\n")
    return dict(line.decode().split(maxsplit=2)[1:] for line in lines)


def written(folder):
    """The last values of each name, once there are two rows of all."""
    values = {}
    for place, _, names in os.walk(os.path.join(folder, "csv")):
        for name in names:
            with open(os.path.join(place, name), encoding="ascii") as file:
                rows = file.read().splitlines()
            if len(rows) < 3:
                return None
            values[re.sub(r"-\d{4}-\d\d-\d\d$", "", name)] = [float(value) for value in rows[-1].split(",")[1:]]
    return values if set(SAME) <= set(values) else None


def read_by_collectd(collectd, folder, address):
    path = os.path.join(folder, "collectd.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(configuration(folder, address))
    process = subprocess.Popen([collectd, "-f", "-C", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if found := written(folder):
                return found
            time.sleep(0.1)
    finally:
        process.terminate()
        said, _ = process.communicate()
    raise SystemExit(f"collectd has written nothing down:\n{said}")


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    binary, collectd = arguments
    server = Listening(binary, ["--listen", "127.0.0.1:0"])
    try:
        with tempfile.TemporaryDirectory(prefix="guira-collectd-") as folder, socket.create_connection(host_and_port(server.places[0])) as client:
            replies = client.makefile("rb")
            work(client, replies)
            found = read_by_collectd(collectd, folder, server.places[0])
            said = stats(client, replies)
    finally:
        server.close()
    wrong = [f"{name}: {found[name][-1]}, and {row} is {said[row]}" for name, row in SAME.items() if found[name][-1] != float(said[row])]
    used, free = found["df-cache"]
    if used != float(said["bytes"]) or used + free != float(said["limit_maxbytes"]):
        wrong.append(f"df-cache: {used} and {free}, of {said['bytes']} and {said['limit_maxbytes']}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"collectd: {len(SAME) + 1} of its {len(found)} figures are those of stats")


main(sys.argv[1:])
