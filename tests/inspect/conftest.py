"""Pages in headless Chromium, which is told what to do through two pipes."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import pytest

_SECONDS = 60
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Browser:
    """Chromium with one page; ``problems`` are errors and warnings that it wrote to its console.

    Messages are JSON that ends with a zero byte (``--remote-debugging-pipe``): 3 is what Chromium
    reads, 4 what it writes.
    """

    def __init__(self, width: int = 1400, height: int = 900) -> None:
        self.problems: list[str] = []
        self._number = 0
        self._rest = b""
        self._folder = tempfile.TemporaryDirectory()
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # dup2 to 3 and 4 happens in the child, by the shell: these may be taken here.
        command = (
            'exec "$0" --headless --no-sandbox --disable-gpu --disable-extensions --no-first-run '
            f"--remote-debugging-pipe --user-data-dir='{self._folder.name}' "
            f"--window-size={width},{height} about:blank 3<&{theirs_in} 4>&{theirs_out}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM], pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = ""
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = ""
        try:
            self.call("Browser.close")
        except (OSError, TimeoutError):
            self._process.kill()
        self._process.wait(_SECONDS)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def call(self, method: str, **params):
        """Call a method of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _read(self):
        until = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise OSError("Chromium has ended")
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.problems.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.problems.append(json.dumps(params["args"]))
        self._event = message.get("method")
        return message

    def open(self, path) -> None:
        """Open a file and wait until it is there."""
        self.call("Page.navigate", url=f"file://{path}")
        until = time.monotonic() + _SECONDS
        while self.js("document.readyState") != "complete":
            assert time.monotonic() < until
            time.sleep(0.02)

    def js(self, code: str):
        """Return the value of an expression."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str) -> None:
        """Press a key."""
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        down = {"type": "keyDown", "key": key} | ({"text": text} if text else {})
        self.call("Input.dispatchKeyEvent", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def _point(self, selector: str) -> dict:
        code = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + Math.min(r.width / 2, 60), r.y + r.height / 2]; })()"
        )
        x, y = self.js(code)
        return {"x": x, "y": y}

    def hover(self, selector: str) -> None:
        """Move the mouse over the first element that a selector finds."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **self._point(selector))

    def click(self, selector: str) -> None:
        """Click on the first element that a selector finds."""
        self.hover(selector)
        for kind in ("mousePressed", "mouseReleased"):
            point = self._point(selector)
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **point)

    def dark(self, *, on: bool) -> None:
        """Say whether the person who looks prefers dark colours."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self) -> bytes:
        """Return what is seen as PNG."""
        from base64 import b64decode

        return b64decode(self.call("Page.captureScreenshot")["data"])


@pytest.fixture(scope="module")
def chromium():
    """Return Chromium with an empty page."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    browser = Browser()
    yield browser
    browser.close()
