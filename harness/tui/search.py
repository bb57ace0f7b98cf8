"""Guesses found in a run's whole store, by example or by text."""

from collections.abc import Callable

import numpy as np

from harness.analysis.decoded_text import TokenText
from harness.core.arrays import Ints
from harness.jobs.attack.reader import Arrivals, GuessReader
from harness.runs.errors import as_harness_error
from harness.tui.feed import RunFeed, guess_lines
from harness.tui.snapshot import GuessLine

MOST_FOUND = 500
_ROWS_AT_ONCE = 20_000


def example_meant(wanted: str) -> int | None:
    """The example whose id `wanted` is; None when it is text, as everything in double quotes is."""
    return int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else None


def guesses_for(
    wanted: str, feed: RunFeed, text: TokenText, *, goes_on: Callable[[float], bool]
) -> tuple[GuessLine, ...]:
    """The last 500 guesses that count for the example `wanted`, or whose prefix and suffix hold it as text.

    Letters match in either case. `goes_on` hears the share of the store that was looked through; with False from it the
    search ends with what it has. Raises HarnessError when the store cannot be read.
    """
    id_ = example_meant(wanted)
    if id_ is not None and id_ >= feed.spec.examples:
        return ()
    with as_harness_error(feed.folder.path), GuessReader.of_run(feed.folder, feed.spec) as reader:
        repeated = reader.repeated_batches()
        if id_ is not None:
            arrived = reader.arrivals(
                limit=MOST_FOUND,
                example=id_,
                newest_first=True,
            )
            return guess_lines(arrived, arrived.valid_rows(repeated)[::-1], feed.answers)
        needle = wanted.strip('"').casefold()
        prefixes = [prefix.casefold() for prefix in text.texts(feed.prefixes)]
        found: tuple[GuessLine, ...] = ()
        last = reader.guess_count()
        for after in range(max(0, last - _ROWS_AT_ONCE), -_ROWS_AT_ONCE, -_ROWS_AT_ONCE):
            arrived = reader.arrivals(
                after=max(0, after),
                limit=min(_ROWS_AT_ONCE, _ROWS_AT_ONCE + after),
            )
            rows = arrived.valid_rows(repeated)
            matching = rows[_holding(needle, arrived, rows, prefixes, text)]
            found = guess_lines(arrived, matching[-(MOST_FOUND - len(found)) :], feed.answers) + found
            if len(found) >= MOST_FOUND or after <= 0 or not goes_on(1 - after / last):
                break
        return found


def _holding(needle: str, arrived: Arrivals, rows: Ints, prefixes: list[str], text: TokenText) -> Ints:
    """Which of `rows` hold `needle`, as places in `rows`."""
    suffixes = text.texts(arrived.guesses.suffixes[rows])
    ids = arrived.guesses.ids[rows].tolist()
    pairs = zip(ids, suffixes, strict=True)
    return np.array([needle in prefixes[id_] + suffix.casefold() for id_, suffix in pairs], np.bool_).nonzero()[0]
