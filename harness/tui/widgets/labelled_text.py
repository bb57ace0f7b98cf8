"""Labels and values in two columns."""

from collections.abc import Sequence

from textual.content import Content

from harness.core.text import sanitize


def labelled(facts: Sequence[tuple[str, str]]) -> Content:
    """Return the facts, one per line, with dim labels of equal width."""
    width = max((len(label) for label, _ in facts), default=0)
    label_style = "$foreground 55%"
    lines = [
        Content.assemble((f"{sanitize(label):<{width}}  ", label_style), sanitize(value)) for label, value in facts
    ]
    return Content("\n").join(lines)
