"""A headless Chromium, controlled through its debugging pipe: load pages, click, type, take screenshots.

Needs only the program (Debian package chromium), no driver and no Python package.
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
    """Return the path of the program, None if it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page in a browser, which runs within a `with` block."""

    def __enter__(self):
        # processes of the browser may still write to its profile when its main process has ended
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        commands, answers = os.pipe(), os.pipe()
        # the browser reads from descriptor 3 and writes to 4; duplicates above 10 are not overwritten by dup2
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (commands[0], answers[1]))
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        self.process = subprocess.Popen(
            [chromium(), *flags, f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: (os.dup2(read, 3), os.dup2(write, 4)),  # noqa: PLW1509
            close_fds=False,
        )
        for fd in (commands[0], answers[1], read, write):
            os.close(fd)
        self.commands = os.fdopen(commands[1], "wb", buffering=0)
        self.answers = os.fdopen(answers[0], "rb")
        self.number, self.session, self.events, self.unread = 0, None, [], b""
        pages = self("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.commands.close()
        self.answers.close()
        self.profile.cleanup()

    def __call__(self, method, **params):
        """Send a command of the DevTools protocol and return its result; events in between are appended to `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self.unread:
            block = os.read(self.answers.fileno(), 1 << 16)
            assert block, "the browser has ended"
            self.unread += block
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def load(self, path, *, width=1200, height=900, dark=False):
        """Load a file and wait for its load event."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.media(dark=dark)
        self.events.clear()
        self("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def media(self, *, dark=False, kind=""):
        """Switch to dark mode, or to print."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def js(self, expression):
        """Return the value of an expression in the page."""
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
        """Save a screenshot of the page."""
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
        """Errors and warnings of the console, dialogs, and requests for anything but the file and its own data."""
        self.js("1")  # pending events arrive before the answer
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
