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


@pytest.mark.parametrize("action", INVALID)
def test_an_invalid_message_ends_the_run_with_a_sentence_and_a_small_record(machine: Machine, action: str) -> None:
    summary = machine.attack("forging", "--set", f"action={action}", code=1)
    assert summary["status"] == "crashed" and summary["guesses"] == 5
    reason = f"the attack's process sent an invalid message: {INVALID[action]}"
    assert summary["reason"].startswith(reason) and len(summary["reason"]) < 300
    shown = machine.run("show", summary["id"], "--json").stdout
    cache = RunFolder(Path(summary["directory"])).summary
    assert len(shown) < _LARGEST_SUMMARY_BYTES and cache.stat().st_size < _LARGEST_SUMMARY_BYTES


def test_a_crash_names_the_log_and_prints_its_last_line(machine: Machine) -> None:
    error = machine.run("run", "misbehaving", *machine.plugin(), "--set", "action=hostile_log", code=1).stderr
    (crash,) = [line for line in error.splitlines() if " crashed: " in line]
    run = machine.newest()["id"]
    assert crash.endswith(
        f'Last line of its log: "a \ufffd[31mred\ufffd[0m {"x" * 184}…". See harness show {run} --log.'
    )
    resumed = machine.run("resume", run, code=1).stderr
    assert crash in resumed.splitlines()
