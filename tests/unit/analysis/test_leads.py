"""Who leads when."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.comparison import Lead, counts_until, leads
from harness.runs.status import Status

UNTIL = 10.0
times = st.lists(st.floats(0, 12), max_size=6).map(sorted)
recalls = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5]), min_size=7, max_size=7)
histories = st.lists(
    st.tuples(times, recalls).map(lambda pair: [(0.0, 0.0), *zip(pair[0], pair[1], strict=False)]),
    min_size=1,
    max_size=4,
)


def recall_at(history, time):
    return [recall for moment, recall in history if moment <= time][-1]


@given(histories, st.lists(st.floats(0, 15), min_size=4, max_size=4), st.floats(0, UNTIL, exclude_max=True))
def test_the_leader_has_the_highest_recall_at_each_time(runs, counts, time):
    counts = counts[: len(runs)]
    spans = leads(runs, counts, until=UNTIL)
    assert spans[0].start == 0.0 and spans[-1].end == UNTIL
    assert all(span.end == following.start and span.leader != following.leader for span, following in pairwise(spans))
    (span,) = [span for span in spans if span.start <= time < span.end]
    counted = sorted((-recall_at(run, time), number) for number, run in enumerate(runs) if time < counts[number])
    if not counted or counted[0][0] == 0 or (len(counted) > 1 and counted[1][0] == counted[0][0]):
        assert span.leader is None
    else:
        ahead = -counted[0][0] + (counted[1][0] if len(counted) > 1 else 0.0)
        assert span.leader == counted[0][1] and span.min_margin <= ahead <= span.max_margin


def test_a_span_ends_when_another_run_overtakes():
    early, late = [(0.0, 0.0), (1.0, 0.25)], [(0.0, 0.0), (2.0, 0.125), (4.0, 0.5)]
    assert leads([early, late], [UNTIL * 2, UNTIL * 2], until=UNTIL) == [
        Lead(0.0, 1.0, None, None, 0.0, 0.0),
        Lead(1.0, 4.0, 0, 1, 0.125, 0.25),
        Lead(4.0, 10.0, 1, 0, 0.25, 0.25),
    ]


def test_a_finished_run_counts_for_ever_and_one_that_was_cut_short_until_then():
    assert counts_until(Status.FINISHED, elapsed=3.0, budget=9.0) == float("inf")
    assert counts_until(Status.OUT_OF_TIME, elapsed=8.5, budget=9.0) == 9.0
    assert counts_until(Status.STOPPED, elapsed=3.0, budget=9.0) == 3.0
