"""Attacks that fail: each run ends with a status and a reason, and its record can be read."""

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.sandbox.capped_log import CAP_BYTES
from tests.functional.machine import Machine, is_valid, write_round
from tests.tools.tiers import first_is_fast, long_values

MIB = 1 << 20


def _run_misbehaving(machine: Machine, action: str, *options: str, code: int = 1) -> dict[str, Any]:
    """Run `misbehaving`, and return the summary, which includes its valid guesses."""
    machine.run("run", "misbehaving", *machine.plugin(), "--set", f"action={action}", *options, code=code)
    return _read(machine)


def _read(machine: Machine) -> dict[str, Any]:
    summary = machine.newest()
    assert summary["rows"] >= 5 and Path(summary["submission"]).stat().st_size > 0
    assert "\n" not in summary["reason"]
    size = sum(file.stat().st_size for file in Path(summary["directory"]).rglob("*") if file.is_file())
    assert size < 20 * MIB
    assert is_valid(Path(summary["submission"]), machine.folder / "round.toml")
    return summary


MISBEHAVING = {
    "raises": "the attack raised ValueError at misbehaving.py:{line}: an error.",
    "invalid_message": (
        "the attack raised InvalidMessage at misbehaving.py:{line}: with a message that raised ValueError."
    ),
    "exit_in_message": "the attack raised Unprintable at misbehaving.py:{line}: with a message that raised SystemExit.",
    "exit_in_harness_error": "the job raised an error that cannot be described; its log has the traceback.",
    "exit_with_hostile_code": "the job raised an error that cannot be described; its log has the traceback.",
    "finishes_itself": "the attack ended early, and nothing had asked it to.",
    "interrupted": "the user pressed a key.",
    "sys_exit": "the attack asked to exit with 0 before its end.",
    "silent_exit": "the attack's process exited with code 0 before its end.",
    "segfault_signal": "the attack's process was killed by SIGSEGV.",
    "segfault": "the attack's process was killed by SIGSEGV.",
    "killed": "the attack's process was killed by SIGKILL: by itself or by something outside of the run{line}.",
    "wrong_id": "the attack emitted example id 64, but the round has the ids 0..63.",
    "no_guesses": "the attack yielded str. It must yield Guesses.",
    "two_stages": "the attack has two loops over batches of the stage 'guess'. Rename one of them.",
}
FORGING = {
    "rubbish": "the attack's process sent an invalid message: bytes that do not begin a frame.",
    "pickled_column": "the attack's process sent an invalid message: a column of type 'O'.",
    "truncated": "the attack's process exited with code 0 before its end.",
    "close": "the attack's process closed the pipe of its results.",
    "close_and_reuse": "the attack's process closed the pipe of its results.",
    "interleaved": "the attack's process sent an invalid message: frame 3 does not match its checksum.",
    "forked_child": "the attack's process sent an invalid message: bytes that do not begin a frame.",
    "after_the_end": "the attack's process sent an invalid message: a frame after the worker's last message.",
}
"""The reason of the crash for each action of the attacks `misbehaving` and `forging`."""


def _has_reason(summary: dict[str, Any], sentence: str) -> bool:
    before, _, after = sentence.partition("{line}")
    assert summary["status"] == "crashed"
    return summary["reason"].startswith(before) and summary["reason"].endswith(after)


@pytest.mark.parametrize("action", first_is_fast(MISBEHAVING, fast=7))
def test_a_failing_attack_crashes_with_a_reason(machine: Machine, action: str) -> None:
    assert _has_reason(_run_misbehaving(machine, action), MISBEHAVING[action])


@pytest.mark.slow
@pytest.mark.parametrize("action", ["silent_exit", "segfault", "killed"])
def test_a_failing_attack_without_a_sandbox_crashes_with_a_reason(unsandboxed_machine: Machine, action: str) -> None:
    assert _has_reason(_run_misbehaving(unsandboxed_machine, action), MISBEHAVING[action])


@pytest.mark.parametrize(
    "action", [*first_is_fast([*FORGING][:4], fast=2, rest=pytest.mark.slow), *long_values([*FORGING][4:])]
)
def test_a_forged_or_missing_frame_ends_the_run_and_keeps_earlier_guesses(machine: Machine, action: str) -> None:
    machine.run("run", "forging", *machine.plugin(), "--set", f"action={action}", code=1)
    summary = _read(machine)
    assert _has_reason(summary, FORGING[action]) and summary["elapsed_s"] < 30
    assert summary["guesses"] == summary["rows"] == 5
    assert not Path("/exploded").exists()


@pytest.mark.slow
def test_a_forged_end_message_ends_the_run(machine: Machine) -> None:
    assert machine.attack("forging", "--set", "action=only_the_end")["status"] == "finished"
    assert _read(machine)["elapsed_s"] < 30


@pytest.mark.slow
def test_endless_messages_do_not_fill_the_disk(machine: Machine) -> None:
    machine.run("run", "forging", *machine.plugin(), "--set", "action=endless_events", "--budget", "60s", code=1)
    summary = machine.newest()
    assert summary["status"] == "crashed" and summary["rows"] == 5
    assert summary["reason"] == ("the attack's process sent an invalid message: more than 128 MiB of messages.")
    assert (Path(summary["directory"]) / "run.db").stat().st_size < 200 * MIB


@pytest.mark.slow
def test_an_attack_that_fills_its_scratch_directory_is_ended(machine: Machine) -> None:
    machine.run("run", "disk_filling", *machine.plugin(), "--budget", "60s", code=1)
    summary = machine.newest()
    assert summary["status"] == "crashed" and summary["rows"] == 1
    assert summary["reason"] == "the attack wrote more than 4 GiB or 50,000 files into its scratch directory."
    assert not any(RunFolder(Path(summary["directory"])).path.rglob("first"))


def test_a_run_with_a_forged_target_event_can_be_shown(machine: Machine) -> None:
    machine.run("run", "forging", *machine.plugin(), "--set", "action=bare_target", code=1)
    summary = machine.newest()
    assert summary["status"] == "crashed" and "sent an invalid message" in summary["reason"]
    assert machine.json("show", summary["id"])["target_as_loaded"] is None


@pytest.mark.slow
def test_binary_output_is_harmless(machine: Machine) -> None:
    summary = _run_misbehaving(machine, "binary_output", code=0)
    assert summary["status"] == "finished"
    shown = machine.run("show", summary["id"], "--log").stdout
    assert "\x1b" not in shown and "\x07" not in shown


@pytest.mark.slow
def test_the_log_of_a_gigabyte_of_output_is_capped(machine: Machine) -> None:
    summary = _run_misbehaving(machine, "flood", code=0)
    assert summary["status"] == "finished" and summary["rows"] == 6
    log = RunFolder(Path(summary["directory"])).log
    assert log.stat().st_size <= CAP_BYTES
    content = log.read_bytes()
    assert b"earlier output was dropped here" in content
    assert content.endswith(b"the last line\n")


@pytest.mark.slow
def test_infinite_scores_are_ordered_first_and_last(machine: Machine) -> None:
    summary = _run_misbehaving(machine, "infinite", code=0)
    rows = Path(summary["submission"]).read_text().splitlines()[1:]
    assert rows[0].startswith("6,") and rows[-1].startswith("7,")


def test_a_remaining_thread_does_not_delay_the_end(machine: Machine) -> None:
    assert _run_misbehaving(machine, "thread_that_stays", code=0)["status"] == "finished"
    assert machine.newest()["elapsed_s"] < 30


@pytest.mark.slow
def test_a_forked_child_cannot_emit_guesses(machine: Machine) -> None:
    summary = _run_misbehaving(machine, "forked_child_that_emits", code=0)
    assert summary["status"] == "finished" and summary["guesses"] == 6


@pytest.mark.slow
def test_directories_without_permissions_are_deleted(machine: Machine) -> None:
    summary = _run_misbehaving(machine, "locked_folder", code=0)
    assert summary["status"] == "finished"
    assert not RunFolder(Path(summary["directory"])).scratch.exists()
    machine.run("runs", "rm", summary["id"])
    assert not Path(summary["directory"]).exists()


@pytest.mark.parametrize("action", first_is_fast(["hostile_words", "long_words"]))
def test_plugin_messages_are_sanitized(machine: Machine, action: str) -> None:
    process = machine.start("run", "misbehaving", *machine.plugin(), "--set", f"action={action}")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    shown = machine.run("show", "latest").stdout + machine.run("show", "latest", "--log").stdout
    shown += machine.run("list", "runs").stdout
    for text in (out, err, shown):
        assert not set(text) & set("\x1b\x07\u202e\r\0")
    summary = machine.json("show", "latest")
    assert summary["status"] == "crashed" and 20 < len(summary["reason"]) <= 500
    if action == "hostile_words":
        assert "[/bold] [/" in summary["reason"] and "�" in err


@pytest.mark.slow
def test_only_the_best_of_a_million_guesses_are_submitted(machine: Machine) -> None:
    write_round(machine.folder, "wide.toml", examples=1000, length=10, budget="120s")
    summary = machine.attack("million", round_="wide.toml")
    assert summary["status"] == "finished"
    assert (summary["guesses"], summary["rows"], summary["rows_left_out"]) == (1_000_000, 100_000, 900_000)
    rows = Path(summary["submission"]).read_bytes().splitlines()[1:]
    assert len(rows) == 100_000
    # The score of guess n is n and its example is n % 1000, so the last guess is first.
    assert [int(row.split(b",")[0]) for row in rows[:3]] == [999, 998, 997]
    assert int(rows[-1].split(b",")[0]) == 900_000 % 1000
    shown = machine.run("show", summary["id"]).stdout
    assert "900,000 rows beyond the row cap" in shown
    with RunReader(RunFolder(Path(summary["directory"])).store) as reader:
        ledger, points = reader.ledger(), reader.points()
    # The ledger is written once per second even during a long ranking. A busy machine may skip a second.
    pauses = [later.at - earlier.at for earlier, later in pairwise(ledger)]
    assert statistics.median(pauses) < 1.5
    assert points[-1].guesses == 1_000_000
    assert json.loads((Path(summary["directory"]) / "scorecard.json").read_text())["rows_left_out"] == 900_000
