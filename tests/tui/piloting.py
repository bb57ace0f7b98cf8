"""Start applications and screens in tests, drive them with keys, and wait for conditions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp
from harness.tui.overrides import OrderedKeysApp
from harness.tui.screens.main import MainScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.bars import TABS
from harness.tui.widgets.panels import Panel, PanelGroup
from tests.functional.machine import pauses
from tests.tools.tiers import long_values

_KEY_NAMES = {"/": "slash", " ": "space", ":": "colon", ".": "full_stop", "_": "underscore"}
SIZES = [(80, 24), *long_values([(200, 50), (20, 5), (250, 70)])]


class ScreenApp(OrderedKeysApp):
    """An application with one screen; `results` has the values that the screen was dismissed with."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, screen: Screen[Any], theme: str = "textual-dark") -> None:
        super().__init__()
        self.shown, self._first_theme = screen, theme
        self.results: list[Any] = []

    def on_mount(self) -> None:
        self.theme = self._first_theme
        self.push_screen(self.shown, self.results.append)


@asynccontextmanager
async def open_app(
    *,
    size: tuple[int, int] = (120, 40),
    attacks_folder: Path | None = None,
    watched: RunFolder | None = None,
    round_choice: str | None = None,
) -> AsyncIterator[Pilot[None]]:
    """Start the application, and wait until the main screen has shown the state of the machine.

    Notifications are not on the screen. round_choice: the round of its lists, by name or file.
    """
    app = HarnessApp(attacks_folder=attacks_folder, watched=watched)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.overview is not None and app.main.is_mounted)
        if round_choice is not None:
            app.action_use_round(round_choice)
        yield pilot


@asynccontextmanager
async def open_screen(
    screen: Screen[Any], *, size: tuple[int, int] = (80, 24), theme: str = "textual-dark"
) -> AsyncIterator[Pilot[None]]:
    """Start an application that shows `screen`."""
    async with ScreenApp(screen, theme).run_test(size=size) as pilot:
        yield pilot


@asynccontextmanager
async def open_run(folder: RunFolder, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """Start an application that shows the screen of a run, and wait for its first snapshot."""
    async with open_screen(RunScreen(folder), size=size) as pilot:
        await until(pilot, lambda: "guesses" in text_of(pilot, "#details-text"))
        yield pilot


def burst(pilot: Pilot[None], *keys: str) -> None:
    """Post keys at once, without waiting for any, as a terminal over a slow line does. A character is its own key."""
    for key in keys:
        character = key if len(key) == 1 else "\r" if key == "enter" else "\t" if key == "tab" else None
        pilot.app.post_message(Key(_KEY_NAMES.get(key, key), character))


async def until(pilot: Pilot[None], holds: Callable[[], Any], *, seconds: float = 90.0) -> Any:
    """Wait until `holds` returns a true value, and return that; fail after `seconds`."""
    for pause in pauses(seconds):
        if value := holds():
            await pilot.pause()
            return value
        await asyncio.sleep(pause)
    raise AssertionError(f"the condition was not met within {seconds:g} s")


async def press(pilot: Pilot[None], *keys: str, then: Callable[[], Any] | type[Screen[Any]]) -> Any:
    """Press keys, and wait until `then` returns a true value, which is returned, or for a screen of the type `then`."""
    await pilot.press(*keys)
    if isinstance(then, type):
        return await until(pilot, lambda: isinstance(pilot.app.screen, then) and pilot.app.screen)
    return await until(pilot, then)


def focus_panel(pilot: Pilot[None], panel: str) -> None:
    """Move the focus to a panel of the screen."""
    pilot.app.screen.query(PanelGroup).first().go_to(panel)


def text_of(pilot: Pilot[None], selector: str) -> str:
    """Return the text of the Static `selector` on the topmost screen that has one; empty without one."""
    for screen in reversed(pilot.app.screen_stack):
        for found in screen.query(selector).results(Static):
            return str(found.content)
    return ""


def screen_text(app: App[Any]) -> str:
    """Return the text of the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def notifications(pilot: Pilot[None]) -> str:
    """Return the text of all notifications on the screen."""
    return " ".join(message.message for message in pilot.app._notifications)


def title_of(pilot: Pilot[None], panel: str) -> str:
    """Return the title of the panel with this id."""
    for screen in reversed(pilot.app.screen_stack):
        for found in screen.query(f"#{panel}").results(Panel):
            return str(found._border_title)
    raise AssertionError(f"there is no panel #{panel}")


async def on_page(pilot: Pilot[None], number: int) -> None:
    """Go to the page of a tab, counted from 1."""
    await pilot.press(str(number))
    screen = pilot.app.screen
    assert isinstance(screen, MainScreen)
    await until(pilot, lambda: screen._tab == list(TABS)[number - 1])
