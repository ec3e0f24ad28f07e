"""Telegraf's input for memcached: what it finds of a server is what `stats` says.

    telegraf.py PATH_TO_GUIRA PROGRAM   the program is telegraf/main.go
"""

import json
import socket
import subprocess
import sys

from server import Listening, host_and_port

# Figures that it must find, among others.
WANTED = {"cmd_get", "cmd_set", "get_hits", "get_misses", "curr_items", "bytes", "evictions", "limit_maxbytes", "curr_connections", "uptime"}
# What differs from one question to the next.
MOVES = {"uptime", "connection_structures", "curr_connections", "total_connections", "bytes_read", "bytes_written", "rusage_user", "rusage_system"}


def stats(client, replies):
    client.sendall(b"stats\r\n")
    lines = iter(replies.readline, b"END\r\n")
    return dict(line.decode().split(maxsplit=2)[1:] for line in lines)


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    binary, program = arguments
    server = Listening(binary, ["--listen", "127.0.0.1:0"])
    try:
        with socket.create_connection(host_and_port(server.places[0])) as client:
            replies = client.makefile("rb")
            for number in range(100):
                client.sendall(b"set key:%d 0 0 5\r\nvalue\r\nget none\r\n" % number)
                replies.readline(), replies.readline()
            asked = subprocess.run([program, server.places[0]], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
            said = {name: value.strip() for name, value in stats(client, replies).items()}
    finally:
        server.close()
    found = json.loads(asked.stdout)
    wrong = [f"{name} is missing" for name in sorted(WANTED - set(found))]
    wrong += [f"{name}: {value}, and stats says {said[name]}" for name, value in found.items() if name not in MOVES and str(value) != said[name]]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"Telegraf: its {len(found)} figures are those of stats")


main(sys.argv[1:])
