"""The meanings that colours have on every screen, as Rich styles of the present theme."""

from functools import cache

from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError

_VARIABLES = {
    "good": "text-success",
    "bad": "text-error",
    "warning": "text-warning",
    "active": "text-primary",
    "key": "text-accent",
}
"""The variable of Textual's theme for each meaning."""
_ATTRIBUTES = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "reverse": Style(reverse=True),
    "underline": Style(underline=True),
}


def style_of(app: App[object], meaning: str) -> Style:
    """Return the style of one or several meanings, such as "bold good"; a colour such as "#56b4e9" is one too."""
    return _style(meaning, tuple(app.theme_variables.get(name, "") for name in _VARIABLES.values()))


@cache
def _style(meaning: str, colours: tuple[str, ...]) -> Style:
    known = dict(zip(_VARIABLES, colours, strict=True))
    style = Style()
    for word in meaning.split():
        if word in _ATTRIBUTES:
            style += _ATTRIBUTES[word]
            continue
        try:
            style += Style(color=Color.parse(known.get(word, word)).rich_color)
        except ColorParseError:
            # A theme may use a colour of the terminal, which has no value here.
            style += Style(bold=True)
    return style
