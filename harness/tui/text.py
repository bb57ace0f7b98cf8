"""Suffixes beside their answers: where they differ is marked, in a way that needs no colours."""

from collections.abc import Sequence

from textual.content import Content
from textual.style import Style

from harness.analysis.decoded_text import TokenText

DIFFERING = Style(underline=True)


def marked(text: TokenText, ids: Sequence[int], answer: Sequence[int] | None) -> Content:
    """The text of `ids`, the tokens that differ from `answer` underlined."""
    wanted = ids if answer is None else answer
    parts = [
        Content.styled(piece, DIFFERING) if token != right else Content(piece)
        for piece, token, right in zip(text.pieces(ids), ids, wanted, strict=True)
    ]
    return Content("").join(parts)
