"""Batches that several workers share: claims, loops as barriers, deaths, and the end."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.frames import Frame
from harness.supervisor.intake import IntakeError
from harness.supervisor.shared_batches import SharedBatches, SharedState

LEAD, OTHER = 0, 1


class Workers:
    """Asks questions as workers do."""

    def __init__(self, done: tuple[str, ...] = ()) -> None:
        self.states: list[int] = []
        self.shared = SharedBatches(done, self._write_state)

    def _write_state(self, worker: int) -> int:
        self.states.append(worker)
        return 7

    def ask(self, worker: int, question: str, key: str = "", **fields: Any) -> dict[int, int]:
        """Return every answer that is given after this question."""
        self.shared.ask(worker, Frame("ask", fields={"question": question, "key": key, **fields}))
        return self.answers()

    def answers(self) -> dict[int, int]:
        return dict(self.shared.answers())


@pytest.fixture
def workers() -> Workers:
    found = Workers()
    assert found.ask(LEAD, "enter", "guess/0") == {LEAD: 1}
    assert found.ask(OTHER, "enter", "guess/0") == {OTHER: 1}
    return found


def test_a_batch_is_given_to_one_worker(workers: Workers) -> None:
    assert workers.ask(LEAD, "claim", "a") == {LEAD: 1}
    assert workers.ask(OTHER, "claim", "a") == {OTHER: 0}
    assert workers.ask(OTHER, "claim", "b") == {OTHER: 1}
    workers.shared.mark_done("a")
    assert workers.ask(OTHER, "claim", "a") == {OTHER: 0}


def test_a_batch_of_an_earlier_execution_is_not_given() -> None:
    workers = Workers(done=("a",))
    assert workers.ask(LEAD, "enter", "guess/0") == {LEAD: 1}
    assert workers.ask(LEAD, "claim", "a") == {LEAD: 0}


def test_a_loop_opens_when_the_batches_before_it_are_done(workers: Workers) -> None:
    workers.ask(OTHER, "claim", "a")
    assert workers.ask(LEAD, "enter", "guess/1") == {}
    workers.shared.mark_done("a")
    assert workers.answers() == {LEAD: 1}


def test_the_lead_opens_the_loops(workers: Workers) -> None:
    assert workers.ask(OTHER, "enter", "guess/1") == {}
    assert workers.ask(LEAD, "enter", "guess/1") == {LEAD: 1, OTHER: 1}


def test_batches_in_order_are_run_by_the_lead(workers: Workers) -> None:
    assert workers.ask(OTHER, "claim", "a", in_order=True) == {}
    assert workers.ask(LEAD, "claim", "a", in_order=True) == {LEAD: 1}
    workers.shared.mark_done("a")
    assert workers.answers() == {OTHER: 0}


def test_a_batch_of_a_dead_worker_is_given_to_another(workers: Workers) -> None:
    workers.ask(OTHER, "claim", "a")
    assert workers.ask(LEAD, "state") == {}
    workers.shared.release(OTHER)
    assert workers.answers() == {}, "the batch must be run before the state is complete"
    assert workers.ask(OTHER, "enter", "guess/0") == {OTHER: 1}
    assert workers.ask(OTHER, "claim", "a") == {OTHER: 1}
    workers.shared.mark_done("a")
    assert workers.answers() == {LEAD: 7}
    assert workers.states == [LEAD]


def test_the_state_waits_for_the_batches_of_others(workers: Workers) -> None:
    workers.ask(LEAD, "claim", "a")
    assert workers.ask(OTHER, "state") == {}
    workers.shared.mark_done("a")
    assert workers.answers() == {OTHER: 7}


def test_a_batch_that_a_worker_has_left_delays_nobody(workers: Workers) -> None:
    workers.ask(OTHER, "claim", "a")
    assert workers.ask(LEAD, "state") == {}
    assert workers.ask(OTHER, "state") == {LEAD: 7, OTHER: 7}


def test_nobody_waits_for_work_that_will_not_be_done(workers: Workers) -> None:
    workers.ask(LEAD, "claim", "a")
    workers.shared.release(LEAD)
    assert workers.ask(OTHER, "state") == {}
    workers.shared.finish_soon()
    assert workers.answers() == {OTHER: 7}
    assert workers.ask(OTHER, "enter", "guess/1") == {OTHER: 1}
    assert workers.ask(OTHER, "claim", "b", in_order=True) == {OTHER: 0}


def test_the_first_number_counts(workers: Workers) -> None:
    assert workers.ask(OTHER, "agree", "rows", number=64) == {OTHER: 64}
    assert workers.ask(LEAD, "agree", "rows", number=80) == {LEAD: 64}


@pytest.mark.parametrize(
    "fields",
    [
        {"question": "end"},
        {"key": "x" * 201},
        {"key": 3},
        {"number": -1},
        {"number": 1 << 60},
        {"number": "1"},
    ],
)
def test_a_forged_question_is_refused(workers: Workers, fields: dict[str, Any]) -> None:
    with pytest.raises(IntakeError):
        workers.shared.ask(LEAD, Frame("ask", fields={"question": "claim", "key": "a", **fields}))


def test_a_second_question_before_the_answer_is_refused(workers: Workers) -> None:
    workers.ask(LEAD, "claim", "a")
    assert workers.ask(OTHER, "state") == {}
    with pytest.raises(IntakeError):
        workers.ask(OTHER, "claim", "b")


def test_the_state_is_written_again_only_if_it_changed(tmp_path: Path) -> None:
    written: list[Path] = []
    state = SharedState(tmp_path / "shared", written.append)
    assert [state.write_for(LEAD), state.write_for(OTHER)] == [1, 1]
    state.mark_changed()
    assert state.write_for(LEAD) == 2
    assert written == [tmp_path / "shared" / "1", tmp_path / "shared" / "2"]
    # The other worker may still read the first one.
    assert (tmp_path / "shared" / "1").is_dir()
    assert state.write_for(OTHER) == 2
    assert not (tmp_path / "shared" / "1").exists()
