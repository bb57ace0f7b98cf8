"""An animated SVG of a terminal session, without scripts and fonts of its own.

Frames lie side by side, and a CSS animation moves them past a window. Rows that several frames share are written once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme

CELL_WIDTH = 8.4
CELL_HEIGHT = 17
_FONT_SIZE = 14
_MARGIN = 12
_BAR = 26
_MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_ANSI = (
    *((18, 18, 18), (209, 126, 146), (138, 212, 161), (254, 166, 43)),
    *((87, 165, 226), (176, 137, 214), (86, 180, 233), (224, 224, 224)),
)
_THEME = TerminalTheme((18, 18, 18), (224, 224, 224), list(_ANSI))
"""The terminal's own colours, on which the colours of the screen are drawn."""

Row = tuple[tuple[str, Style], ...]
"""A line of the terminal: pieces of text, each with its style."""


@dataclass(frozen=True)
class Frame:
    """The content of the terminal from a moment on, in seconds after the start."""

    time: float
    rows: tuple[Row, ...]


def read_rows(captured: str) -> tuple[Row, ...]:
    """Return the rows of a screen that is given as text with escape sequences."""
    console = Console(width=1000, force_terminal=True)
    lines = AnsiDecoder().decode(captured)
    return tuple(
        tuple((part.text, part.style or Style()) for part in line.render(console) if part.text) for line in lines
    )


def edit(frames: Iterable[Frame], *, longest_pause: float, speed: float = 1.0) -> list[Frame]:
    """Drop frames that equal the one before, shorten pauses, and play `speed` times as fast."""
    edited: list[Frame] = []
    time = before = 0.0
    for frame in frames:
        if edited and frame.rows == edited[-1].rows:
            continue
        if edited:
            time += min((frame.time - before) / speed, longest_pause)
        before = frame.time
        edited.append(Frame(time, frame.rows))
    return edited


def to_svg(frames: Sequence[Frame], *, columns: int, title: str, last_pause: float) -> str:
    """Return an SVG that repeats `frames`. It begins with the last one, which it shows for `last_pause` seconds.

    So a preview that shows only the beginning is not an empty terminal. Readers who prefer less motion, and programs
    that draw no animation, show the last frame.
    """
    lines = max(len(frame.rows) for frame in frames)
    width, height = round(columns * CELL_WIDTH), lines * CELL_HEIGHT
    styles: dict[Style, str] = {}
    rows: dict[Row, str] = {}
    shots = []
    for place, frame in enumerate(frames):
        uses = [
            f'<use href="#{rows.setdefault(row, f"r{len(rows)}")}" y="{line * CELL_HEIGHT}"/>'
            for line, row in enumerate(frame.rows)
            if any(text.strip() or style.bgcolor for text, style in row)
        ]
        shots.append(f'<g transform="translate({place * width})">{"".join(uses)}</g>')
    drawn = [f'<g id="{name}">{_draw_row(row, styles)}</g>' for row, name in rows.items()]
    seconds = frames[-1].time + last_pause
    last = -(len(frames) - 1) * width
    moves = [f"0.00%{{transform:translateX({last}px)}}"]
    moves += [
        f"{100 * (frame.time + last_pause) / seconds:.2f}%{{transform:translateX({-place * width}px)}}"
        for place, frame in enumerate(frames[:-1])
    ]
    full_width, full_height = width + 2 * _MARGIN, height + _BAR + _MARGIN
    background = _hex(_THEME.background_color)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_width} {full_height}" width="{full_width}" '
            f'height="{full_height}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            "<style>",
            f"text{{font:{_FONT_SIZE}px {_MONO};white-space:pre}}",
            ".title{font:13px system-ui}",
            *(f".{name}{{{_css(style)}}}" for style, name in styles.items()),
            f".film{{transform:translateX({last}px);animation:film {seconds:.2f}s step-end infinite}}",
            f"@keyframes film{{{''.join(moves)}}}",
            "@media (prefers-reduced-motion:reduce){.film{animation:none}}",
            "</style>",
            f"<defs>{''.join(drawn)}</defs>",
            f'<rect width="100%" height="100%" rx="8" fill="{background}" stroke="#808080"/>',
            f'<text x="50%" y="18" text-anchor="middle" fill="#909090" class="title">{escape(title)}</text>',
            f'<svg x="{_MARGIN}" y="{_BAR}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f'<g class="film">{"".join(shots)}</g>',
            "</svg>",
            "</svg>\n",
        ]
    )


def _draw_row(row: Row, styles: dict[Style, str]) -> str:
    """Return the elements of a row. New looks of text are added to `styles`."""
    backgrounds, texts = [], []
    column = 0
    for text, style in row:
        cells = cell_len(text)
        x, wide = round(column * CELL_WIDTH, 1), round(cells * CELL_WIDTH, 1)
        foreground, background = _colours(style)
        if background is not None:
            # Half a pixel more, so that no line shows between two pieces.
            backgrounds.append(f'<rect x="{x}" width="{wide + 0.5}" height="{CELL_HEIGHT + 0.5}" fill="{background}"/>')
        if text.strip() or style.underline:
            name = styles.setdefault(_look(style, foreground), f"s{len(styles)}")
            length = f' textLength="{wide}"' if cells > 1 else ""
            texts.append(
                f'<text class="{name}" x="{x}" y="{_FONT_SIZE - 1}"{length}>{escape(text, quote=False)}</text>'
            )
        column += cells
    return "".join(backgrounds + texts)


def _look(style: Style, foreground: str) -> Style:
    """Return the part of a style that text shows, so that equal looks share one class."""
    return Style(color=foreground, bold=style.bold, italic=style.italic, underline=style.underline, dim=style.dim)


def _css(look: Style) -> str:
    assert look.color is not None
    rules = [f"fill:{look.color.name}"]
    if look.bold:
        rules.append("font-weight:bold")
    if look.italic:
        rules.append("font-style:italic")
    if look.underline:
        rules.append("text-decoration:underline")
    if look.dim:
        rules.append("opacity:.6")
    return ";".join(rules)


def _colours(style: Style) -> tuple[str, str | None]:
    """Return the colour of the text, and that of the background unless it is the terminal's own."""
    foreground = _colour(style.color, _THEME.foreground_color)
    background = _colour(style.bgcolor, _THEME.background_color)
    if style.reverse:
        foreground, background = background, foreground
    return foreground, None if background == _hex(_THEME.background_color) else background


def _colour(colour: Color | None, default: tuple[int, int, int]) -> str:
    return _hex(default if colour is None or colour.is_default else colour.get_truecolor(_THEME))


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
