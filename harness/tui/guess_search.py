"""Search all guesses of a run by example id or by text."""

from collections.abc import Callable

import numpy as np

from harness.analysis.decoded_text import TokenText
from harness.core.arrays import Ints
from harness.runs.errors import as_harness_error
from harness.runs.guess_reader import Arrivals, GuessReader
from harness.tui.run_feed import RunFeed, guess_lines
from harness.tui.snapshot import GuessLine

MAX_RESULTS = 500
_BATCH_ROWS = 20_000


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
    """Return those of `rows` whose prefix and suffix contain `words`, which are casefolded."""
    suffixes = text.texts(arrivals.guesses.suffixes[rows])
    ids = arrivals.guesses.ids[rows].tolist()
    pairs = zip(ids, suffixes, strict=True)
    return rows[np.array([words in prefixes[id_] + suffix.casefold() for id_, suffix in pairs], np.bool_)]
