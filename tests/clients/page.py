"""The pages of the admin listeners of a server, of a router before it, and of a region, in headless Chromium: they show figures under load, their
charts have points and tooltips, they fit narrow windows, and their consoles stay empty.

    page.py PATH_TO_GUIRA [FOLDER]     with a folder, takes pictures of the pages too
    page.py --at URL [FOLDER]          checks only the look of a page that is served already
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

from browser import Browser
from server import Listening

LOAD_SECONDS = 180
REGION_SECONDS = 120
WINDOWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

# Elements that are wider than the window, except in a box that scrolls.
OVERFLOWING = """[document.documentElement, ...document.body.querySelectorAll("*")]
  .filter((one) => !one.closest(".wide, .unseen") && (one.getBoundingClientRect().right > innerWidth + 0.5 || one === document.documentElement && one.scrollWidth > innerWidth))
  .map((one) => `${one.tagName} ${one.id} ${one.className.baseVal ?? one.className}: ${one.textContent.slice(0, 40)}`)"""
# Labels of a chart that overlap.
OVERLAPPING = """[...document.querySelectorAll("figure")].flatMap((figure) => {
  const labels = [...figure.querySelectorAll("text, .legend > span")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  return labels.flatMap(([name, a], index) => labels.slice(index + 1)
    .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2).map(([other]) => `${figure.id}: ${name} and ${other}`));
})"""
# Text with too little contrast to its ground (WCAG 2.2, AA).
FAINT = """(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const luminance = (colour) => parts(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4).reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0.05);
  const ground = (one) => { while (one && parts(getComputedStyle(one).backgroundColor)[3] === 0) one = one.parentElement; return one ? getComputedStyle(one).backgroundColor : "rgb(255,255,255)"; };
  const contrast = (one, other) => Math.max(one, other) / Math.min(one, other);
  const texts = [...document.body.querySelectorAll("*")].filter((one) => one.getClientRects().length && !one.disabled && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return texts.filter((one) => !["SCRIPT", "STYLE", "OPTION"].includes(one.tagName)).map((one) => {
    const style = getComputedStyle(one), ink = one.namespaceURI.endsWith("svg") ? style.fill : style.color;
    return [contrast(luminance(ink), luminance(ground(one))), one.textContent];
  }).filter(([value]) => value < 4.5).map(([value, text]) => `${value.toFixed(2)}: ${text.slice(0, 40)}`);
})()"""
CENTRE = "(() => { const box = document.querySelector('#%s svg').getBoundingClientRect(); return [box.left + box.width * 0.6, box.top + box.height / 2]; })()"
DRAWN = "(plots.get('%s') || { all: [] }).all.length"
PARTS = """(() => {
  const element = document.getElementById('%s'), parts = [];
  if (!element) return null;
  for (const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT); walker.nextNode();) parts.push(walker.currentNode.data);
  return parts.join(" ");
})()"""
TIP = "document.querySelector('#%s .tip:not([hidden])')?.innerText ?? ''"

SERVER_FIGURES = [
    ("t-requests", r"^Requests per second [\d.]+ [KM]\b"),
    ("t-hits", r"^Hit ratio [\d.]+ %"),
    ("t-latency", r"^99 % of gets within [\d.]+ [nµm]?s\b"),
    ("t-memory", r"^Items and index [\d.]+ MiB\b"),
    ("t-items", r"^Items [\d.]+ K\b"),
    ("t-connections", r"^Connections [1-9]"),
]
SERVER_ROWS = [("latency", "get"), ("workers", "worker 1"), ("memory", "code and system"), ("classes", "KiB"), ("top-keys", "%"), ("top-prefixes", "%")]
ROUTER_FIGURES = [
    ("t-requests", r"^Requests per second [\d.]+ [KM]\b"),
    ("t-success", r"^Success rate [\d.]+ %"),
    ("t-latency", r"^99 % of gets within [\d.]+ [nµm]?s\b"),
    ("t-servers", r"^Servers in service 1 of 2"),
    ("t-config", r"^Configuration [\d.]+ (s|min)\b"),
    ("t-clients", r"^Clients [1-9]"),
]
ROUTER_ROWS = [("latency", "get"), ("config", "MD5"), ("servers", "1 up"), ("servers", "failed: unreachable"), ("pools", "gone")]


def text(browser, identity):
    """The text of an element, with single blanks between its parts."""
    shown = browser.value(PARTS % identity)
    if shown is None:
        raise SystemExit(f"the page has no {identity}")
    return re.sub(r"\s+", " ", shown).strip()


def check_figures(browser, figures, rows):
    for identity, figure in figures:
        shown = text(browser, identity)
        if not re.search(figure, shown):
            raise SystemExit(f"{identity} shows no figure: {shown}")
    for identity, row in rows:
        if row not in text(browser, identity):
            raise SystemExit(f"{identity} has no row {row}: {text(browser, identity)}")


def check_chart(browser, identity, tip):
    """A chart has points, and says of one what it is: to the mouse, the keyboard and a finger."""
    browser.wait(f"{DRAWN % identity} >= 2 && document.querySelector('#{identity} path.line') !== null", f"points in {identity}")
    browser.value(f"document.getElementById('{identity}').scrollIntoView({{ block: 'center' }})")
    browser.move(*browser.value(CENTRE % identity))
    shown = re.sub(r"\s+", " ", browser.value(TIP % identity))
    if not re.search(tip, shown):
        raise SystemExit(f"{identity} has no tooltip: {shown!r}")
    browser.move(1, 1)
    if browser.value(TIP % identity):
        raise SystemExit(f"{identity} keeps its tooltip")
    browser.value(f"document.getElementById('{identity}').focus()")
    browser.press("ArrowLeft")
    said = text(browser, "said")
    if not browser.value(TIP % identity) or not re.search(r"\d\d:\d\d:\d\d", said):
        raise SystemExit(f"{identity} does not follow the arrow keys: {said!r}")
    browser.press("Escape")
    if browser.value(TIP % identity):
        raise SystemExit(f"{identity} keeps its tooltip after Escape")
    browser.tap(*browser.value(CENTRE % identity))
    browser.wait(f"{TIP % identity} !== ''", f"a tooltip of {identity} after a tap")


def check_look(browser, url, pictures, name):
    """A page has no overflow, no overlapping labels and no faint text."""
    for width, scheme in WINDOWS:
        browser.show(url, width, scheme)
        browser.wait("seen.length > 3", "figures")
        if pictures:
            browser.picture(os.path.join(pictures, f"{name}-{width}-{scheme}.png"))
        for what, expression in (("overflow", OVERFLOWING), ("overlap", OVERLAPPING), ("is faint", FAINT)):
            found = browser.value(expression)
            if found:
                raise SystemExit(f"the page of {name} at {width} px, {scheme}: {what}:\n" + "\n".join(found))
        if browser.console:
            raise SystemExit("the console is not empty:\n" + "\n".join(browser.console))


def check_past(browser, url):
    """A page that is opened later shows the past."""
    browser.show(url, 1280, "light")
    browser.wait("past.length >= 2 && past.some((point) => point.gets > 100)", "the history of the server")
    browser.show(url, 1280, "light")
    browser.wait(f"{DRAWN % 'throughput'} >= 2", "the history of the server")
    if not browser.value("plots.get('throughput').all[0].at < seen[0].at - 5"):
        raise SystemExit("the chart does not begin with the history")


def check_token(browser, binary):
    """A page says what to do about a token that is missing or wrong."""
    with tempfile.NamedTemporaryFile("w", prefix="guira-token-") as file:
        file.write("s3cret\n")
        file.flush()
        server = Listening(binary, ["--listen", "127.0.0.1:0", "--admin", "0", "--admin-token-file", file.name])
        try:
            browser.show(f"http://{server.admin()}/", 390, "light")
            browser.wait("document.getElementById('state').textContent === 'locked'", "that it is locked")
            enter = "document.getElementById('token').value = '%s'; document.querySelector('#ask button').click()"
            for token, words in ((None, "only to those who have its token"), ("wr\u00f6ng", "printable ASCII"), ("wrong", "refused this token")):
                if token:
                    browser.value(enter % token)
                browser.wait(f"document.getElementById('ask-why').textContent.includes('{words}')", words)
                if "admin-token-file" not in text(browser, "ask") or browser.value(OVERFLOWING) or browser.value(FAINT):
                    raise SystemExit(f"the question for the token is incomplete, too wide or too faint: {text(browser, 'ask')}")
            browser.value(enter % "s3cret")
            browser.wait("document.getElementById('state').textContent === 'ready' && document.getElementById('ask').hidden", "figures for the token")
        finally:
            server.close()


class Region:
    """A region without etcd and MariaDB."""

    def __init__(self, binary):
        self._folder = tempfile.TemporaryDirectory(prefix="guira-page-region-", ignore_cleanup_errors=True)
        programs = os.path.join(self._folder.name, "bin")
        os.mkdir(programs)
        os.symlink("/bin/sh", os.path.join(programs, "sh"))
        command = [os.path.abspath(binary), "fleet", "up", "--folder", os.path.join(self._folder.name, "region")]
        self._process = subprocess.Popen(command, env=os.environ | {"PATH": programs}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        limit = threading.Timer(REGION_SECONDS, self._process.kill)
        limit.start()
        self.url = next((line.split()[1] for line in self._process.stdout if line.startswith("page: ")), None)
        limit.cancel()
        if not self.url:
            raise SystemExit("the region does not start")

    def kill(self, part):
        request = urllib.request.Request(f"{self.url}break?kind=kill&what={part}&for_ms=3000", method="POST", headers={"X-Guira": "1"})
        with urllib.request.urlopen(request, timeout=30):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def check_region(browser, binary, pictures):
    """Charts of a region mark faults, and tooltips name them."""
    with Region(binary) as region:
        browser.show(region.url, 1280, "light")
        browser.wait("seen.length > 4", "figures")
        region.kill("node-1")
        browser.wait("document.querySelectorAll('#throughput .band, #waits .band').length === 2", "the fault in its charts")
        browser.wait("seen[seen.length - 1].status.faults[0].is_over", "the end of the fault")
        inside = "(() => { const drawn = plots.get('throughput'), box = drawn.svg.getBoundingClientRect(); return [box.left + drawn.x(drawn.bands[0].to), box.top + box.height / 2]; })()"
        browser.value("document.getElementById('throughput').scrollIntoView({ block: 'center' })")
        browser.move(*browser.value(inside))
        shown = re.sub(r"\s+", " ", browser.value(TIP % "throughput"))
        if not re.search(r"fault: kill node-1 reads [\d,.]+/s misses", shown):
            raise SystemExit(f"the tooltip does not name the fault: {shown!r}")
        check_look(browser, region.url, pictures, "region")


def check_all(browser, binary, server, router, pictures):
    pages = [
        ("server", server, SERVER_FIGURES, SERVER_ROWS, [("throughput", r"^\d\d:\d\d:\d\d, .*gets [\d,.]+/s"), ("hits", r"hits [\d.]+ %")]),
        ("router", router, ROUTER_FIGURES, ROUTER_ROWS, [("throughput", r"^\d\d:\d\d:\d\d, .*gets [\d,.]+/s"), ("failures", r"clients [\d.]+ %")]),
    ]
    for name, url, figures, rows, charts in pages:
        check_past(browser, url)
        browser.wait("seen.length > 4", "figures")
        check_figures(browser, figures, rows)
        for identity, tip in charts:
            check_chart(browser, identity, tip)
        state = text(browser, "state")
        if state != ("ready" if name == "server" else "degraded: 1 of 2 servers out of service"):
            raise SystemExit(f"the {name} is {state}")
        check_look(browser, url, pictures, name)
    check_token(browser, binary)
    check_region(browser, binary, pictures)


def main(arguments):
    if arguments[:1] == ["--at"] and len(arguments) in (2, 3):
        with Browser() as browser:
            check_look(browser, arguments[1], *arguments[2:] or [None], "page")
        return
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
        with Browser() as browser:
            check_all(browser, binary, f"http://{server.admin()}/", f"http://{router.admin()}/", *arguments[1:] or [None])
    finally:
        if load:
            load.kill()
            load.wait()
        if router:
            router.close()
        server.close()
    print("the pages of the admin listeners: they show figures, history and tooltips, fit narrow windows, and their consoles are empty")


if __name__ == "__main__":
    main(sys.argv[1:])
