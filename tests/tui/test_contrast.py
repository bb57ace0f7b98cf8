"""Text has a contrast of at least 4.5 to 1, and lines and marks of 3 to 1, in a dark and in a light theme (WCAG 2)."""

import unicodedata
from collections.abc import Iterator

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.app import HarnessApp
from harness.tui.contrast import MIN_CONTRAST, contrast
from harness.tui.widgets.bars import TABS
from harness.tui.widgets.panels import Panel
from tests.functional.machine import PLUGINS
from tests.tools.tiers import long_values
from tests.tui.piloting import on_page, open_app, open_screen, screen_text, until
from tests.tui.test_every_screen import SCREENS as EVERY_SCREEN
from tests.tui.test_every_screen import Shown, only, records, state
from tests.tui.test_snapshots import MIDDLE, NARROW, SCREENS, WIDE, finished_audit, finished_run, patch

__all__ = ["patch", "records", "state"]  # fixtures; the first fixes homes and times
SIZES = [NARROW, *long_values([MIDDLE, WIDE])]
THEMES = ("textual-dark", "textual-light")
_DIM = 0.66
"""The share of its colour that Textual gives to dim text."""
_MIN_MARK = 3.0
_SHADES = " \n" + "".join(map(chr, range(0x2580, 0x25A0)))
"""Blocks, which are areas such as a band or a scroll bar, and no marks."""


def cells(pilot: Pilot[None]) -> Iterator[tuple[str, Style]]:
    """Yield the parts of the screen that show something, with their styles.

    Widgets that are disabled are left out, and what lies below a dialog.
    """
    screen = pilot.app.screen
    disabled = [widget.region for widget in screen.query("*") if widget.disabled]
    readable = [child.region for child in screen.children] if screen.is_modal else [screen.region]
    for y, strip in enumerate(screen._compositor.render_strips()):
        x = 0
        for text, style, _ in strip:
            is_left_out = any(region.contains(x, y) for region in disabled)
            is_left_out |= not any(region.contains(x, y) for region in readable)
            x += cell_len(text)
            if style is not None and text.strip(_SHADES) and not is_left_out:
                yield text.strip(), style


def contrast_of(style: Style) -> float:
    """Return the contrast of a style; that of colours of the terminal is unknown."""
    if style.color is None or style.bgcolor is None or style.color.is_default or style.bgcolor.is_default:
        return 21.0
    front, back = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
    front, back = (back, front) if style.reverse else (front, back)
    return contrast(back.blend(front, _DIM) if style.dim else front, back)


def is_text(text: str) -> bool:
    return any(unicodedata.category(character)[0] in "LN" for character in text)


def faint_cells(pilot: Pilot[None]) -> set[tuple[str, float, str]]:
    """Return the parts of the screen whose contrast is too low."""
    return {
        (text[:40], round(contrast_of(style), 2), str(style))
        for text, style in cells(pilot)
        if contrast_of(style) < (MIN_CONTRAST if is_text(text) else _MIN_MARK)
    }


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_is_readable(name: str, size: tuple[int, int], theme: str) -> None:
    shot = SCREENS[name]
    async with open_screen(shot.make(), size=size, theme=theme) as pilot:
        await until(pilot, lambda: shot.is_ready(pilot))
        await pilot.press(*shot.keys)
        await pilot.pause()
        assert not faint_cells(pilot)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
async def test_every_page_is_readable_and_cuts_no_title(size: tuple[int, int], theme: str) -> None:
    for id_, solved in (("abcd-some", 9), ("efgh-other", 12)):
        finished_run(id_, solved=solved)
    finished_audit()
    async with open_app(size=size) as pilot:
        pilot.app.theme = theme
        for number in range(1, len(TABS) + 1):
            await on_page(pilot, number)
            await until(pilot, lambda: not any(word in screen_text(pilot.app) for word in ("reading …", "checking …")))
            assert not faint_cells(pilot), list(TABS)[number - 1]
            for panel in pilot.app.screen.query(Panel) if size[0] >= 120 else ():
                assert not panel.region or cell_len(str(panel._border_title)) + 4 <= panel.region.width, panel


@pytest.mark.slow
@pytest.mark.parametrize("state", [Status.RUNNING], indirect=True)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
async def test_every_form_and_dialog_is_readable(
    size: tuple[int, int], theme: str, records: tuple[RunFolder, RunFolder, RunFolder]
) -> None:
    async with open_app(size=size, attacks_folder=PLUGINS) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        app.theme = theme
        for make in EVERY_SCREEN.values():
            for screen in make(Shown(app, *records)):
                app.push_screen(screen)
                await until(pilot, lambda screen=screen: app.screen is screen and screen.region.area)
                await until(pilot, lambda: "reading …" not in screen_text(app))
                assert not faint_cells(pilot), screen
                await pilot.press("tab")
                assert not faint_cells(pilot), screen
                await only(pilot, app.main)
