"""Compare the tokens of a suffix with the answer, and colour the result. It knows nothing of Textual."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.analysis.decoded_text import TokenText
from harness.core.arrays import Tokens
from harness.tui.columns import Span


def compared_pieces(text: TokenText, ids: Sequence[int], answer: Sequence[int] | None) -> Iterator[tuple[str, bool]]:
    """Yield the text of each token of `ids`, and whether it differs from `answer` (never if that is unknown)."""
    expected = ids if answer is None else answer
    for piece, token, other in zip(text.pieces(ids), ids, expected, strict=True):
        yield piece, token != other


def suffix_spans(text: TokenText, suffix: Tokens, answer: Tokens | None, *, query: str = "") -> list[Span]:
    """Return a suffix with right tokens dim and wrong ones coloured; `query` is highlighted wherever it occurs."""
    pieces = compared_pieces(text, suffix.tolist(), None if answer is None else answer.tolist())
    is_judged = answer is not None
    spans = [(piece, ("bad underline" if differs else "dim") if is_judged else "") for piece, differs in pieces]
    return highlighted(spans, query)


def highlighted(spans: Sequence[Span], query: str) -> list[Span]:
    """Return the spans with every occurrence of `query`, in either case, in reverse; without a query as they are."""
    whole, wanted, marked = "".join(part for part, _ in spans), query.casefold(), set[int]()
    # A character may fold to several ones, such as ß to ss, so each folded one has the position of its origin.
    origins = [position for position, character in enumerate(whole) for _ in character.casefold()]
    folded = whole.casefold()
    start = folded.find(wanted) if wanted else -1
    while start >= 0:
        marked |= {*origins[start : start + len(wanted)]}
        start = folded.find(wanted, start + len(wanted))
    if not marked:
        return list(spans)
    result, position = list[Span](), 0
    for part, meaning in spans:
        for is_marked, run in groupby(enumerate(part, position), key=lambda pair: pair[0] in marked):
            result.append(("".join(character for _, character in run), f"{meaning} reverse" if is_marked else meaning))
        position += len(part)
    return result
