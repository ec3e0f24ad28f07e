"""The page of the admin listener in headless Chromium: it shows the figures of a server under load, and its console stays empty.

    page.py PATH_TO_GUIRA [PICTURE]   with a path, takes a picture too
"""

import html
import re
import subprocess
import sys
import tempfile
import threading

from server import Listening

# In the time of the page: some looks at the server.
BUDGET_MS = 9000
LOAD_SECONDS = 25


def chromium(folder, url, *arguments):
    """What the page looks like to a program, and what the browser has logged."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
    command += ["--enable-logging=stderr", "--hide-scrollbars", "--window-size=1280,1500", f"--virtual-time-budget={BUDGET_MS}", *arguments, url]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"chromium ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


def element(page, identity):
    """The text of an element, without what is in its tags; its elements hold none of their own kind."""
    found = re.search(rf'<(\w+)[^>]*\bid="{identity}"[^>]*>(.*?)</\1>', page, re.DOTALL)
    if not found:
        raise SystemExit(f"the page has no {identity}")
    return html.unescape(re.sub(r"<[^>]*>", " ", found.group(2)))


def check(page, console):
    if console:
        raise SystemExit("the console is not empty:\n" + "\n".join(console))
    if element(page, "state") != "ready":
        raise SystemExit(f"the server is {element(page, 'state')}, not ready")
    for identity, figure in [
        ("t-requests", r"[\d.]+ [KM]?"),
        ("t-hits", r"[\d.]+ %"),
        ("t-latency", r"[\d.]+ [nµm]?s"),
        ("t-memory", r"[\d.]+ MiB"),
        ("t-items", r"[\d.]+ K?"),
        ("t-connections", r"\d+"),
    ]:
        shown = element(page, identity)
        if not re.search(r"\d", shown) or not re.search(figure, re.sub(r"\s+", " ", shown)):
            raise SystemExit(f"{identity} shows no figure: {shown}")
    for identity in ("throughput", "hits"):
        if page.count(f'id="{identity}"><svg') != 1:
            raise SystemExit(f"{identity} has no chart")
    for identity, row in [("latency", "get"), ("workers", "worker 1"), ("memory", "code and system"), ("classes", "KiB")]:
        if row not in element(page, identity):
            raise SystemExit(f"{identity} has no row {row}: {element(page, identity)}")


def main(arguments):
    if len(arguments) not in (1, 2):
        raise SystemExit(__doc__)
    binary = arguments[0]
    server = Listening(binary, ["--listen", "127.0.0.1:0", "--admin", "0"])
    load = None
    try:
        url = f"http://{server.admin()}/"
        command = [binary, "load", "--server", server.places[0], "--duration", f"{LOAD_SECONDS}s", "--rate", "20000", "--connections", "8"]
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        threading.Event().wait(2)
        with tempfile.TemporaryDirectory(prefix="guira-page-") as folder:
            check(*chromium(folder, url, "--dump-dom"))
            if len(arguments) == 2:
                chromium(folder, url, f"--screenshot={arguments[1]}")
    finally:
        if load:
            load.kill()
            load.wait()
        server.close()
    print("the page of the admin listener: it shows figures, and the console is empty")


main(sys.argv[1:])
