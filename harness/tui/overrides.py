"""Replacements of private parts of Textual: what is sent to the terminal, and how bursts of keys are read.

Measured with Textual 8.2.8: at 120x35, Textual sends 28 kB for another page and 42 kB for the next panel, and changed
cells are 6.4 and 2.0 kB: at 1 Mbit/s 226 and 336 ms become 52 and 16 ms. At 200x55 the next panel takes 25 ms instead
of 829. When `10 Tab 600` arrives at once, Textual types `10600` into the first field; in order, a key of a burst takes
7 ms instead of 2.
"""

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.control import Control
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip

from harness.core.text import sanitize
from harness.tui.contrast import readable_variables
from harness.tui.terminal import UsualGlyphs, has_braille

_Codes = tuple[str, str, str]
_MAX_GAP = 8
"""Unchanged cells between changed ones that are written too: another part takes at least as many bytes."""
_ROUNDS = 2
"""Number of times that a marker follows the key: behind its handlers, then behind the messages that they post."""
_LOST_SECONDS, _WAITING_SECONDS = 0.5, 0.05
_TYPED, _LEAVING = ("enter", "tab", "shift+tab", "backspace"), ("escape", "ctrl+q", "ctrl+c")
"""The keys that wait for the fields of a form, as characters do, and those that leave it without waiting."""


class ChangedCells(CompositorUpdate):
    """The cells of `now` that are not the same in `before`, line by line."""

    def __init__(self, before: Sequence[Strip], now: Sequence[Strip]) -> None:
        self._before, self._now = before, now

    def render_segments(self, console: Console) -> str:
        """Return the text with its escape sequences. A style is written only where it changes."""
        output: list[str] = []
        current: _Codes | None = None
        for y, (strip, before) in enumerate(zip_longest(self._now, self._before[: len(self._now)])):
            for start, end in _changed_parts(before, strip):
                output.append(Control.move_to(start, y).segment.text)
                for text, style, _ in strip.crop(start, end):
                    codes = _codes(style or Style.null(), console._color_system)
                    if current is None or codes[0] != current[0]:
                        # Attributes add up until they are reset.
                        output.append(f"\x1b[{';'.join(filter(None, ('0', *codes)))}m")
                    elif codes != current:
                        changed = (code for code, earlier in zip(codes, current, strict=True) if code != earlier)
                        output.append(f"\x1b[{';'.join(changed)}m")
                    output.append(text)
                    current = codes
        return "".join([*output, "\x1b[0m"]) if output else ""


@lru_cache(maxsize=4096)
def _codes(style: Style, system: ColorSystem | None) -> _Codes:
    """Return the codes of a style's attributes, its colour and that of its background."""
    if system is None:  # a terminal without styles
        return "", "", ""
    colours = [
        default if colour is None else ";".join(colour.downgrade(system).get_ansi_codes(foreground=default == "39"))
        for colour, default in ((style.color, "39"), (style.bgcolor, "49"))
    ]
    return style.without_color._make_ansi_codes(system), colours[0], colours[1]


def _changed_parts(before: Strip | None, now: Strip) -> list[tuple[int, int]]:
    """Return the first cell of each changed part of a line, and the cell after the last one."""
    if before == now:
        return []
    if before is None or any(get_character_cell_size(character) != 1 for character in {*before.text, *now.text}):
        # The cells of wide characters are not those of the text.
        return [(0, now.cell_length)]
    old, new = ([(cell, segment.style) for segment in strip for cell in segment.text] for strip in (before, now))
    parts: list[tuple[int, int]] = []
    for x, (cell, earlier) in enumerate(zip_longest(new, old[: len(new)])):
        if cell != earlier:
            is_near = parts and x - parts[-1][1] <= _MAX_GAP
            start = parts.pop()[0] if is_near else x
            parts.append((start, x + 1))
    return parts


class ChangedCellsApp(App[None]):
    """An application that writes changed cells only."""

    def __init__(self) -> None:
        super().__init__()
        self._painted: list[Strip] = []
        self._title_written = ""

    def on_load(self) -> None:
        # After another program has used the terminal, nothing on it is known.
        self.app_resume_signal.subscribe(self, lambda _: self._painted.clear())

    def on_resize(self) -> None:
        self._painted.clear()

    def write_title(self, title: str) -> None:
        """Set the title of the terminal, where it has one."""
        if title != self._title_written and self._driver is not None and os.environ.get("TERM") != "linux":
            # The first one keeps the title of the user's shell, which the end gives back.
            kept = "" if self._title_written else "\x1b[22;2t"
            self._title_written = title
            self._driver.write(f"{kept}\x1b]2;{sanitize(title)}\x07")

    def on_unmount(self) -> None:
        if self._title_written and self._driver is not None:
            self._driver.write("\x1b[23;2t")

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count and not self.is_headless:
            now = [strip.discard_meta().simplify() for strip in self.screen._compositor.render_strips()]
            renderable, self._painted = ChangedCells(self._painted, now), now
        super()._display(screen, renderable)


@dataclass
class KeyHandled(Message, bubble=True):
    """Follows a key through the queues of the same widgets up to the application."""

    key: Key
    rounds: int


class OrderedKeysApp(ChangedCellsApp):
    """An application that handles one key after the other, and whose texts are readable in every theme."""

    DEFAULT_CSS = "Screen Button.-style-default.-primary { background: $primary-darken-2; }"

    def __init__(self) -> None:
        super().__init__()
        self._keys: deque[Key] = deque()
        """The key that is handled, and those that wait."""
        self._marked: DOMNode = self
        """The node that got the marker last."""
        self._filters.append(UsualGlyphs(enabled=not has_braille()))

    def get_css_variables(self) -> dict[str, str]:
        """Return the variables of the theme, with texts that are readable."""
        variables = readable_variables(super().get_css_variables(), is_dark=self.current_theme.dark)
        self.theme_variables = variables
        return variables

    def notify(self, message: str, **options: Any) -> None:
        """Show `message` as a notification: as text, without what a model or a file could steer a terminal with."""
        super().notify(sanitize(message), **options | {"markup": False})

    def action_help_quit(self) -> None:
        """Say how to quit, for those who press Ctrl+C."""
        self.notify("q on a page quits, and ctrl+q everywhere. Runs and audits go on.")

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._keys.append(event)
        if len(self._keys) == 1:
            await self._handle_key(event)

    async def _wait_for_fields(self, form: Screen[object]) -> None:
        """Handle the keys that were typed ahead once the form has fields; drop them if it has none, or for Escape."""
        leaving = next((number for number, key in enumerate(self._keys) if key.key in _LEAVING), None)
        if leaving is not None:
            self._keys = deque([*self._keys][leaving:])
        elif self.screen_stack[-1:] != [form] or not (getattr(form, "awaits_fields", False) or form.has_class("-form")):
            self._keys.clear()
        # An application that ends removes its screens first.
        if self._keys and self.screen_stack:
            await self._handle_key(self._keys[0])

    async def _handle_key(self, key: Key) -> None:
        is_typed = key.is_printable or key.key in _TYPED
        if is_typed and self.screen_stack and getattr(self.screen, "awaits_fields", False):
            self.set_timer(_WAITING_SECONDS, partial(self._wait_for_fields, self.screen))
            return
        await super().on_event(key)
        self.set_timer(_LOST_SECONDS, partial(self._look_for_marker, key))
        self._post_marker(key, _ROUNDS)

    async def _look_for_marker(self, key: Key) -> None:
        # A widget that is removed takes the marker with it. Otherwise the machine is slow, and the next key waits.
        if not self._marked.is_attached:
            await self._next_key(key)
        elif self._keys and self._keys[0] is key:
            self.set_timer(_LOST_SECONDS, partial(self._look_for_marker, key))

    def _post_marker(self, key: Key, rounds: int) -> None:
        target = self._marked = self.focused or (self.screen if self.screen_stack else self)
        if not target.post_message(KeyHandled(key, rounds)):
            self.call_later(self._next_key, key)

    def on_key_handled(self, event: KeyHandled) -> None:
        """Let the next key go ahead once the marker has gone its rounds."""
        # Behind the callbacks that the handlers have scheduled, such as a change of the focus.
        if event.rounds > 1:
            self.call_later(self._post_marker, event.key, event.rounds - 1)
        else:
            self.call_later(self._next_key, event.key)

    async def _next_key(self, handled: Key) -> None:
        if self._keys and self._keys[0] is handled:
            self._keys.popleft()
            # An application that ends removes its screens first.
            if self._keys and self.screen_stack:
                await self._handle_key(self._keys[0])
