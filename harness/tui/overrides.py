"""Replacements of private parts of Textual: what is sent to the terminal, and how bursts of keys are read."""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.control import Control
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.events import Event, Key
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip

_CellOfLine = tuple[str, Style]
_RESET = "\x1b[0m"
_PLAIN = ("", "39", "49")
"""The codes of no attributes, and of the terminal's own colours."""
_LONGEST_GAP = 6
"""Unchanged cells between changed ones that are written too: moving the cursor takes about as many bytes."""


class ChangedCells(CompositorUpdate):
    """The cells of `now` that are not the same in `before`, line by line."""

    def __init__(self, before: Sequence[Strip], now: Sequence[Strip]) -> None:
        self._before, self._now = before, now

    def render_segments(self, console: Console) -> str:
        """Return the text with its escape sequences."""
        pen = _Pen(console._color_system or ColorSystem.TRUECOLOR)
        parts = []
        for y, (strip, before) in enumerate(zip_longest(self._now, self._before[: len(self._now)])):
            if before is not None and strip == before:
                continue
            cells = _cells(strip)
            for start, end in _changed_spans(cells, [] if before is None else _cells(before)):
                parts.append(Control.move_to(start, y).segment.text)
                for style, run in groupby(cells[start:end], key=lambda cell: cell[1]):
                    text = "".join(character for character, _ in run)
                    parts.append(f"{pen.change_to(style)}{text}")
        return f"{''.join(parts)}{_RESET}" if parts else ""


class _Pen:
    """The style of the next character in the terminal, plain at first. Only what differs is written."""

    def __init__(self, system: ColorSystem) -> None:
        self._system = system
        self._attributes, self._foreground, self._background = _PLAIN

    def change_to(self, style: Style) -> str:
        """Return the escape sequence that changes the pen to `style`; empty if it has this style already."""
        attributes, foreground, background = _codes(style, self._system)
        if attributes != self._attributes:
            # Attributes add up until they are reset.
            codes = [part for part in ("0", attributes) if part]
            self._foreground, self._background = _PLAIN[1:]
        else:
            codes = []
        codes += [foreground] * (foreground != self._foreground) + [background] * (background != self._background)
        self._attributes, self._foreground, self._background = attributes, foreground, background
        return f"\x1b[{';'.join(codes)}m" if codes else ""


@lru_cache(maxsize=4096)
def _codes(style: Style, system: ColorSystem) -> tuple[str, str, str]:
    """Return the codes of a style: its attributes, its colour, and that of its background."""
    foreground, background = _PLAIN[1:]
    if style.color is not None:
        foreground = ";".join(style.color.downgrade(system).get_ansi_codes())
    if style.bgcolor is not None:
        background = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False))
    return style.without_color._make_ansi_codes(system), foreground, background


class ChangedCellsApp(App[None]):
    """An application that writes changed cells only."""

    def __init__(self) -> None:
        super().__init__()
        self._painted: list[Strip] = []

    def on_load(self) -> None:
        # After another program has used the terminal, nothing on it is known.
        self.app_resume_signal.subscribe(self, lambda _: self._painted.clear())

    def on_resize(self) -> None:
        self._painted.clear()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count and not self.is_headless:
            now = [strip.discard_meta() for strip in self.screen._compositor.render_strips()]
            renderable, self._painted = ChangedCells(self._painted, now), now
        super()._display(screen, renderable)


def _cells(strip: Strip) -> list[_CellOfLine]:
    """Return the characters with their styles. The second cell of a wide character is an empty text."""
    cells: list[_CellOfLine] = []
    for segment in strip:
        style = segment.style or Style.null()
        if segment.text.isascii() or segment.cell_length == len(segment.text):
            cells += [(character, style) for character in segment.text]
        else:
            for character in segment.text:
                width = get_character_cell_size(character)
                if width == 0 and cells:
                    cells[-1] = (cells[-1][0] + character, cells[-1][1])
                else:
                    cells += [(character, style), *[("", style)] * (width - 1)]
    return cells


def _changed_spans(cells: Sequence[_CellOfLine], before: Sequence[_CellOfLine]) -> Iterator[tuple[int, int]]:
    """Yield the spans of changed cells; one never begins inside a wide character."""
    start = end = -1
    for place, (cell, old) in enumerate(zip_longest(cells, before[: len(cells)])):
        if cell == old:
            continue
        if start >= 0 and place - end > _LONGEST_GAP:
            yield start, end
            start = -1
        if start < 0:
            start = place
            while start > 0 and not cells[start][0]:
                start -= 1
        end = place + 1
    if start >= 0:
        while end < len(cells) and not cells[end][0]:
            end += 1
        yield start, end


_ROUNDS = 2
"""Number of times that a marker follows the key: behind its handlers, then behind the messages that they post."""
_LOST_SECONDS = 0.5


class KeyHandled(Message, bubble=True):
    """Follows a key through the queues of the same widgets up to the application."""

    def __init__(self, number: int, rounds: int) -> None:
        super().__init__()
        self.number, self.rounds = number, rounds


class OrderedKeysApp(ChangedCellsApp):
    """An application that handles one key after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting_keys: deque[Key] = deque()
        self._key_number = 0
        self._is_handling_key = False

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._is_handling_key:
            self._waiting_keys.append(event)
        else:
            await self._handle_key(event)

    async def on_key_handled(self, event: KeyHandled) -> None:
        """Let the next key go ahead once the marker has gone its rounds."""
        if event.number != self._key_number or not self._is_handling_key:
            return
        if event.rounds > 1:
            # Behind the callbacks that the handlers have scheduled, such as a change of the focus.
            self.call_later(self._post_marker, event.rounds - 1)
        else:
            self.call_later(self._next_key)

    async def _handle_key(self, event: Key) -> None:
        self._is_handling_key = True
        self._key_number += 1
        number = self._key_number
        await super().on_event(event)
        # A widget that is removed takes the marker with it.
        self.set_timer(_LOST_SECONDS, lambda: self._give_up(number))
        self._post_marker(_ROUNDS)

    def _post_marker(self, rounds: int) -> None:
        target = self.focused or (self.screen if self.screen_stack else self)
        if not target.post_message(KeyHandled(self._key_number, rounds)):
            self.call_later(self._next_key)

    async def _next_key(self) -> None:
        self._is_handling_key = False
        if self._waiting_keys:
            await self._handle_key(self._waiting_keys.popleft())

    async def _give_up(self, number: int) -> None:
        if number == self._key_number and self._is_handling_key:
            await self._next_key()
