"""Chromium without a window, driven by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# The browser reads commands from the first of these files, and writes to the second.
COMMANDS, EVENTS = 3, 4
DOMAINS = ("Page", "Runtime", "Log", "Network", "Accessibility")
CODES = {"Enter": 13, "Tab": 9, "Space": 32}
SECONDS = 60


class Browser:
    """A browser with one page; `events` has what it reported."""

    def __init__(self, folder: Path) -> None:
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()

        def place_pipes() -> None:
            # Neither may be closed by the other's duplicate.
            first, second = os.dup(read_commands), os.dup(write_answers)
            os.dup2(first, COMMANDS)
            os.dup2(second, EVENTS)

        command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=place_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_commands)
        os.close(write_answers)
        self._number, self._received, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        (target,) = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in DOMAINS:
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of the page."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression of the page holds."""
        end = time.monotonic() + SECONDS
        while not self.evaluate(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.05)

    def write(self, text: str) -> None:
        """Insert a text where the focus is."""
        self.call("Input.insertText", text=text)

    def press(self, code: str, control: bool = False) -> None:
        """Press a key."""
        key = {"key": " " if code == "Space" else code, "code": code, "windowsVirtualKeyCode": CODES[code]}
        more = {"text": "\r" if code == "Enter" else " "} if code != "Tab" and not control else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, modifiers=2 * control, **key, **(more if kind == "keyDown" else {})
            )

    def screenshot(self) -> bytes:
        """Return a picture of the page, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser ended"
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
