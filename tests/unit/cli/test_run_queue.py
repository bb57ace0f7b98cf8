"""`harness runs queue`: the runs that wait for a device, and moves."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.core.files import try_lock
from harness.runs.queue import QueuePlace
from tests.unit.cli.command_line import CommandLine
from tests.unit.tui.recorded import recorded_run

IDS = ("aaaa-one", "bbbb-two", "cccc-three")


@pytest.fixture
def waiting(home: Path) -> Iterator[None]:
    """Three runs that wait for the CPU."""
    with ExitStack() as stack:
        for id_ in IDS:
            run = recorded_run(home, id_=id_)
            alive = try_lock(run.folder.lock)
            assert alive is not None
            stack.enter_context(alive)
            run.event("phase", phase="queued", reason="")
            stack.enter_context(QueuePlace(run.folder, {"cpu": "cpu.lock"}, budget_s=60.0))
        yield


@pytest.mark.usefixtures("waiting")
def test_the_queue_is_listed_in_order(harness: CommandLine) -> None:
    listed = harness("runs", "queue", "--json").json["queue"]
    assert [(run["id"], run["queue_position"], run["wait_at_most_s"]) for run in listed] == [
        (IDS[0], 1, 0.0),
        (IDS[1], 2, 60.0),
        (IDS[2], 3, 120.0),
    ]
    header, *rows = harness("runs", "queue").out.splitlines()
    assert header.split() == ["run", "attack", "round", "place", "waits", "for", "at", "most"]
    assert rows[1].split() == ["bbbb-two", "some", "small", "2", "of", "3", "–", "1:00"]


@pytest.mark.parametrize(
    ("run", "move", "expected"),
    [("cccc", "--first", "cab"), ("cccc", "--up", "acb"), ("aaaa", "--down", "bac"), ("aaaa", "--last", "bca")],
)
@pytest.mark.usefixtures("waiting")
def test_a_queued_run_is_moved(harness: CommandLine, run: str, move: str, expected: str) -> None:
    listed = harness("runs", "queue", run, move, "--json").json["queue"]
    assert "".join(one["id"][0] for one in listed) == expected


@pytest.mark.parametrize("arguments", [("aaaa",), ("--first",), ("aaaa", "--first", "--last")])
@pytest.mark.usefixtures("waiting")
def test_a_move_needs_one_run_and_one_direction(harness: CommandLine, arguments: tuple[str, ...]) -> None:
    done = harness("runs", "queue", *arguments)
    assert done.code == 2 and "give a run and one of --first" in " ".join(done.err.split())


def test_an_empty_queue_is_one_sentence_and_moves_nothing(harness: CommandLine, home: Path) -> None:
    recorded_run(home)
    assert harness("runs", "queue").err == "no run waits for a device.\n"
    refused = harness("runs", "queue", "abcd", "--up")
    assert refused.code == 1 and "abcd-some does not wait for a device" in refused.err


@pytest.mark.usefixtures("waiting")
def test_shell_completion_offers_queued_runs_in_order() -> None:
    from harness.cli.completion import queued_run_names

    assert queued_run_names("") == list(IDS) and queued_run_names("b") == [IDS[1]]
