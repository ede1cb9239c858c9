"""A headless Chromium by its debugging pipe: pages are loaded, clicked, typed into and photographed for real.

Needs the program alone (Debian package chromium), no driver and no Python package.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def chromium():
    """Path of the program, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page in a browser, which ends with the `with` block. `problems` are console errors and requests made."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-")
        ours, theirs = os.pipe(), os.pipe()
        # the browser reads from 3 and writes to 4; numbers above keep the two from being overwritten on the way
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (ours[0], theirs[1]))
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        self.process = subprocess.Popen(
            [chromium(), *flags, f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: (os.dup2(read, 3), os.dup2(write, 4)),  # noqa: PLW1509
            close_fds=False,
        )
        for fd in (ours[0], theirs[1], read, write):
            os.close(fd)
        self.to, self.back = os.fdopen(ours[1], "wb", buffering=0), os.fdopen(theirs[0], "rb")
        self.number, self.session, self.events, self.rest = 0, None, [], b""
        pages = self("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.to.close()
        self.back.close()
        self.profile.cleanup()

    def __call__(self, method, **params):
        """Send a command of the DevTools protocol and return its result; what happens meanwhile goes to `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self.rest:
            part = os.read(self.back.fileno(), 1 << 16)
            assert part, "the browser has ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def load(self, path, *, width=1200, height=900, dark=False):
        """Load a file and wait until it is there."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.media(dark=dark)
        self.events.clear()
        self("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def media(self, *, dark=False, kind=""):
        """Switch to the dark, or to print."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def js(self, expression):
        """Value of an expression in the page."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector):
        """Press and release the mouse over an element."""
        self.js(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center', behavior: 'instant'}})"
        )
        box = self.js(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)

    def press(self, key, code):
        """Press and release a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def type(self, text):
        """Type into the element that has the focus."""
        self("Input.insertText", text=text)

    def picture(self, path, *, whole=True, clip=None):
        """Photograph the page."""
        options = {"captureBeyondViewport": whole}
        if clip is not None:
            options["clip"] = {"x": 0, "y": 0, "scale": 1, **clip}
        elif whole:
            size = self("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "scale": 1, "width": size["width"], "height": size["height"]}
        Path(path).write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png", **options)["data"]))

    def pdf(self, path):
        """Print the page to A4."""
        answer = self("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    @property
    def problems(self):
        """Errors and warnings of the console, dialogues, and requests for anything but the file and its own data."""
        self.js("1")  # whatever is under way is reported before the answer
        return [event for event in self.events if self._is_problem(event.get("method"), event.get("params", {}))]

    @staticmethod
    def _is_problem(method, params):
        if method == "Runtime.consoleAPICalled":
            return params["type"] in ("error", "warning")
        if method == "Log.entryAdded":
            return params["entry"]["level"] in ("error", "warning")
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            return not url.startswith("data:") and url.split("#")[0] != params["documentURL"].split("#")[0]
        return method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
