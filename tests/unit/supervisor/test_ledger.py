"""Budgets: spent time never decreases, and killing the supervisor gains no time."""

from hypothesis import given
from hypothesis import strategies as st

from harness.runs.reader import LedgerEntry
from harness.supervisor.ledger import CRASH_CHARGE_SECONDS, TICK_SECONDS, Budget, spent_so_far

seconds = st.floats(0, 1e6)


@given(st.floats(1, 1e6), seconds, seconds, seconds)
def test_spent_time_never_decreases_and_never_exceeds_the_budget(
    total: float, before: float, first: float, later: float
) -> None:
    budget = Budget(total, min(before, total)).begin(100.0)
    early, late = budget.spent_at(100.0 + first), budget.spent_at(100.0 + first + later)
    assert min(before, total) <= early <= late <= total
    assert budget.remaining(100.0 + first) == total - early


def test_a_clock_that_runs_backwards_spends_nothing() -> None:
    assert Budget(10.0, 3.0).begin(100.0).spent_at(50.0) == 3.0


def test_nothing_is_spent_before_the_worker_starts() -> None:
    assert Budget(10.0, 2.0).spent_at(1e9) == 2.0


@given(st.floats(1, 1e6))
def test_the_soft_deadline_is_5_percent_before_the_end_and_at_most_60_s(total: float) -> None:
    budget = Budget(total).begin(0.0)
    assert budget.notice == min(60.0, total / 20)
    assert abs(budget.until_soft_deadline(0.0) - (total - budget.notice)) < 1e-6


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, TICK_SECONDS)), max_size=30))
def test_kills_never_gain_time(executions: list[tuple[float, float]]) -> None:
    """The time after the last tick of a killed execution is not recorded, and a fixed charge replaces it."""
    total, spent, actual = 20.0, 0.0, 0.0
    for ticked, unrecorded in executions:
        budget = Budget(total, spent).begin(0.0)
        duration = min(ticked + unrecorded, budget.remaining(0.0))
        actual += duration
        recorded = budget.spent_at(min(ticked, duration))
        spent = spent_so_far(LedgerEntry(0.0, "tick", recorded))
        assert spent >= recorded
        if spent >= total:
            break
    assert actual <= total + TICK_SECONDS


def test_a_recorded_end_is_charged_exactly_and_a_kill_with_a_fixed_charge() -> None:
    tick, end = LedgerEntry(0.0, "tick", 5.0), LedgerEntry(0.0, "end", 9.0)
    assert spent_so_far(None) == 0.0
    assert spent_so_far(tick) == 5.0 + CRASH_CHARGE_SECONDS
    assert spent_so_far(end) == 9.0
    assert CRASH_CHARGE_SECONDS > TICK_SECONDS
