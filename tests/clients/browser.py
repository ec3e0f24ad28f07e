"""Headless Chromium, by its debugging pipe: no port is open, and nothing is installed for it."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE_SECONDS = 60
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]


class Browser:
    """One browser with one page."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="guira-browser-", ignore_cleanup_errors=True)
        self.console = []
        self._number, self._rest = 0, b""
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        # The browser reads commands from descriptor 3 and writes replies to descriptor 4.
        command = ["sh", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "sh", "chromium", *OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self._session = None
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """The result of a command of the DevTools protocol."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") != self._number:
                self._note(message)
            elif "error" in message:
                raise SystemExit(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def _message(self):
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], PATIENCE_SECONDS)[0]:
                raise SystemExit(f"chromium has not answered for {PATIENCE_SECONDS} s")
            more = os.read(self._in, 1 << 16)
            if not more:
                raise SystemExit("chromium has ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(one.get("value")) for one in parameters["args"]))
        elif message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))

    def show(self, url, width, scheme):
        """Opens a page in a window of this width, in a light or a dark theme."""
        self.console.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """What an expression of JavaScript is in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, expression, what):
        """Waits until an expression is true. While the page is loading, its names are not known."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.value(f"(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()"):
            if time.monotonic() > end:
                raise SystemExit(f"the page does not show {what}; its text is:\n{self.value('document.body.innerText')}")
            time.sleep(0.1)

    def move(self, x, y):
        """Moves the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, x, y):
        """Taps with a finger."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.call("Emulation.setTouchEmulationEnabled", enabled=False)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, path):
        """Takes a picture of the whole page."""
        height = self.value("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": self.value("innerWidth"), "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._folder.cleanup()
