"""Screens driven as a person drives them, from ordinary tests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from tests.tiers import slow_values

Result = TypeVar("Result")
SIZES = [(80, 24), *slow_values([(200, 50), (20, 5), (250, 70)])]


class Stage(App[None]):
    """An application of one screen, which keeps what the screen was dismissed with."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self.shown = screen
        self.results: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(self.shown, self.results.append)


def played(
    screen: Screen[Any], scenario: Callable[[Pilot[None]], Awaitable[Result]], *, size: tuple[int, int] = (80, 24)
) -> Result:
    """What `scenario` returns, played on an application that shows `screen`."""

    async def play() -> Result:
        app = Stage(screen)
        async with app.run_test(size=size) as pilot:
            return await scenario(pilot)

    return asyncio.run(play())


async def until(pilot: Pilot[None], holds: Callable[[], Any], *, seconds: float = 30.0) -> Any:
    """The first true value of `holds`, which must come within `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        if value := holds():
            await pilot.pause()
            return value
        await pilot.pause(0.02)
    raise AssertionError(f"it did not happen within {seconds:g} s")


def text_of(pilot: Pilot[None], selector: str) -> str:
    """What the Static `selector` of the first screen holds, whatever stands above that screen."""
    return str(pilot.app.screen_stack[1].query_one(selector, Static).content)


def words_on(app: App[Any]) -> str:
    """Everything that is to be read on the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def said(pilot: Pilot[None]) -> str:
    """Every notification that still stands."""
    return " ".join(message.message for message in pilot.app._notifications)
