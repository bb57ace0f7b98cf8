"""Find and underline the tokens of a suffix that differ from the answer; underlining needs no colours."""

from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.style import Style

from harness.analysis.decoded_text import TokenText

DIFFERENT = Style(underline=True)


def compared_pieces(text: TokenText, ids: Sequence[int], answer: Sequence[int] | None) -> Iterator[tuple[str, bool]]:
    """Yield the text of each token of `ids`, and whether it differs from `answer` (never if that is unknown)."""
    expected = ids if answer is None else answer
    for piece, token, other in zip(text.pieces(ids), ids, expected, strict=True):
        yield piece, token != other


def underline_differences(text: TokenText, ids: Sequence[int], answer: Sequence[int] | None) -> Content:
    """Return the text of `ids`; the tokens that differ from `answer` are underlined."""
    return Content("").join(
        Content.styled(piece, DIFFERENT) if is_different else Content(piece)
        for piece, is_different in compared_pieces(text, ids, answer)
    )
