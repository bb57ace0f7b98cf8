"""The arithmetic of budgets: time runs forwards, and no kill gives any back."""

from hypothesis import given
from hypothesis import strategies as st

from harness.runs.reader import LedgerEntry
from harness.supervisor.ledger import CRASH_CHARGE_SECONDS, TICK_SECONDS, Budget, spent_after, spent_so_far
from harness.supervisor.standby import StandbyRecord

seconds = st.floats(0, 1e6)


@given(st.floats(1, 1e6), seconds, seconds, seconds)
def test_what_is_spent_never_shrinks_and_never_exceeds_the_budget(
    total: float, before: float, first: float, later: float
) -> None:
    budget = Budget(total, min(before, total)).started(100.0)
    early, late = budget.spent(100.0 + first), budget.spent(100.0 + first + later)
    assert min(before, total) <= early <= late <= total
    assert budget.remaining(100.0 + first) == total - early


def test_a_clock_that_went_backwards_spends_nothing() -> None:
    assert Budget(10.0, 3.0).started(100.0).spent(50.0) == 3.0


def test_nothing_is_spent_before_the_worker_starts() -> None:
    assert Budget(10.0, 2.0).spent(1e9) == 2.0


@given(st.floats(1, 1e6))
def test_the_call_to_finish_comes_a_twentieth_before_the_end_and_at_most_a_minute(total: float) -> None:
    budget = Budget(total).started(0.0)
    assert budget.notice == min(60.0, total / 20)
    assert abs(budget.until_soft_deadline(0.0) - (total - budget.notice)) < 1e-6


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, TICK_SECONDS)), max_size=30))
def test_kills_never_grant_more_than_the_budget(executions: list[tuple[float, float]]) -> None:
    """Each execution runs for a while, and what it ran after its last tick is lost with its supervisor."""
    total, spent, really = 20.0, 0.0, 0.0
    for ticked, unseen in executions:
        budget = Budget(total, spent).started(0.0)
        ran = min(ticked + unseen, budget.remaining(0.0))
        really += ran
        recorded = budget.spent(min(ticked, ran))
        spent = spent_after(recorded, was_closed=False)
        assert spent >= recorded
        if spent >= total:
            break
    assert really <= total + TICK_SECONDS


def test_an_execution_that_ended_in_order_is_charged_what_it_took() -> None:
    assert spent_after(5.0, was_closed=True) == 5.0
    assert spent_after(5.0, was_closed=False) == 5.0 + CRASH_CHARGE_SECONDS
    assert CRASH_CHARGE_SECONDS > TICK_SECONDS


def test_what_the_stand_in_says_beyond_the_ledger_is_charged_as_after_a_kill() -> None:
    tick, end = LedgerEntry(0.0, "tick", 5.0), LedgerEntry(0.0, "end", 9.0)
    assert spent_so_far(None, None) == 0.0
    assert spent_so_far(tick, None) == 5.0 + CRASH_CHARGE_SECONDS
    assert spent_so_far(tick, StandbyRecord(8.0, is_waiting=True)) == 8.0 + CRASH_CHARGE_SECONDS
    assert spent_so_far(tick, StandbyRecord(4.0, is_waiting=True)) == 5.0 + CRASH_CHARGE_SECONDS
    assert spent_so_far(end, StandbyRecord(9.0, is_waiting=False)) == 9.0
