"""Helpers that drive screens with keys from ordinary tests, and wait for conditions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textual.app import App
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from harness.runs.folder import RunFolder
from harness.tui.screens.run import RunScreen
from tests.tiers import slow_values

Result = TypeVar("Result")
_KEY_NAMES = {"/": "slash", " ": "space", ":": "colon", ".": "full_stop", "_": "underscore"}
SIZES = [(80, 24), *slow_values([(200, 50), (20, 5), (250, 70)])]


class ScreenApp(App[None]):
    """An application with one screen; `results` has the values that the screen was dismissed with."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self.shown = screen
        self.results: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(self.shown, self.results.append)


def play_screen(
    screen: Screen[Any], scenario: Callable[[Pilot[None]], Awaitable[Result]], *, size: tuple[int, int] = (80, 24)
) -> Result:
    """Play `scenario` on an application that shows `screen`, and return its result."""

    async def play() -> Result:
        app = ScreenApp(screen)
        async with app.run_test(size=size) as pilot:
            return await scenario(pilot)

    return asyncio.run(play())


def burst(pilot: Pilot[None], *keys: str) -> None:
    """Post keys at once, without waiting for any, as a terminal over a slow line does. A character is its own key."""
    for key in keys:
        character = key if len(key) == 1 else "\r" if key == "enter" else "\t" if key == "tab" else None
        pilot.app.post_message(Key(_KEY_NAMES.get(key, key), character))


async def until(pilot: Pilot[None], holds: Callable[[], Any], *, seconds: float = 90.0) -> Any:
    """Wait until `holds` returns a true value, and return that; fail after `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        if value := holds():
            await pilot.pause()
            return value
        await pilot.pause(0.02)
    raise AssertionError(f"the condition did not hold within {seconds:g} s")


def text_of(pilot: Pilot[None], selector: str) -> str:
    """Return the text of the Static `selector` on the first screen, which other screens may cover."""
    return str(pilot.app.screen_stack[1].query_one(selector, Static).content)


def screen_text(app: App[Any]) -> str:
    """Return the text of the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def notifications(pilot: Pilot[None]) -> str:
    """Return the text of all notifications on the screen."""
    return " ".join(message.message for message in pilot.app._notifications)


def watch(
    folder: RunFolder, scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (80, 24)
) -> Any:
    """Play `scenario` on the screen of a run once it has shown a snapshot."""

    async def after_first_snapshot(pilot: Pilot[None]) -> Any:
        await until(pilot, lambda: "guesses" in text_of(pilot, "#metrics-text"))
        return await scenario(pilot)

    return play_screen(RunScreen(folder), after_first_snapshot, size=size)
