"""prometheus/memcached_exporter beside /metrics: both show the same server, so that what the first shows the second must show too,
with the same names, labels and values.

    exporter.py PATH_TO_GUIRA EXPORTER
"""

import re
import socket
import subprocess
import sys
import time
import urllib.request

from server import PATIENCE_SECONDS, Listening, host_and_port

# Counters whose names do not end in _total, as OpenMetrics wants them to: gauges here, which they are but for the moves, always 0.
OTHER_TYPES = {
    "memcached_uptime_seconds",
    "memcached_slab_mem_requested_bytes",
    "memcached_slab_items_evicted_time_seconds",
    "memcached_slab_items_moves_to_cold",
    "memcached_slab_items_moves_to_warm",
    "memcached_slab_items_moves_within_lru",
}
# What the exporter tells of itself.
OF_ITSELF = "memcached_exporter_"
# The exporter's own connection is among these while it asks.
PRESENCE = {"memcached_current_connections": 1}


def work(address):
    """Something of everything, so that few figures are 0."""
    with socket.create_connection(host_and_port(address)) as client:
        replies = client.makefile("rb")

        def ask(request, end=b"\r\n"):
            client.sendall(request)
            while not replies.readline().endswith(end):
                pass

        for number in range(40_000):
            value = b"v" * (number * 131 % 9000)
            ask(b"set key:%d 0 %d %d\r\n%s\r\n" % (number, number % 3 * 1000, len(value), value))
        for number in range(2000):
            ask(b"get key:%d\r\n" % (number * 20), b"END\r\n")
        for request in (b"set n 0 0 1\r\n5\r\n", b"incr n 1\r\n", b"decr n 1\r\n", b"incr none 1\r\n", b"decr none 1\r\n"):
            ask(request)
        for request in (b"touch n 100\r\n", b"touch none 1\r\n", b"delete n\r\n", b"delete none\r\n", b"cas none 0 0 1 9\r\nx\r\n"):
            ask(request)
        for request in (b"set c 0 0 1\r\nx\r\n", b"cas c 0 0 1 999999999\r\nx\r\n", b"set big 0 0 2000000\r\n" + b"x" * 2_000_000 + b"\r\n"):
            ask(request)


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as reply:
        text = reply.read().decode()
    types, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
            samples[name, tuple(sorted(pairs))] = float(value)
    return types, samples


def differences(before, theirs, after):
    """Values lie between those of the two scrapes around the exporter's: other things go on meanwhile."""
    their_types, their_samples = theirs
    our_types, first = before
    _, second = after
    for sample, value in their_samples.items():
        name = sample[0]
        if not name.startswith("memcached_") or name.startswith(OF_ITSELF):
            continue
        if sample not in first or sample not in second:
            yield f"{sample} is missing"
            continue
        low, high = sorted((first[sample], second[sample]))
        if not low <= value - PRESENCE.get(name, 0) <= high:
            yield f"{sample}: {value} there, and from {low} to {high} here"
        if their_types[name] != our_types.get(name) and name not in OTHER_TYPES:
            yield f"{name}: a {their_types[name]} there, and a {our_types.get(name)} here"


def exporter_address(process):
    """The exporter takes no free port, and tells none: one that was free a moment ago."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(host_and_port(process.address), timeout=1).close()
            return process.address
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"the exporter does not listen at {process.address}")


def start_exporter(exporter, address):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    command = [exporter, f"--memcached.address={address}", f"--web.listen-address={place}", "--log.level=error"]
    process = subprocess.Popen(command)
    process.address = place
    return process


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    binary, exporter = arguments
    server = Listening(binary, ["--listen", "127.0.0.1:0", "--admin", "0", "--memory", "64MiB"])
    process = None
    try:
        admin = server.admin()
        work(server.places[0])
        process = start_exporter(exporter, server.places[0])
        address = exporter_address(process)
        before, theirs, after = scrape(admin), scrape(address), scrape(admin)
    finally:
        if process:
            process.kill()
            process.wait()
        server.close()
    found = list(differences(before, theirs, after))
    compared = sum(name.startswith("memcached_") and not name.startswith(OF_ITSELF) for name, _ in theirs[1])
    if compared < 500 or found:
        raise SystemExit("\n".join([f"{compared} samples of the exporter were compared:", *found]))
    evicted = theirs[1]["memcached_items_evicted_total", ()]
    print(f"memcached_exporter: all of its {compared} samples are in /metrics ({evicted:.0f} evictions among them)")


main(sys.argv[1:])
