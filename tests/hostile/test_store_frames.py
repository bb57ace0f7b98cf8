"""Messages of a worker never make a record that cannot be stored, is slow to read, or says something untrue."""

from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from tests.functional.machine import Machine

_LARGEST_SUMMARY_BYTES = 256 << 10
INVALID = {
    "many_stages": "more than 500 stages",
    "half_a_character": "a text that cannot be stored",
}
FAILURES = {
    "exit_in_message": "the attack raised Unprintable at misbehaving.py:{line}: with a message that raised SystemExit.",
    "exit_in_harness_error": "the job raised an error that cannot be described; its log has the traceback.",
    "exit_with_hostile_code": "the job raised an error that cannot be described; its log has the traceback.",
    "finishes_itself": "the attack ended early, and nothing had asked it to.",
    "interrupted": "the user pressed a key.",
}


@pytest.mark.parametrize("action", INVALID)
def test_an_invalid_message_ends_the_run_with_a_sentence_and_a_small_record(machine: Machine, action: str) -> None:
    summary = machine.attack("forging", "--set", f"action={action}", code=1)
    assert summary["status"] == "crashed" and summary["guesses"] == 5
    reason = f"the attack's process sent an invalid message: {INVALID[action]}"
    assert summary["reason"].startswith(reason) and len(summary["reason"]) < 300
    shown = machine.run("show", summary["id"], "--json").stdout
    cache = RunFolder(Path(summary["directory"])).summary
    assert len(shown) < _LARGEST_SUMMARY_BYTES and cache.stat().st_size < _LARGEST_SUMMARY_BYTES


@pytest.mark.parametrize("action", FAILURES)
def test_only_the_user_and_the_clock_stop_a_run(machine: Machine, action: str) -> None:
    summary = machine.attack("misbehaving", "--set", f"action={action}", code=1)
    before, _, after = FAILURES[action].partition("{line}")
    assert summary["status"] == "crashed" and summary["guesses"] >= 5
    assert summary["reason"].startswith(before) and summary["reason"].endswith(after)


def test_a_crash_names_the_log_and_prints_its_last_line(machine: Machine) -> None:
    error = machine.run("run", "misbehaving", *machine.plugin(), "--set", "action=hostile_log", code=1).stderr
    (crash,) = [line for line in error.splitlines() if " crashed: " in line]
    run = machine.newest()["id"]
    assert crash.endswith(
        f'Last line of its log: "a \ufffd[31mred\ufffd[0m {"x" * 184}…". See harness show {run} --log.'
    )
    resumed = machine.run("resume", run, code=1).stderr
    assert crash in resumed.splitlines()
