"""Keys that arrive in one burst are handled in their order, each after all effects of the one before."""

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from harness.tui import overrides
from harness.tui.overrides import OrderedKeysApp
from tests.tui.piloting import burst, until


class Form(Screen[None]):
    """Two fields. Enter goes to the next one, and `/` shows a third."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("f2", "close", "Close"),
        Binding("f3", "remove_field", "Remove"),
        Binding("f5", "go_slowly", "Slow"),
    ]

    def compose(self) -> ComposeResult:
        yield Input(id="first")
        yield Input(id="second")
        hidden = Input(id="hidden")
        hidden.display = False
        yield hidden

    @on(Input.Submitted)
    def _next(self) -> None:
        self.focus_next()

    def action_search(self) -> None:
        self.query_one("#hidden").display = True
        self.set_focus(self.query_one("#hidden"))

    def action_close(self) -> None:
        self.dismiss(None)

    async def action_go_slowly(self) -> None:
        await asyncio.sleep(0.5)
        self.set_focus(self.query_one("#second"))

    async def action_remove_field(self) -> None:
        await self.query_one("#first").remove()


class FormApp(OrderedKeysApp):
    """Counts the keys that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.unhandled: list[str] = []

    def on_mount(self) -> None:
        self.push_screen(Form())

    def on_key(self, event: Key) -> None:
        self.unhandled.append(event.key)


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with FormApp().run_test() as pilot:
        yield pilot


def values(pilot: Pilot[None]) -> list[str]:
    return [field.value for field in pilot.app.screen.query(Input)]


async def test_keys_that_wait_when_the_application_ends_are_dropped() -> None:
    app = FormApp()
    async with app.run_test() as pilot:
        burst(pilot, *"0123456789")
        while len(app._keys) < 2:
            await asyncio.sleep(0)
    assert len(app._keys) > 1 and not app.screen_stack
    await app._next_key(app._keys[0])


async def test_keys_after_tab_land_in_the_next_field(pilot: Pilot[None]) -> None:
    burst(pilot, *"10", "tab", *"600")
    await until(pilot, lambda: "".join(values(pilot)) == "10600")
    assert values(pilot) == ["10", "600", ""]


async def test_keys_after_enter_land_in_the_field_that_the_message_focuses(pilot: Pilot[None]) -> None:
    burst(pilot, *"ab", "enter", *"cd", "enter", "end", *"ef")
    await until(pilot, lambda: len("".join(values(pilot))) == 6)
    assert values(pilot) == ["abef", "cd", ""]


async def test_keys_after_an_action_land_in_the_field_that_it_shows(pilot: Pilot[None]) -> None:
    pilot.app.screen.set_focus(None)
    burst(pilot, "/", *"words")
    await until(pilot, lambda: len("".join(values(pilot))) == 5)
    assert values(pilot) == ["", "", "words"]


async def test_keys_wait_for_an_action_on_a_slow_machine(pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "_LOST_SECONDS", 0.05)
    burst(pilot, "f5", *"200")
    await until(pilot, lambda: "".join(values(pilot)) == "200")
    assert values(pilot) == ["", "200", ""]


async def test_a_long_burst_keeps_its_order(pilot: Pilot[None]) -> None:
    text = "the quick brown fox jumps over the lazy dog " * 3
    burst(pilot, *text)
    await until(pilot, lambda: len(values(pilot)[0]) == len(text))
    assert values(pilot) == [text, "", ""]


async def test_a_key_that_removes_the_focused_field_does_not_block_the_next(pilot: Pilot[None]) -> None:
    burst(pilot, "f3", *"ab", "f4")
    await until(pilot, lambda: "f4" in pilot.app.unhandled)  # type: ignore[attr-defined]
    assert len(pilot.app.screen.query(Input)) == 2


async def test_a_key_that_closes_the_screen_does_not_block_the_next(pilot: Pilot[None]) -> None:
    burst(pilot, "f2", *"xyz")
    await until(pilot, lambda: not isinstance(pilot.app.screen, Form))
    await until(pilot, lambda: pilot.app.unhandled[-3:] == ["x", "y", "z"])  # type: ignore[attr-defined]
