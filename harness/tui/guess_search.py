"""Search in the guesses of a run, and marks of the differences between a guess and its answer."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np

from harness.analysis.decoded_text import TokenText
from harness.core.arrays import Ints, Tokens
from harness.core.inputs import as_harness_error
from harness.runs.guess_reader import Arrivals, GuessReader
from harness.tui.columns import Span
from harness.tui.run_feed import RunFeed, guess_lines
from harness.tui.snapshot import GuessLine

MAX_RESULTS = 500
_BATCH_ROWS = 20_000


def compared_pieces(text: TokenText, ids: Sequence[int], answer: Sequence[int] | None) -> Iterator[tuple[str, bool]]:
    """Yield the text of each token of `ids`, and whether it differs from `answer` (never if that is unknown)."""
    expected = ids if answer is None else answer
    for piece, token, right in zip(text.pieces(ids), ids, expected, strict=True):
        yield piece, token != right


def suffix_spans(text: TokenText, suffix: Tokens, answer: Tokens | None, *, query: str = "") -> list[Span]:
    """Return a suffix: green if it is right, else its right tokens dim and the wrong ones coloured.

    `query` is highlighted wherever it occurs.
    """
    pieces = compared_pieces(text, suffix.tolist(), None if answer is None else answer.tolist())
    right = "" if answer is None else "good" if np.array_equal(suffix, answer) else "dim"
    return highlight([(piece, "bad underline" if differs else right) for piece, differs in pieces], query)


def highlight(spans: Sequence[Span], query: str) -> list[Span]:
    """Return the spans with every occurrence of `query`, in either case, in reverse; without a query as they are."""
    whole, folded_query, marked = "".join(part for part, _ in spans), query.casefold(), set[int]()
    # A character may fold to several ones, such as ß to ss, so each folded one has the position of its origin.
    origins = [position for position, character in enumerate(whole) for _ in character.casefold()]
    folded = whole.casefold()
    start = folded.find(folded_query) if folded_query else -1
    while start >= 0:
        marked |= {*origins[start : start + len(folded_query)]}
        start = folded.find(folded_query, start + len(folded_query))
    if not marked:
        return list(spans)
    result, position = list[Span](), 0
    for part, meaning in spans:
        for is_marked, run in groupby(enumerate(part, position), key=lambda pair: pair[0] in marked):
            result.append(("".join(character for _, character in run), f"{meaning} reverse" if is_marked else meaning))
        position += len(part)
    return result


def parse_example_id(query: str) -> int | None:
    """Return the example id that `query` is; None for text, which includes digits in double quotes."""
    return int(query) if query.isascii() and query.isdigit() and len(query) < 10 else None


def search_guesses(
    query: str, feed: RunFeed, text: TokenText, *, on_progress: Callable[[float], bool]
) -> tuple[GuessLine, ...]:
    """Return the last 500 guesses for the example `query`, or those whose prefix and suffix contain it as text.

    Text matches in either case; void guesses are left out. `on_progress` gets the fraction searched so far, and the
    search ends early when it returns False. Raises HarnessError if the store cannot be read.
    """
    id_ = parse_example_id(query)
    if id_ is not None and id_ >= feed.spec.examples:
        return ()
    with as_harness_error(feed.folder.path), GuessReader.of_run(feed.folder, feed.spec) as reader:
        repeated = reader.repeated_batches()
        if id_ is not None:
            arrivals = reader.arrivals(limit=MAX_RESULTS, example=id_, newest_first=True)
            return guess_lines(arrivals, arrivals.valid_rows(repeated)[::-1], feed.answers)
        words = query.strip('"').casefold()
        prefixes = [prefix.casefold() for prefix in text.texts(feed.prefixes)]
        results: tuple[GuessLine, ...] = ()
        last = reader.row_count("guess")
        for after in range(max(0, last - _BATCH_ROWS), -_BATCH_ROWS, -_BATCH_ROWS):
            arrivals = reader.arrivals(after=max(0, after), limit=min(_BATCH_ROWS, _BATCH_ROWS + after))
            rows = _matching(words, arrivals, arrivals.valid_rows(repeated), prefixes, text)
            results = guess_lines(arrivals, rows[-(MAX_RESULTS - len(results)) :], feed.answers) + results
            if len(results) >= MAX_RESULTS or after <= 0 or not on_progress(1 - after / last):
                break
        return results


def _matching(words: str, arrivals: Arrivals, rows: Ints, prefixes: list[str], text: TokenText) -> Ints:
    """Return the `rows` whose prefix and suffix contain `words`, which are casefolded."""
    suffixes = text.texts(arrivals.guesses.suffixes[rows])
    ids = arrivals.guesses.ids[rows].tolist()
    pairs = zip(ids, suffixes, strict=True)
    return rows[np.array([words in prefixes[id_] + suffix.casefold() for id_, suffix in pairs], np.bool_)]
