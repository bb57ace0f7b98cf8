"""Calls that are timed in turns, and the output of figures."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness.core.errors import HarnessError

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "results.md"


class Timed(NamedTuple):
    """A call that took `seconds` and returned `result`."""

    seconds: float
    result: Any


def timed(call: Callable[[], object]) -> Timed:
    """Call once."""
    start = time.perf_counter()
    result = call()
    return Timed(time.perf_counter() - start, result)


def in_turns(
    calls: Mapping[Any, Callable[[int], object]], turns: int, *, prepare: Callable[[], object] = lambda: None
) -> dict[Any, list[Timed]]:
    """Call each of `calls` with the number of the turn, once in every turn. Return their times by turn.

    A ratio of two calls in one turn compares measurements that are close in time. `prepare` is called before each.
    """
    taken: dict[Any, list[Timed]] = {name: [] for name in calls}
    for turn in range(turns):
        for number, (name, call) in enumerate(calls.items(), turn * len(calls) + 1):
            print(f"  {number} of {turns * len(calls)}: {name}", file=sys.stderr, flush=True)
            prepare()
            taken[name].append(timed(lambda call=call, turn=turn: call(turn)))
    return taken


def median_seconds(taken: Sequence[Timed]) -> float:
    """Return the median over turns."""
    return median(each.seconds for each in taken)


def median_ratio(first: Sequence[Timed], second: Sequence[Timed]) -> float:
    """Return the median over turns of the seconds of `first` relative to those of `second` in the same turn."""
    return median(one.seconds / other.seconds for one, other in zip(first, second, strict=True))


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print one line for each figure."""
    width = max(60, *map(len, figures))
    for name, value in figures.items():
        print(
            f"  {name:{width}}  {value:.4g}" if isinstance(value, float) else f"  {name:{width}}  {value}", flush=True
        )


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as a table in Markdown."""
    header, *lines = (f"| {' | '.join(row)} |" for row in [columns, *rows])
    return "\n".join([header, f"|{'---|' * len(columns)}", *lines])


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Exit with the text of a HarnessError, without a traceback."""
    try:
        yield
    except HarnessError as error:
        sys.exit(str(error))


def print_measured(measure: Callable[[], Mapping[str, Any]]) -> None:
    """Print the figures that `measure` returns."""
    with exit_on_error():
        print_figures(measure())


def replace_part(name: str, text: str) -> None:
    """Replace the text between the lines `<!-- name -->` and `<!-- /name -->` of PAGE.

    Raises HarnessError if the page lacks one of them.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, first, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise HarnessError(f"{PAGE}: no lines {begin.strip()} and {end}. Add them where the table belongs.")
    PAGE.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")
