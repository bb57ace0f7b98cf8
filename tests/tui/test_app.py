"""What concerns every screen: help, palette, pictures, the log, copying, and what a defect leaves behind."""

import asyncio
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
from tests.tui.piloting import until, words_on


def opened(scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (110, 40)) -> None:
    async def play() -> None:
        async with HarnessApp().run_test(size=size) as pilot:
            await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
            await until(pilot, lambda: pilot.app.screen.query_one("#attacks", DataTable).row_count)
            await scenario(pilot)

    asyncio.run(play())


@pytest.mark.parametrize("key", ["f1", "question_mark"])
def test_help_knows_what_has_the_focus(key: str) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await until(pilot, lambda: "Attacks, with" in words_on(pilot.app))
        pilot.app.screen.query_one("#runs").focus()
        await until(pilot, lambda: "Every run of" in words_on(pilot.app))
        await pilot.press(key)
        await until(pilot, lambda: "Every run of" not in words_on(pilot.app))

    opened(scenario)


def test_the_palette_has_every_action_that_a_key_does() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        titles = {command.title for command in pilot.app.get_system_commands(pilot.app.screen)}
        assert {"New run", "Compare", "Filter", "Sort", "Round", "About", "New attack", "Edit", "Help"} <= titles
        assert {"Screenshot", "Screenshot as PNG", "Theme"} <= titles and "Cursor down" not in titles
        keys = {active.binding.key for active in _described_bindings(pilot.app.screen)}
        own = {binding.key for binding in HomeScreen.BINDINGS if binding.description}
        assert own <= keys
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Search for commands" in words_on(pilot.app))
        await pilot.press(*"new attack")
        await until(pilot, lambda: "Write a new attack" in words_on(pilot.app))

    opened(scenario)


def test_what_is_chosen_in_the_palette_is_done() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Search for commands" in words_on(pilot.app))
        await pilot.press(*"sort")
        await until(pilot, lambda: "another column" in words_on(pilot.app))
        await pilot.press("enter")
        await until(pilot, lambda: "by recall" in str(pilot.app.screen.query_one("#runs").border_title))

    opened(scenario)


def test_the_screen_is_saved_as_svg_and_as_png(machine: Machine) -> None:
    folder = machine.folder / "state" / "screenshots"

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        (svg,) = await until(pilot, lambda: list(folder.glob("*.svg")))
        await until(pilot, lambda: any(str(svg) in said.message for said in pilot.app._notifications))
        assert svg.read_text().startswith("<svg") and "baseline" in svg.read_text()
        await pilot.press("f3")
        (png,) = await until(pilot, lambda: list(folder.glob("*.png")))
        assert png.read_bytes().startswith(b"\x89PNG") and len(png.read_bytes()) > 10_000

    opened(scenario)


def test_a_screenshot_that_cannot_be_written_is_a_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def scenario(pilot: Pilot[None]) -> None:
        monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file"))
        await pilot.press("f2")
        await until(pilot, lambda: any("cannot be written" in said.message for said in pilot.app._notifications))

    opened(scenario)


def test_the_log_tells_of_opening_and_of_faults_in_visible_text() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.notify("[/ \x1b[31m went wrong", severity="error", markup=False)
        await pilot.pause()

    opened(scenario)
    last = log_file().read_text().splitlines()[-2:]
    assert "INFO harness.tui.app: version" in last[0]
    assert "ERROR" in last[1] and "went wrong" in last[1] and last[1].isprintable()


def test_a_state_folder_that_cannot_be_written_opens_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file" / "below"))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "baseline" in words_on(pilot.app))

    opened(scenario)


def test_a_defect_is_raised_once_the_terminal_is_itself_again_and_logged_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Defective(HarnessApp):
        def on_ready(self) -> None:
            raise RuntimeError("[/ a defect")

    app = Defective()
    monkeypatch.setattr(app, "run", lambda: asyncio.run(app.run_async(headless=True)))
    with pytest.raises(RuntimeError, match="a defect"):
        show(app)
    log = log_file().read_text()
    assert "CRITICAL" in log and "Traceback (most recent call last)" in log and "RuntimeError: [/ a defect" in log


def test_under_tmux_what_is_copied_goes_to_tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "told"
    tmux = tmp_path / "bin" / "tmux"
    tmux.parent.mkdir()
    script = f"import sys\nopen({str(told)!r}, 'w').write(repr(sys.argv[1:]) + sys.stdin.read())\n"
    tmux.write_text(f"#!{sys.executable}\n{script}")
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmux.parent), prepend=":")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")

    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.copy_to_clipboard("a run [/ \ud800")

    opened(scenario)
    assert told.read_text() == "['load-buffer', '-w', '-']a run [/ ?"


def test_the_screen_loads_no_model_no_plugin_and_no_figure() -> None:
    code = (
        "import sys; import harness.tui.app\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'pandas', 'harness.worker', 'resvg_py'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
