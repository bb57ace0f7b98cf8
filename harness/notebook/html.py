"""HTML for the output of a notebook's cell: it takes the colours of the page, and all text in it is escaped.

A figure is an image on white, so that it is readable in a dark theme, and so that names inside one SVG cannot clash
with those of another on the same page.
"""

import base64
from collections.abc import Sequence
from html import escape

from harness.core.text import sanitize, shorten_middle

FIGURE_SIZE = (5.2, 3.0)
"""Width and height of a figure in inches."""
_CELL_CHARACTERS = 44
_CELL = "text-align:left;padding:2px 12px 2px 0"


def html_text(text: str) -> str:
    """Return text, which may come from a model or a file, as HTML that shows it."""
    return escape(sanitize(text))


def html_table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = ()) -> str:
    """Return a table of texts, of which long ones are shortened. Without a header, each row begins with its heading."""
    head = f"<tr>{''.join(_cell('th', cell) for cell in header)}</tr>" if header else ""
    first = "td" if header else "th"
    body = [
        f"<tr>{''.join(_cell(first if place == 0 else 'td', cell) for place, cell in enumerate(row))}</tr>"
        for row in rows
    ]
    return f'<table style="color:inherit;background:none">{head}{"".join(body)}</table>'


def html_figure(svg: str, description: str) -> str:
    """Return an SVG as an image with a text that describes it."""
    content = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{html_text(description)}" style="background:#fff;max-width:100%" '
        f'src="data:image/svg+xml;base64,{content}">'
    )


def _cell(tag: str, text: str) -> str:
    return f'<{tag} style="{_CELL}">{html_text(shorten_middle(text, _CELL_CHARACTERS))}</{tag}>'
