"""Measure what Textual's own updates and those of `harness/tui/overrides.py` send to a terminal for the same keys.

python -m tests.bench.repaint
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import RenderableType
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from harness.tui.app import HarnessApp
from harness.tui.overrides import ChangedCells, OrderedKeysApp
from tests.bench.inputs import environment_in
from tests.records import recorded_run

_KEYS = {"cursor": "jjkk", "page": "212121", "open a run": ["enter"], "panel": ["tab"] * 6}
_LINK = 125_000
"""Bytes per second of a connection of 1 Mbit/s."""


class MeasuredApp(HarnessApp):
    """Adds up the bytes of each update, as Textual writes it and as changed cells."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.textuals = 0, 0
        self._before: list[Any] = []

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count:
            now = [strip.discard_meta().simplify() for strip in self.screen._compositor.render_strips()]
            self.own += len(ChangedCells(self._before, now).render_segments(self.console).encode())
            self.textuals += len(renderable.render_segments(self.console).encode())
            self._before = now
        super()._display(screen, renderable)


async def bytes_of_keys(size: tuple[int, int]) -> None:
    """Print the median bytes that each key sends, both ways, and the time on a slow connection."""
    app = MeasuredApp()
    async with app.run_test(size=size) as pilot:
        await pilot.pause(2.0)
        for name, keys in _KEYS.items():
            sent = [await _sent(pilot, app, key) for key in keys]
            own, textuals = (statistics.median(column) for column in zip(*sent, strict=True))
            times = " and ".join(f"{1000 * count / _LINK:,.0f} ms" for count in (textuals, own))
            print(f"{size[0]}x{size[1]}  {name:11} Textual {textuals:9,.0f}  changed cells {own:8,.0f} bytes: {times}")


async def _sent(pilot: Pilot[None], app: MeasuredApp, key: str) -> tuple[int, int]:
    before = app.own, app.textuals
    await pilot.press(key)
    await pilot.pause(0.4)
    return app.own - before[0], app.textuals - before[1]


class _Form(Screen[None]):
    def compose(self) -> ComposeResult:
        yield Input(id="first")
        yield Input(id="second")


class _TextualApp(App[None]):
    SCREENS = {"form": _Form}  # noqa: RUF012


class _OrderedApp(OrderedKeysApp):
    SCREENS = {"form": _Form}  # noqa: RUF012


async def bursts(name: str, app: App[None], text: Sequence[str]) -> None:
    """Print where the keys of a burst land that goes to the next field in the middle, and the time of each key."""
    async with app.run_test() as pilot:
        app.push_screen("form")
        await pilot.pause(0.5)
        start = time.perf_counter()
        for key in text:
            app.post_message(Key(key, key if len(key) == 1 else "\t"))
        fields = list(app.screen.query(Input))
        while sum(len(field.value) for field in fields) < len(text) - 1:
            await asyncio.sleep(0.001)
        milliseconds = 1000 * (time.perf_counter() - start) / len(text)
        print(f"{name:20} first {fields[0].value!r}, second {fields[1].value!r}, {milliseconds:.1f} ms per key")


def main() -> None:
    """Measure on a home with four finished runs."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, environment_in(Path(folder))):
        for number in range(4):
            home = Path(os.environ["HARNESS_HOME"]).parent
            run = recorded_run(home, id_=f"{number}aaa-draws-small", examples=64, length=50, pid=os.getpid())
            run.guess(run.batch("0"), [(example, example < 32, 1.0 - example / 64) for example in range(64)])
            run.event("phase", phase="finished")
            run.store.close()
        for size in ((80, 24), (120, 35), (200, 55)):
            asyncio.run(bytes_of_keys(size))
    keys = [*"10", "tab", *"600"]
    asyncio.run(bursts("Textual", _TextualApp(), keys))
    asyncio.run(bursts("one key at a time", _OrderedApp(), keys))


if __name__ == "__main__":
    main()
