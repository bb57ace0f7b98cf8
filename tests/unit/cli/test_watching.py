"""A run as a command follows it: its outcome, its exit code, its log."""

import dataclasses
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from harness.cli import watching
from harness.runs.folder import RunFolder
from harness.runs.reader import EtaBasis
from harness.runs.status import Status
from harness.runs.summary import run_summary
from tests.records import recorded_run
from tests.unit.cli.command_line import CommandLine


@pytest.mark.parametrize(
    ("phase", "code", "printed"),
    [
        ("finished", 0, "Recall@"),
        ("out_of_time", 3, "Recall@"),
        ("stopped", 3, "Recall@"),
        ("crashed", 1, ""),
    ],
)
def test_the_exit_code_says_how_the_run_ended(
    harness: CommandLine, home: Path, phase: str, code: int, printed: str
) -> None:
    run = recorded_run(home)
    run.guess(run.batch("0"), [(0, True, 1.0)])
    with run.store.transaction():
        run.store.add_point(spent=1.0, guesses=1, rows=1, solved=1, wrong=0, recall=0.5)
    run.supervised_by(1)
    run.event("phase", phase=phase, reason="")
    done = harness("watch", run.folder.id, "--plain")
    assert done.code == code
    assert done.out.startswith(printed) and bool(done.out) == bool(printed)
    assert harness("watch", run.folder.id, "--json").json["status"] == phase


def test_a_run_out_of_time_without_a_guess_is_incomplete(harness: CommandLine, home: Path) -> None:
    run = recorded_run(home)
    run.supervised_by(1)
    run.event("phase", phase="out_of_time", reason="It had emitted no guess.")
    assert harness("watch", run.folder.id, "--json").code == 3


def test_a_followed_log_does_not_split_characters(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded_run(home).folder
    text = "für 数\n"
    pieces = iter([text.encode()[index : index + 1] for index in range(len(text.encode()))])

    def append(_: float) -> None:
        with folder.log.open("ab") as log:
            log.write(next(pieces, b""))

    def statuses() -> Iterator[Status]:
        yield from [Status.RUNNING] * 20
        while True:
            yield Status.FINISHED

    status = statuses()
    monkeypatch.setattr(watching, "run_status", lambda _: next(status))
    monkeypatch.setattr(watching.time, "sleep", append)
    assert list(watching.log_lines(folder, follow=True)) == ["für 数"]


def test_a_run_without_a_guess_has_no_score_in_any_command(harness: CommandLine, home: Path) -> None:
    run = recorded_run(home)
    with run.store.transaction():
        run.store.add_point(spent=1.0, guesses=0, rows=0, solved=0, wrong=0, recall=0.0)
    scored = {"recall_at_cap": 0.0, "recall_interval": [0.0, 0.004], "recall_interval_unit": "cluster"}
    run.folder.scorecard.write_text(json.dumps(scored | {"exact_at_1": 0.0, "any_guess_correct": 0.0, "rows": 0}))
    run.supervised_by(1)
    run.event("phase", phase="crashed", reason="The attack raised an error.")
    for command in (("watch", "--plain"), ("show",)):
        done = harness(command[0], run.folder.id, *command[1:])
        assert "no score" in f"{done.out}{done.err}" and "0.00" not in f"{done.out}{done.err}", command
    (row,) = harness("list", "runs").out.splitlines()[1:]
    assert "  –  " in row and "0.00" not in row
    assert harness("show", run.folder.id, "--json").json["recall_at_cap"] == 0.0


def test_an_interrupt_ends_a_start_only_before_the_run_is_recorded(home: Path) -> None:
    started: list[str] = []
    with pytest.raises(KeyboardInterrupt), watching.interrupts_after_start("abcd-some"):
        signal.raise_signal(signal.SIGINT)
    with watching.interrupts_after_start("abcd-some") as is_interrupted:
        folder = recorded_run(home).folder
        signal.raise_signal(signal.SIGINT)
        started.append(folder.id)
    assert started == ["abcd-some"] and is_interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("detach", [True, False])
def test_a_run_that_was_started_when_the_start_was_interrupted_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], detach: bool
) -> None:
    def start() -> RunFolder:
        folder = recorded_run(home).folder
        signal.raise_signal(signal.SIGINT)
        return folder

    code = 0
    try:
        watching.start_and_follow("abcd-some", start, detach=detach, json=False)
    except typer.Exit as ending:
        code = ending.exit_code
    printed = capsys.readouterr()
    assert code == (0 if detach else 130)
    assert printed.out == ("abcd-some\n" if detach else "") and "harness watch abcd-some" in printed.err


def test_a_log_is_printed_as_json(harness: CommandLine, home: Path) -> None:
    folder = recorded_run(home).folder
    folder.log.write_text("one\ntwo\nthree\n")
    assert harness("show", folder.id, "--log", "--json").json["lines"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("basis", "eta", "words"),
    [
        (EtaBasis.MEASURED, 5.0, "ETA 0:05"),
        (EtaBasis.ESTIMATED, 5.0, "ETA about 0:05"),
        (EtaBasis.STAGE, 90.0, "ETA 1:30 for this stage (after the budget)"),
    ],
)
def test_the_eta_says_what_it_rests_on(home: Path, basis: EtaBasis, eta: float, words: str) -> None:
    summary = dataclasses.replace(run_summary(recorded_run(home).folder), eta_s=eta, eta_basis=basis)
    assert f" · {words} · " in watching.status_line(summary)


def test_the_status_line_names_the_error_cap(home: Path) -> None:
    run = recorded_run(home)
    line = watching.status_line(run_summary(run.folder))
    assert line.startswith(f"{run.folder.id} · ") and line.endswith("0 guesses · no score")
