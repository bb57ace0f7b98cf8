"""Text has a contrast of at least 4.5 to 1, and lines and marks of 3 to 1, in a dark and in a light theme (WCAG 2)."""

import unicodedata
from collections.abc import Iterator

import pytest
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot

from harness.tui.contrast import MIN_CONTRAST, contrast
from tests.tui.piloting import open_screen, until
from tests.tui.test_snapshots import SCREENS, patch

__all__ = ["patch"]  # the fixture that fixes homes and times
_DIM = 0.66
"""The share of its colour that Textual gives to dim text."""
_MIN_MARK = 3.0
_SHADES = " \n" + "".join(map(chr, range(0x2580, 0x25A0)))
"""Blocks, which are areas such as a band or a scroll bar, and no marks."""


def cells(pilot: Pilot[None]) -> Iterator[tuple[str, Style]]:
    """Yield the parts of the screen that show something, with their styles, without widgets that are disabled."""
    disabled = [widget.region for widget in pilot.app.screen.query("*") if widget.disabled]
    for y, strip in enumerate(pilot.app.screen._compositor.render_strips()):
        x = 0
        for text, style, _ in strip:
            is_disabled = any(region.contains(x, y) for region in disabled)
            x += len(text)
            if style is not None and text.strip(_SHADES) and not is_disabled:
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


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
@pytest.mark.parametrize("name", SCREENS)
async def test_text_and_marks_are_readable(name: str, theme: str) -> None:
    shot = SCREENS[name]
    async with open_screen(shot.make(), size=shot.size, theme=theme) as pilot:
        await until(pilot, lambda: shot.is_ready(pilot))
        await pilot.press(*shot.keys)
        await pilot.pause()
        faint = {
            (text[:40], round(contrast_of(style), 2), str(style))
            for text, style in cells(pilot)
            if contrast_of(style) < (MIN_CONTRAST if is_text(text) else _MIN_MARK)
        }
    assert not faint
