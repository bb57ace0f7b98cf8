"""Open pages in headless Chromium through its debugging pipe, and report what a reader would notice.

Two pipes carry one JSON message after another, each followed by a NUL byte (the Chrome DevTools Protocol).
"""

import base64
import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.image import imread

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_HEIGHT = 900


class Look(NamedTuple):
    """One look at a page.

    `errors` are console errors, exceptions and failed requests. `overflow` is the number of pixels by which the page is
    wider than the window, and `too_wide` names the elements that cause it. `png` is the picture of the whole page.
    """

    errors: list[str]
    overflow: int
    too_wide: list[str]
    png: bytes


class Browser:
    """A running Chromium with one open tab."""

    def __init__(self, commands: int, messages: int) -> None:
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._messages = os.fdopen(messages, "rb")
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self._buffer = b""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def look(self, page: Path, *, width: int, is_dark: bool = False, takes_picture: bool = False) -> Look:
        """Open the file `page` in a window `width` pixels wide."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        # A mobile window would zoom out until everything fits, and so hide an overflow.
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=_HEIGHT, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self._call("Page.navigate", url=page.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()
        overflow = self.evaluate("document.documentElement.scrollWidth - innerWidth")
        too_wide = self.evaluate(_ELEMENTS_TOO_WIDE) if overflow > 0 else []
        png = b""
        if takes_picture:
            height = self.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            drawn = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            png = base64.b64decode(drawn["data"])
        return Look(self._errors(), overflow, too_wide, png)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the open page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def darkness_of_right_edge(self, element: str) -> float:
        """Return how much darker, from 0 to 1, the right edge of an element is than the page, between its lines."""
        right, top = self.evaluate(f"(box => [box.right, box.top])({element}.getBoundingClientRect())")
        clip = {"x": right - 2, "y": top + 4, "width": 2, "height": 2, "scale": 1}
        drawn = self._call("Page.captureScreenshot", format="png", clip=clip)
        return 1.0 - float(imread(io.BytesIO(base64.b64decode(drawn["data"])))[..., :3].mean())

    def close(self) -> None:
        """Ask Chromium to end, and close the pipes."""
        with contextlib.suppress(OSError):
            self._session = None
            self._send("Browser.close", {})
        self._commands.close()
        self._messages.close()

    def _errors(self) -> list[str]:
        found = []
        for event in self._events:
            method, values = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(values["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
                found.append(str([argument.get("value") for argument in values["args"]]))
            elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
                found.append(values["entry"]["text"])
            elif method == "Network.loadingFailed":
                found.append(values["errorText"])
        return found

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = self._send(method, params)
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self) -> dict[str, Any]:
        """Return the next message. An event is also kept."""
        while b"\0" not in self._buffer:
            piece = self._messages.read1(1 << 16)
            assert piece, "Chromium ended"
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message


_ELEMENTS_TOO_WIDE = """[...document.querySelectorAll('body *')].filter(one => {
    const scrolls = one.parentElement.closest('.wide, .across, pre');
    return !scrolls && one.getBoundingClientRect().right > innerWidth + 0.5;
}).map(one => one.tagName + '.' + one.className + ': ' + one.textContent.trim().slice(0, 40))"""


def chromium() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium with a profile of its own, and end it after the block."""
    program = chromium()
    assert program is not None, "require Chromium first"
    read_commands, commands = _pipe()
    messages, write_messages = _pipe()
    with tempfile.TemporaryDirectory(prefix="harness-chromium-", ignore_cleanup_errors=True) as profile:
        # Chromium reads commands from descriptor 3 and writes messages to descriptor 4.
        script = f'exec "$@" 3<&{read_commands} 4>&{write_messages}'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(read_commands, write_messages),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
            start_new_session=True,
        )
        os.close(read_commands)
        os.close(write_messages)
        try:
            browser = Browser(commands, messages)
            yield browser
            browser.close()
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are above those that Chromium expects."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
