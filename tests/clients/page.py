"""The pages of the admin listeners of a server and of a router before it, in headless Chromium: they show figures under load, and their consoles
stay empty.

    page.py PATH_TO_GUIRA [PICTURE]   with a path, takes a picture of the server's page too
"""

import html.parser
import re
import subprocess
import sys
import tempfile
import threading

from server import Listening

# In the time of the page: some looks at the server.
BUDGET_MS = 9000
LOAD_SECONDS = 40


def chromium(folder, url, *arguments):
    """What the page looks like to a program, and what the browser has logged."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
    command += ["--enable-logging=stderr", "--hide-scrollbars", "--window-size=1280,1500", f"--virtual-time-budget={BUDGET_MS}", *arguments, url]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"chromium ended with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


class Elements(html.parser.HTMLParser):
    """The text in each element that has an id, and which of them hold a drawing."""

    VOID = {"meta", "link", "input", "br"}

    def __init__(self, page):
        super().__init__()
        self._open = []
        self.texts, self.drawn = {}, set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        identity = dict(attrs).get("id")
        if identity:
            self.texts[identity] = ""
        if tag == "svg":
            self.drawn.update(self._ids())
        if tag not in self.VOID:
            self._open.append((tag, identity))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for identity in self._ids():
            self.texts[identity] += f" {data.strip()}"

    def _ids(self):
        return [identity for _, identity in self._open if identity]

    def text(self, identity):
        if identity not in self.texts:
            raise SystemExit(f"the page has no {identity}")
        return re.sub(r"\s+", " ", self.texts[identity]).strip()


def check(page, console, figures, charts, rows):
    if console:
        raise SystemExit("the console is not empty:\n" + "\n".join(console))
    elements = Elements(page)
    if elements.text("state") != "ready":
        raise SystemExit(f"the server is {elements.text('state')}, not ready")
    for identity, figure in figures:
        shown = elements.text(identity)
        if not re.search(figure, shown):
            raise SystemExit(f"{identity} shows no figure: {shown}")
    for identity in charts:
        if identity not in elements.drawn:
            raise SystemExit(f"{identity} has no chart")
    for identity, row in rows:
        if row not in elements.text(identity):
            raise SystemExit(f"{identity} has no row {row}: {elements.text(identity)}")


SERVER_FIGURES = [
    ("t-requests", r"^Requests each second [\d.]+ [KM]\b"),
    ("t-hits", r"^Hit ratio [\d.]+ %"),
    ("t-latency", r"^99 % of gets within [\d.]+ [nµm]?s\b"),
    ("t-memory", r"^Items and index [\d.]+ MiB\b"),
    ("t-items", r"^Items [\d.]+ K\b"),
    ("t-connections", r"^Connections [1-9]"),
]
SERVER_ROWS = [("latency", "get"), ("workers", "worker 1"), ("memory", "code and system"), ("classes", "KiB"), ("top-keys", "%"), ("top-prefixes", "%")]
ROUTER_FIGURES = [
    ("t-requests", r"^Requests each second [\d.]+ [KM]\b"),
    ("t-success", r"^Without failure [\d.]+ %"),
    ("t-latency", r"^99 % of gets within [\d.]+ [nµm]?s\b"),
    ("t-servers", r"^Servers in service 1 of 2"),
    ("t-config", r"^Configuration [\d.]+ (s|min)\b"),
    ("t-clients", r"^Clients [1-9]"),
]
ROUTER_ROWS = [("latency", "get"), ("config", "MD5"), ("servers", "1 up"), ("servers", "out: cannot be connected to"), ("pools", "gone")]


def main(arguments):
    if len(arguments) not in (1, 2):
        raise SystemExit(__doc__)
    binary = arguments[0]
    server = Listening(binary, ["--listen", "127.0.0.1:0", "--admin", "0"])
    router = load = None
    try:
        # Nobody listens at port 1, and what belongs there goes to the server.
        pools = f'{{"all": {{"servers": ["{server.places[0]}"]}}, "gone": {{"servers": ["127.0.0.1:1"]}}}}'
        route = '{"type": "FailoverRoute", "children": ["PoolRoute|gone", "PoolRoute|all"]}'
        options = ["--config-str", f'{{"pools": {pools}, "route": {route}}}', "--listen", "127.0.0.1:0", "--admin", "0"]
        router = Listening(binary, options, ["router"])
        command = [binary, "load", "--server", router.places[0], "--duration", f"{LOAD_SECONDS}s", "--rate", "20000", "--connections", "8"]
        command += ["--preload", "--keys", "50k", "--get", "90", "--set", "10", "--value-size", "50-2K"]
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        threading.Event().wait(2)
        with tempfile.TemporaryDirectory(prefix="guira-page-") as folder:
            url = f"http://{server.admin()}/"
            check(*chromium(folder, url, "--dump-dom"), SERVER_FIGURES, ("throughput", "hits"), SERVER_ROWS)
            check(*chromium(folder, f"http://{router.admin()}/", "--dump-dom"), ROUTER_FIGURES, ("throughput", "failures"), ROUTER_ROWS)
            if len(arguments) == 2:
                chromium(folder, url, f"--screenshot={arguments[1]}")
    finally:
        if load:
            load.kill()
            load.wait()
        if router:
            router.close()
        server.close()
    print("the pages of the admin listeners: they show figures, and their consoles are empty")


main(sys.argv[1:])
