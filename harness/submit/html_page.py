"""Render self-contained HTML pages: nothing on a page is fetched, and no script runs."""

import re
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import __version__
from harness.core import paths
from harness.core.text import sanitize
from harness.submit.run_tables import Monospace

_TEMPLATES = paths.PACKAGE / "submit" / "templates"
_ID = re.compile(r'(?<=\sid=")(?=[^"]*")')
_REFERENCE = re.compile(r'(?<=href="#)|(?<=url\(#)')
_REMOVED = re.compile(r"<style\b.*?</style>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*</defs>", re.DOTALL)


def page(template: str, **context: Any) -> str:
    """Render the template with this file name. Equal contexts give equal pages.

    Every value except Markup is escaped, and its control and bidi characters are made visible.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["monospace"] = lambda value: isinstance(value, Monospace)
    return environment.get_template(template).render(context | {"version": __version__})


def inline_svg(svg: str, name: str, label: str) -> Markup:
    """Return one of the harness's own SVG figures for use inside a page.

    `name` becomes the prefix of every id, so that the ids of several figures on a page differ. `label` is the text for
    screen readers. Never pass an SVG from elsewhere: it is not escaped.
    """
    body = _REMOVED.sub("", svg[svg.index("<svg") :])
    body = _ID.sub(f"{name}-", _REFERENCE.sub(f"{name}-", body))
    opening, rest = body.split(">", 1)
    label = Markup.escape(sanitize(label))
    return Markup(f'{opening} role="img" aria-label="{label}" stroke-linejoin="round">{rest.strip()}')  # noqa: S704
