"""A real Chromium that a test opens pages in, driven over a pipe (the Chrome DevTools protocol)."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "End": 35,
    "Home": 36,
}


# Chromium reads commands from descriptor 3 and writes answers to 4. They may be in use here for something else.
_START = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 100) for each in sys.argv[1:3])
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A running Chromium, and one tab of it."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._number, self._buffer = 0, b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._target = ""

    def new_tab(self) -> None:
        """Close the tab and open another one, without what the last one stored."""
        self._session, before = None, self._target
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if before:
            self.call("Target.closeTarget", targetId=before)
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.clearBrowserCookies")
        self.events.clear()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]  # type: ignore[no-any-return]
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            got = os.read(self._reading, 1 << 20)
            assert got, "Chromium has ended"
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)  # type: ignore[no-any-return]

    def open(self, address: str) -> None:
        """Go to an address, and wait for its document."""
        self.run("window.before = true")
        self.call("Page.navigate", url=address)
        self.until("(window.before === undefined || location.hash) && document.readyState !== 'loading'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, within_s: float = 20) -> Any:
        """Wait until an expression is true, and return its value."""
        end_s = time.monotonic() + within_s
        while True:
            try:
                if found := self.run(script):
                    return found
            except AssertionError as error:  # the page went to another address meanwhile
                if "navigated" not in str(error):
                    raise
            if time.monotonic() > end_s:
                text = self.run("document.body.innerText.slice(0, 2000)")
                raise AssertionError(f"not true within {within_s:g} s: {script}; {self.problems}; the page:\n{text}")
            time.sleep(0.1)

    def look(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Set the size in CSS pixels and the colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 600)  # fmt: skip
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])  # fmt: skip

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def write(self, text: str) -> None:
        """Write text where the focus is."""
        self.call("Input.insertText", text=text)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the viewport."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> Path:
        """Write what is seen to a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        return path

    @property
    def problems(self) -> list[str]:
        """Errors that the page has logged, its policy's among them."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            if event["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error":
                found.append(str(parameters["args"]))
        return found


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile in `folder`; skip the test where there is none."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    commands, answers = os.pipe(), os.pipe()
    start = [sys.executable, "-c", _START, str(commands[0]), str(answers[1]), program]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
               f"--user-data-dir={folder / 'profile'}", "about:blank"]  # fmt: skip
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*start, *options], pass_fds=(commands[0], answers[1]), stdout=log, stderr=log, start_new_session=True
        )
    os.close(commands[0])
    os.close(answers[1])
    try:
        yield Browser(answers[0], commands[1])
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(commands[1])
        os.close(answers[0])
