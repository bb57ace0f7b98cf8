"""The application: help, command palette, screenshots, log, clipboard and internal errors."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from harness.tui.app import HarnessApp, _described_bindings, show
from harness.tui.screen_log import log_file
from harness.tui.screens.home import HomeScreen
from tests.functional.machine import Machine
from tests.tui.piloting import notifications, screen_text, until


def play_app(scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (110, 40)) -> None:
    async def play() -> None:
        async with HarnessApp().run_test(size=size) as pilot:
            await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
            await until(pilot, lambda: pilot.app.screen.query_one("#attacks", DataTable).row_count)
            await scenario(pilot)

    asyncio.run(play())


@pytest.mark.parametrize("key", ["f1", "question_mark"])
def test_help_follows_the_focus(key: str) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await until(pilot, lambda: "All attacks, with" in screen_text(pilot.app))
        pilot.app.screen.query_one("#runs").focus()
        await until(pilot, lambda: "All runs on" in screen_text(pilot.app))
        await pilot.press(key)
        await until(pilot, lambda: "All runs on" not in screen_text(pilot.app))

    play_app(scenario)


def test_a_notification_after_the_end_is_in_the_log() -> None:
    apps: list[HarnessApp] = []

    async def scenario(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, HarnessApp)
        apps.append(pilot.app)

    play_app(scenario)
    apps[0].notify("It did not stop.", severity="error")
    for handler in logging.getLogger("harness").handlers:
        handler.flush()
    assert "notification: It did not stop." in log_file().read_text()


def test_the_palette_has_every_action_of_the_keys() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        titles = {command.title for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert {"New run", "Compare", "Filter", "Sort", "Round", "About", "New attack", "Edit", "Help"} <= titles
        assert {"Screenshot", "Screenshot as PNG", "Theme"} <= titles and "Cursor down" not in titles
        keys = {active.binding.key for active in _described_bindings(pilot.app.screen)}
        own = {binding.key for binding in HomeScreen.BINDINGS if binding.description}
        assert own <= keys
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Search for commands" in screen_text(pilot.app))
        await pilot.press(*"new attack")
        await until(pilot, lambda: "Create a new attack" in screen_text(pilot.app))

    play_app(scenario)


def test_the_palette_runs_an_action() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Search for commands" in screen_text(pilot.app))
        await pilot.press(*"sort")
        await until(pilot, lambda: "by the next column" in screen_text(pilot.app))
        await pilot.press("enter")
        await until(pilot, lambda: "by recall" in str(pilot.app.screen.query_one("#runs").border_title))

    play_app(scenario)


@pytest.mark.slow
def test_screenshots_are_saved_as_svg_and_png(machine: Machine) -> None:
    folder = machine.folder / "state" / "screenshots"

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        (svg,) = await until(pilot, lambda: list(folder.glob("*.svg")))
        await until(pilot, lambda: str(svg) in notifications(pilot))
        assert svg.read_text().startswith("<svg") and "baseline" in svg.read_text()
        await pilot.press("f3")
        (png,) = await until(pilot, lambda: list(folder.glob("*.png")))
        assert png.read_bytes().startswith(b"\x89PNG") and len(png.read_bytes()) > 10_000

    play_app(scenario)


def test_a_failed_screenshot_is_a_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def scenario(pilot: Pilot[None]) -> None:
        monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file"))
        await pilot.press("f2")
        await until(pilot, lambda: "cannot be written" in notifications(pilot))

    play_app(scenario)


def test_the_log_has_the_start_and_errors_in_printable_text() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.notify("[/ \x1b[31m went wrong", severity="error", markup=False)
        await pilot.pause()

    play_app(scenario)
    last = log_file().read_text().splitlines()[-2:]
    assert "INFO harness.tui.app: version" in last[0]
    assert "ERROR" in last[1] and "went wrong" in last[1] and last[1].isprintable()


def test_an_unwritable_home_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file" / "below"))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "baseline" in screen_text(pilot.app))

    play_app(scenario)


def test_an_internal_error_is_raised_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenApp(HarnessApp):
        def on_ready(self) -> None:
            raise RuntimeError("[/ an error")

    app = BrokenApp()
    monkeypatch.setattr(app, "run", lambda: asyncio.run(app.run_async(headless=True)))
    with pytest.raises(RuntimeError, match="an error"):
        show(app)
    log = log_file().read_text()
    assert "CRITICAL" in log and "Traceback (most recent call last)" in log and "RuntimeError: [/ an error" in log


def test_inside_tmux_text_is_copied_through_tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = tmp_path / "output"
    tmux = tmp_path / "bin" / "tmux"
    tmux.parent.mkdir()
    script = f"import sys\nopen({str(result)!r}, 'w').write(repr(sys.argv[1:]) + sys.stdin.read())\n"
    tmux.write_text(f"#!{sys.executable}\n{script}")
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmux.parent), prepend=":")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")

    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.copy_to_clipboard("a run [/ \ud800")

    play_app(scenario)
    assert result.read_text() == "['load-buffer', '-w', '-']a run [/ ?"


def test_the_screen_does_not_import_torch_or_plotting() -> None:
    code = (
        "import sys; import harness.tui.app\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'pandas', 'harness.worker', 'resvg_py'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
