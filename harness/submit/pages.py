"""Pages: one self-contained HTML file of a template and what it shows; nothing in it is fetched, and nothing runs."""

import re
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import __version__
from harness.core import paths
from harness.core.text import sanitize
from harness.submit.tables import Code

_TEMPLATES = paths.PACKAGE / "submit" / "templates"
_ID = re.compile(r'(?<=\sid=")(?=[^"]*")')
_REFERENCE = re.compile(r'(?<=href="#)|(?<=url\(#)')
_LEFT_OUT = re.compile(r"<style\b.*?</style>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*</defs>", re.DOTALL)


def page(template: str, **context: Any) -> str:
    """The page that `template`, a file among the templates, makes of `context`.

    Every value is escaped, its control and bidi characters made visible; Markup alone is taken as it is. Equal contexts
    give equal pages.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["code"] = lambda value: isinstance(value, Code)
    return environment.get_template(template).render(context | {"version": __version__})


def inline_svg(svg: str, name: str, label: str) -> Markup:
    """An SVG of our own drawing (never of a stranger's) as a part of a page.

    `name` goes before each of its ids, so that those of several on one page do not clash; `label` is what those hear
    who do not see it.
    """
    body = _LEFT_OUT.sub("", svg[svg.index("<svg") :])
    body = _ID.sub(f"{name}-", _REFERENCE.sub(f"{name}-", body))
    opening, rest = body.split(">", 1)
    label = Markup.escape(sanitize(label))
    return Markup(f'{opening} role="img" aria-label="{label}" stroke-linejoin="round">{rest.strip()}')  # noqa: S704


def _shown(value: Any) -> Any:
    return sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value
