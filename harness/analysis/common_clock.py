"""One time axis for several runs, and the run that leads at each time on it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from harness.core.calibration import P100, BudgetMachine, TimeScale
from harness.core.spec import JobSpec
from harness.runs.status import Status

History = Sequence[tuple[float, float]]
"""Pairs of a time and a recall, ascending."""


class CommonClock(NamedTuple):
    """The time axis of a comparison: standard seconds of `machine`, or wall seconds if it is None.

    budget: the end of the axis. uncalibrated: the ids of the runs because of which the axis is in wall seconds.
    """

    machine: BudgetMachine | None
    budget: float
    uncalibrated: tuple[str, ...] = ()

    def time(self, scale: TimeScale, spent: float) -> float:
        """Return the time on this axis when a run has spent so much of its budget."""
        standard = None if self.machine is None else scale.standard(spent, self.machine)
        return scale.wall(spent) if standard is None else standard

    @property
    def title(self) -> str:
        """The label of the axis: `wall clock`, or `standard time of p100`."""
        return "wall clock" if self.machine is None else f"standard time of {self.machine.title}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        machine = None if self.machine is None else self.machine.model_dump()
        return {"machine": machine, "budget_s": self.budget, "uncalibrated": list(self.uncalibrated)}


def common_clock(specs: Sequence[JobSpec], scales: Sequence[TimeScale]) -> CommonClock:
    """Return the axis of these runs.

    It is that of the first budget in standard seconds. If all budgets are in wall seconds, the budget of the first run
    is taken as one of a P100. Without the calibration of each run, the axis is in wall seconds.
    """
    first = next((spec for spec in specs if spec.budget_machine is not None), specs[0])
    machine = first.budget_machine or P100
    unknown = tuple(spec.id for spec, scale in zip(specs, scales, strict=True) if scale.standard(0.0, machine) is None)
    if not unknown:
        return CommonClock(machine, first.budget)
    return CommonClock(None, max(scale.wall(spec.budget) for spec, scale in zip(specs, scales, strict=True)), unknown)


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
