"""Escape untrusted text for Markdown and for YAML front matter, so that it is only ever shown as text."""

import re

from markupsafe import Markup

from harness.core.text import sanitize
from harness.submit.audit_tables import whole_text

# What Markdown, HTML inside Markdown and formulas give a meaning to. `://` and `www.` would become a link.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$@]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)
_BLOCK_START = re.compile(r"^(?:(?=[#+=-])|(\d+)(?=[.)](?:\s|$)))")


def markdown_text(text: str) -> str:
    """Return `text` on one line of Markdown in which nothing is formatting, a link or HTML. Markup stays unchanged."""
    if isinstance(text, Markup):
        return text
    line = " ".join(sanitize(whole_text(text)).split())
    return _BLOCK_START.sub(r"\1\\", _SPECIAL.sub(r"\\\g<0>", line))


def yaml_string(text: str) -> str:
    """Return `text` as a double-quoted YAML scalar on one line. Control characters become visible marks."""
    # JSON writes a character beyond U+FFFF as two surrogates, which YAML does not join.
    escaped = (
        character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08X}"
        for character in sanitize(whole_text(text))
    )
    return f'"{"".join(escaped)}"'
