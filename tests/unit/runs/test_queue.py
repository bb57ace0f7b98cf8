"""The queue for devices: its order, moves in it, runs that die in it, and how long a run waits at most."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.files import try_lock
from harness.core.paths import locks_home
from harness.core.text import ordinal
from harness.runs import summary as summary_module
from harness.runs.folder import RunFolder
from harness.runs.queue import Move, QueuePlace, move_in_queue, queued_runs, wait_of
from harness.runs.summary import run_summary
from tests.records import recorded_run

ENTER = """
import sys, time
from harness.runs.folder import RunFolder
from harness.runs.queue import QueuePlace
with QueuePlace(RunFolder.of(sys.argv[1]), {"cpu": "cpu.lock"}, budget_s=60.0):
    print("entered", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def stack(home: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def enter(stack: ExitStack, run_id: str, *devices: str, budget_s: float = 60.0, needs_all: bool = False) -> QueuePlace:
    """Let a run wait for devices until the end of the test."""
    RunFolder.of(run_id).path.mkdir(parents=True, exist_ok=True)
    locks = {device: f"{device}.lock" for device in devices or ("cpu",)}
    place = QueuePlace(RunFolder.of(run_id), locks, budget_s=budget_s, needs_all=needs_all)
    return stack.enter_context(place)


def order() -> list[str]:
    return [queued.run for queued in queued_runs()]


def hold(stack: ExitStack, device: str, run_id: str) -> None:
    locks_home().mkdir(parents=True, exist_ok=True)
    file = try_lock(locks_home() / f"{device}.lock")
    assert file is not None
    file.write(f"{run_id}\n".encode())
    file.flush()
    stack.enter_context(file)


def process(run_id: str) -> "subprocess.Popen[str]":
    RunFolder.of(run_id).path.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", ENTER, run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_runs_are_served_in_the_order_of_their_arrival(stack: ExitStack) -> None:
    first, second = enter(stack, "aaaa"), enter(stack, "bbbb")
    with ExitStack() as early:
        third = enter(early, "cccc")
        assert order() == ["aaaa", "bbbb", "cccc"]
        assert first.locks_wanted_before() == set()
        assert second.locks_wanted_before() == third.locks_wanted_before() == {"cpu.lock"}
    assert order() == ["aaaa", "bbbb"]
    assert not RunFolder.of("cccc").queue_lock.exists()


def test_a_run_that_enters_again_is_last(stack: ExitStack) -> None:
    with ExitStack() as early:
        enter(early, "aaaa")
        enter(stack, "bbbb")
    enter(stack, "aaaa")
    assert order() == ["bbbb", "aaaa"]


def test_a_waiting_process_that_is_killed_is_not_in_the_queue(stack: ExitStack) -> None:
    killed = process("aaaa")
    assert killed.stdout is not None and killed.stdout.readline() == "entered\n"
    place = enter(stack, "bbbb")
    assert order() == ["aaaa", "bbbb"] and place.locks_wanted_before() == {"cpu.lock"}
    killed.kill()
    killed.communicate()
    assert order() == ["bbbb"] and place.locks_wanted_before() == set()


def test_processes_that_enter_at_the_same_time_all_have_a_place(stack: ExitStack) -> None:
    names = {f"{letter}000" for letter in "abc"}
    entering = [process(name) for name in names]
    for one in entering:
        assert one.stdout is not None and one.stdout.readline() == "entered\n"
    assert set(order()) == names and len(order()) == len(names)
    for one in entering:
        one.communicate()
    assert order() == []


@pytest.mark.parametrize(
    ("run_id", "move", "expected"),
    [
        ("cccc", Move.FIRST, "cccc aaaa bbbb dddd"),
        ("cccc", Move.UP, "aaaa cccc bbbb dddd"),
        ("bbbb", Move.DOWN, "aaaa cccc bbbb dddd"),
        ("bbbb", Move.LAST, "aaaa cccc dddd bbbb"),
        ("aaaa", Move.UP, "aaaa bbbb cccc dddd"),
        ("dddd", Move.DOWN, "aaaa bbbb cccc dddd"),
        ("cccc", Move.DOWN, "aaaa bbbb dddd cccc"),
    ],
)
def test_a_run_is_moved_in_the_queue(stack: ExitStack, run_id: str, move: Move, expected: str) -> None:
    for name in ("aaaa", "bbbb", "cccc", "dddd"):
        enter(stack, name)
    move_in_queue(run_id, move)
    assert order() == expected.split()


def test_a_move_passes_only_runs_that_want_the_same_device(stack: ExitStack) -> None:
    enter(stack, "aaaa", "cuda:0")
    enter(stack, "bbbb", "cpu")
    enter(stack, "cccc", "cuda:0", "cuda:1")
    move_in_queue("cccc", Move.UP)
    assert order() == ["cccc", "aaaa", "bbbb"]
    last, only = wait_of("aaaa"), wait_of("bbbb")
    assert last is not None and (last.position, last.length) == (2, 2)
    assert only is not None and (only.position, only.length) == (1, 1)


def test_a_run_that_does_not_wait_cannot_be_moved(stack: ExitStack) -> None:
    enter(stack, "aaaa")
    with pytest.raises(HarnessError, match="bbbb does not wait for a device"):
        move_in_queue("bbbb", Move.FIRST)


@pytest.mark.parametrize("content", [None, "", "{}", '[{"run": 1}]'])
def test_a_lost_queue_file_is_rebuilt_by_the_runs_that_wait(stack: ExitStack, content: str | None) -> None:
    places = [enter(stack, name) for name in ("aaaa", "bbbb")]
    file = locks_home() / "queue.json"
    file.unlink() if content is None else file.write_text(content)
    assert [place.locks_wanted_before() for place in places] == [set(), {"cpu.lock"}]
    assert order() == ["aaaa", "bbbb"]


def test_the_longest_wait_is_the_rest_of_the_holder_and_the_budgets_before(home: Path, stack: ExitStack) -> None:
    holder = recorded_run(home, id_="hold-one")
    with holder.store.transaction():
        holder.store.add_ledger("tick", 10.0)
    hold(stack, "cpu", "hold-one")
    enter(stack, "aaaa", budget_s=100.0)
    enter(stack, "bbbb", budget_s=7.0)
    first, second = wait_of("aaaa"), wait_of("bbbb")
    assert first is not None and second is not None
    # recorded_run has a budget of 60 s.
    assert (first.at_most_s, second.at_most_s) == (50.0, 150.0)
    assert (second.waits_for, second.position, second.length) == ("hold-one", 2, 2)
    assert second.sentence == "waiting for cpu, at most 2:30: run hold-one holds it; 2nd of 2 in the queue."
    assert wait_of("cccc") is None


def test_a_run_that_may_take_two_devices_waits_for_the_one_that_is_free_first(home: Path, stack: ExitStack) -> None:
    for number, (run_id, spent) in enumerate([("hold-one", 10.0), ("hold-two", 40.0)]):
        run = recorded_run(home, id_=run_id)
        with run.store.transaction():
            run.store.add_ledger("tick", spent)
        hold(stack, f"cuda:{number}", run_id)
    enter(stack, "aaaa", "cuda:0", "cuda:1", budget_s=100.0)
    enter(stack, "bbbb", "cuda:0", "cuda:1")
    first, second = wait_of("aaaa"), wait_of("bbbb")
    assert first is not None and (first.at_most_s, first.waits_for) == (20.0, "hold-two")
    # The run before it takes cuda:1 after 20 s, so cuda:0 is free earlier.
    assert second is not None and second.at_most_s == 50.0
    assert "for cuda:0 or cuda:1, at most 0:50: run hold-two and run hold-one hold them; 2nd of 2" in second.sentence


def test_a_holder_without_a_record_has_no_longest_wait(stack: ExitStack) -> None:
    hold(stack, "cpu", "gone-run")
    enter(stack, "aaaa")
    wait = wait_of("aaaa")
    assert wait is not None and wait.at_most_s is None
    assert wait.sentence == "waiting for cpu: run gone-run holds it; 1st of 1 in the queue."


def test_the_summary_of_a_queued_run_has_its_place_and_wait(home: Path, stack: ExitStack) -> None:
    run = recorded_run(home, id_="aaaa-one", pid=None)
    run.lock = try_lock(run.folder.lock)
    run.event("phase", phase="queued", reason="waiting for cpu.")
    assert run_summary(run.folder).reason == "waiting for cpu."
    hold(stack, "cpu", "gone-run")
    enter(stack, "aaaa-one")
    summary = run_summary(run.folder)
    assert (summary.queue_position, summary.queue_length, summary.waits_for) == (1, 1, "gone-run")
    assert summary.reason.endswith("1st of 1 in the queue.")
    wait = wait_of("aaaa-one")
    assert wait is not None
    assert ", about 0:34: " in replace(wait, about_s=34.0).sentence
    assert ", about 0:34 and 2 runs: " in replace(wait, about_s=34.0, position=3, length=3).sentence
    two = replace(wait, devices=("cuda:0", "cuda:1"), holders=("aaaa-one",))
    assert summary_module._eta_of_holder(replace(two, position=2)) is None
    run.event("phase", phase="running")
    assert run_summary(run.folder).queue_position is None


def test_ordinals() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th")
    ]


def test_a_run_on_several_devices_waits_for_the_last_of_them(stack: ExitStack, home: Path) -> None:
    holder = recorded_run(home)
    hold(stack, "cuda:0", holder.folder.id)
    enter(stack, "aaaa", "cuda:0", "cuda:1", budget_s=100.0, needs_all=True)
    enter(stack, "bbbb", "cuda:1", budget_s=5.0)
    first, second = wait_of("aaaa"), wait_of("bbbb")
    assert first is not None and second is not None
    assert first.sentence.startswith("waiting for cuda:0 and cuda:1, at most")
    assert first.at_most_s is not None and second.at_most_s == first.at_most_s + 100.0
    holder.store.close()
