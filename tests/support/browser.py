"""A headless browser for tests of pages: Chromium over a pipe, by its DevTools protocol
(chromedevtools.github.io/devtools-protocol), messages of JSON that end with a null byte."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")


class Browser:
    """A page in Chromium; a context manager."""

    def __init__(self, folder: Path, width: int = 1360, height: int = 1000) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        assert program, "no Chromium: apt-get install chromium-headless-shell"
        (to_read, self._to), (self._from, from_write) = os.pipe(), os.pipe()
        options = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
            *(f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"),
        ]
        # Chromium reads from descriptor 3 and writes to 4
        moved = f'exec 3<&{to_read} 4>&{from_write}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", program, *options],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self._number, self._rest, self._session = 0, b"", ""
        self.requests = list[str]()
        self.complaints = list[str]()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        found = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.send("Browser.close")
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def send(self, method: str, **parameters: Any) -> Any:
        """The answer to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        line, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(line)
        said = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(said))
        return message

    def open(self, url: str) -> None:
        """Load a page to its end."""
        self.send("Page.navigate", url=url)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press a key and let go of it."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        code = codes.get(key, 40 if key == "ArrowDown" else 36)
        facts = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send(
            "Input.dispatchKeyEvent", type="keyDown", **facts, **({"text": text} if text else {})
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **facts)

    def colours(self, scheme: str) -> None:
        """Show the page as for people who prefer `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        return base64.b64decode(data)
