"""Render self-contained HTML pages: nothing on a page is fetched, and no script runs."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.core import paths
from harness.core.text import format_interval, format_number, format_score, sanitize
from harness.core.version import __version__
from harness.submit.run_tables import Monospace

Figure = tuple[Markup, str]
"""An SVG figure of a page and its caption."""
TEMPLATES = paths.PACKAGE / "submit" / "templates"
_ID = re.compile(r'(?<=\sid=")(?=[^"]*")')
_REFERENCE = re.compile(r'(?<=href="#)|(?<=url\(#)')
_HEADING = re.compile(r"<h2>(.*?)</h2>")
_NO_BREAK = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[<=] \d)|(?<=\bp [<=]) (?=\d)")
_CONTENTS, _MIN_SECTIONS = "<!-- contents -->", 3
_REMOVED = re.compile(r"<style\b.*?</style>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*</defs>", re.DOTALL)


def page(template: str, **context: Any) -> str:
    """Render the template with this file name. Equal contexts give equal pages.

    Every value except Markup is escaped, and its control and bidi characters are made visible.
    """
    environment = template_environment(_as_text)
    environment.filters |= {"number": format_number, "score": format_score, "interval": format_interval}
    return _with_contents(environment.get_template(template).render(context | {"version": __version__}))


@functools.cache
def template_environment(render: Callable[[str], str]) -> Environment:
    """Return the templates of this package, in which each value that is a text and not Markup becomes `shown(value)`.

    The result of `render` is escaped as HTML unless it is Markup.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: render(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["monospace"] = lambda value: isinstance(value, Monospace)
    return environment


def _as_text(text: str) -> str:
    """Return `text` with visible control characters, and no line break inside a percentage or a p-value."""
    return _NO_BREAK.sub("\u00a0", sanitize(text))


def explained(text: str, definitions: Mapping[str, str]) -> Markup:
    """Return `text` as Markup in which every defined term shows its meaning under the pointer."""
    text = _as_text(text)
    meanings = {term.casefold(): meaning for term, meaning in definitions.items()}
    marked, last = Markup(), 0
    for term in _terms_in(text, definitions):
        title, name = Markup.escape(sanitize(meanings[term.group().casefold()])), Markup.escape(term.group())
        marked += Markup.escape(text[last : term.start()]) + Markup('<abbr title="{}">{}</abbr>').format(title, name)
        last = term.end()
    return marked + Markup.escape(text[last:])


def take_terms(missing: dict[str, str], texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the terms in `texts`, in any case, that are still `missing`, with their meaning, and remove them there."""
    occurring = {term.group().casefold() for text in texts for term in _terms_in(text, missing)}
    return [(term, missing.pop(term)) for term in list(missing) if term.casefold() in occurring]


def _terms_in(text: str, definitions: Mapping[str, str]) -> Iterator[re.Match[str]]:
    if not definitions:
        return iter(())
    longest_first = sorted(definitions, key=len, reverse=True)
    return re.finditer(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])", text, re.IGNORECASE)


def _with_contents(text: str) -> str:
    """Return the page with an id for each section, and links to them if there are several."""
    titles: list[str] = _HEADING.findall(text)
    numbers = iter(range(1, len(titles) + 1))
    text = _HEADING.sub(lambda heading: f'<h2 id="section-{next(numbers)}">{heading[1]}</h2>', text)
    if len(titles) < _MIN_SECTIONS:
        return text.replace(_CONTENTS, "", 1)
    links = "".join(f'<li><a href="#section-{number}">{title}</a></li>' for number, title in enumerate(titles, 1))
    text = text.replace(_CONTENTS, f'<nav aria-label="Contents"><ol>{links}</ol></nav>', 1)
    return text.replace("<body>", '<body class="has-contents">', 1)


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
