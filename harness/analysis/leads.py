"""The run that leads at each time, from the recall of several runs over time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.runs.status import Status

History = Sequence[tuple[float, float]]
"""Pairs of a time and a recall, ascending."""


def counts_until(status: Status, *, elapsed: float, budget: float) -> float:
    """Return until which spent time the recall of a run is known: for ever if it has finished all of its work.

    A run that its budget ended would have gone on with more, so it does not count after that.
    """
    if status is Status.FINISHED:
        return float("inf")
    return max(elapsed, budget) if status is Status.OUT_OF_TIME else elapsed


class Lead(NamedTuple):
    """A span of time in which one run has the highest recall.

    leader: the number of the run, None while several have the highest recall or none is above zero. second: the run
    with the next recall at the end of the span, None if there is no other. least, most: how far the leader was ahead
    of the next recall in the span.
    """

    start: float
    end: float
    leader: int | None
    second: int | None
    least: float
    most: float


def leads(histories: Sequence[History], counts: Sequence[float], *, until: float) -> list[Lead]:
    """Return who leads from time 0 to `until`, as spans that follow one another.

    Each history begins at time 0, and its recalls are valid until the next one; run i counts until `counts[i]`.
    """
    moments = {0.0, until, *counts, *(time for history in histories for time, _ in history)}
    spans: list[Lead] = []
    places = [0] * len(histories)
    for start, end in pairwise(sorted(moment for moment in moments if moment <= until)):
        recalls: list[tuple[float, int]] = []
        for run, history in enumerate(histories):
            while places[run] + 1 < len(history) and history[places[run] + 1][0] <= start:
                places[run] += 1
            if start < counts[run] and history:
                recalls.append((history[places[run]][1], run))
        recalls.sort(key=lambda pair: (-pair[0], pair[1]))
        _append(spans, _span(start, end, recalls))
    return spans


def _span(start: float, end: float, recalls: Sequence[tuple[float, int]]) -> Lead:
    """Return the span for recalls, highest first, that do not change in it."""
    if not recalls or recalls[0][0] <= 0 or (len(recalls) > 1 and recalls[1][0] == recalls[0][0]):
        return Lead(start, end, None, None, 0.0, 0.0)
    if len(recalls) == 1:
        return Lead(start, end, recalls[0][1], None, recalls[0][0], recalls[0][0])
    ahead = recalls[0][0] - recalls[1][0]
    return Lead(start, end, recalls[0][1], recalls[1][1], ahead, ahead)


def _append(spans: list[Lead], span: Lead) -> None:
    """Append a span, or extend the last one if the same run leads."""
    if spans and spans[-1].leader == span.leader:
        last = spans.pop()
        span = span._replace(start=last.start, least=min(last.least, span.least), most=max(last.most, span.most))
    spans.append(span)
