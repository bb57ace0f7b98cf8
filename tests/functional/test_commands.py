"""`harness run` and the commands on a run: output, exit codes, and closed terminals."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from tests.functional.machine import PLUGINS, Machine, guess_count, processes_that_name, wait_until, write_round

KEYS = {
    "id",
    "status",
    "reason",
    "attack",
    "round",
    "recall_at_cap",
    "guesses",
    "elapsed_s",
    "budget_s",
    "directory",
    "submission",
}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, list[dict[str, Any]]]:
    """A machine with two finished runs that tests only read, and their summaries."""
    folder = tmp_path_factory.mktemp("listed")
    write_round(folder)
    machine = Machine(folder)
    return machine, [machine.attack("draws", "--set", "pause=0") for _ in range(2)]


def _in_terminal(machine: Machine, *arguments: str) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a command in a terminal. Return the process and a descriptor that closes the terminal."""
    terminal, command_side = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(command_side, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments],
        stdin=command_side,
        stdout=command_side,
        stderr=command_side,
        cwd=machine.folder,
        env=machine.env() | {"TERM": "xterm"},
        preexec_fn=take_terminal,
    )
    os.close(command_side)
    return process, terminal


def _read_until(terminal: int, text: bytes) -> bytes:
    """Return the output of the terminal up to `text`."""
    shown = b""
    until = time.monotonic() + 120
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
        assert ready, shown
        shown += os.read(terminal, 1 << 12)
    return shown


def test_run_and_show_print_one_line_of_json(listed: tuple[Machine, list[dict[str, Any]]]) -> None:
    machine, (summary, _) = listed
    shown = machine.json("show", summary["id"])
    assert set(summary) >= KEYS and set(shown) >= KEYS
    assert {key: shown[key] for key in KEYS} == {key: summary[key] for key in KEYS}
    assert (summary["status"], summary["reason"], summary["attack"], summary["round"]) == (
        "finished",
        "",
        "draws",
        "small",
    )
    assert summary["budget_s"] == 60 and 0 < summary["elapsed_s"] < 60
    assert Path(summary["submission"]) == Path(summary["directory"]) / "submission.csv"
    assert Path(summary["directory"]).stat().st_mode & 0o777 == 0o700
    # The store is a single file once the run has ended.
    assert not list(Path(summary["directory"]).glob("run.db-*"))


@pytest.mark.slow
def test_a_detached_run_can_be_observed_at_once(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.mkdir()
    folder = machine.detached("draws", "--set", f"gate={gate}")
    assert machine.summary(folder)["status"] in ("starting", "running")
    assert [row["id"] for row in machine.json_list("list", "runs")] == [folder.id]
    (gate / "open").touch()
    finished = machine.json("watch", folder.id)
    assert finished["status"] == "finished" and finished["progress"] == 1.0


@pytest.mark.slow
def test_closing_terminals_does_not_affect_a_run(machine: Machine) -> None:
    reference = machine.attack("draws", "--set", "pause=0")
    gate = machine.folder / "gate"
    gate.mkdir()
    starter, window = _in_terminal(machine, "run", "draws", *machine.plugin(), "--set", f"gate={gate}")
    _read_until(window, b"running")
    folder = RunFolder(next(path.path for path in machine.folders() if path.id != reference["id"]))
    watchers = [_in_terminal(machine, "watch", "--plain", folder.id) for _ in range(3)]
    for _, terminal in watchers:
        _read_until(terminal, b"guesses")
    os.close(window)
    starter.wait(timeout=60)
    watchers[0][0].send_signal(signal.SIGINT)
    assert b"continues" in _read_until(watchers[0][1], b"stops it.")
    assert watchers[0][0].wait(timeout=10) == 130
    watchers[1][0].kill()
    os.close(watchers[2][1])
    for process, _ in watchers:
        process.wait(timeout=60)
    assert not run_status(folder).is_over
    (gate / "open").touch()
    assert machine.json("watch", folder.id)["status"] == "finished"
    assert folder.submission.read_bytes() == Path(reference["submission"]).read_bytes()


@pytest.mark.slow
def test_killing_the_starting_command_does_not_affect_its_run(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.mkdir()
    starter = machine.start("run", "draws", *machine.plugin(), "--set", f"gate={gate}")
    (folder,) = wait_until(lambda: [f for f in machine.folders() if f.store.exists() and guess_count(f)])
    starter.kill()
    starter.communicate(timeout=60)
    (gate / "open").touch()
    assert machine.json("watch", folder.id)["status"] == "finished"


def test_a_stopped_run_keeps_its_guesses(machine: Machine) -> None:
    folder = machine.detached("patient")
    wait_until(lambda: guess_count(folder) > 0)
    stopped = machine.json("stop", folder.id)
    assert (stopped["status"], stopped["reason"]) == ("stopped", "it was stopped.")
    assert stopped["rows"] > 0
    assert machine.json("stop", folder.id)["status"] == "stopped"
    assert "not guaranteed: it ended stopped" in machine.run("show", folder.id).stdout


def test_runs_are_listed_noted_and_removed(machine: Machine) -> None:
    assert "no runs yet" in machine.run("list", "runs").stderr
    first = machine.executed("draws", "--set", "pause=0")
    second = machine.detached("patient")
    machine.run("runs", "note", first.id, "a \x1b[31mnote\nin two lines")
    listing = machine.run("list", "runs").stdout
    assert "\x1b" not in listing and "a �[31mnote⏎in two lines" in listing
    assert len(listing.splitlines()) == 3 and listing.splitlines()[1].startswith(second.id)
    assert machine.run("runs", "note", first.id).stdout == "a �[31mnote⏎in two lines\n"
    refused = machine.run("runs", "rm", second.id, code=1)
    assert f"`harness stop {second.id}` stops it, or use --force" in refused.stderr
    machine.run("runs", "rm", second.id, first.id[:4], "--force")
    assert machine.json_list("list", "runs") == [] and list(machine.runs.iterdir()) == []
    wait_until(lambda: not processes_that_name(str(second.path)))


def test_logs_show_what_the_worker_printed(machine: Machine) -> None:
    plugins = machine.folder / "command_side"
    plugins.mkdir()
    source = (PLUGINS / "patient.py").read_text()
    (plugins / "patient.py").write_text(source.replace("time.sleep(0.1)", "print('batch', batch.ids[0], '\\x1b[2J')"))
    options = ("--attacks", str(plugins), "--round", str(machine.folder / "round.toml"), "--limit", "8")
    summary = machine.json("run", "patient", *options)
    lines = machine.run("show", summary["id"], "--log").stdout.splitlines()[-2:]
    assert lines == ["batch 6 �[2J", "batch 7 �[2J"]
    assert machine.run("watch", summary["id"], "--log").stdout.splitlines(keepends=True)[-1] == "batch 7 �[2J\n"


def test_export_writes_the_submission_or_every_guess(listed: tuple[Machine, list[dict[str, Any]]]) -> None:
    machine, (summary, _) = listed
    out = machine.folder / "out.csv"
    machine.run("export", summary["id"], "--out", str(out))
    assert out.read_bytes() == Path(summary["submission"]).read_bytes()
    assert "--force replaces it" in machine.run("export", summary["id"], "--out", str(out), code=1).stderr
    assert machine.run("export", summary["id"], "--out", "-").stdout.encode() == out.read_bytes()
    every = machine.folder / "every.jsonl"
    machine.run("export", summary["id"], "--all", "--out", str(every))
    rows = [json.loads(line) for line in every.read_text().splitlines()]
    assert len(rows) > summary["rows"]
    assert set(rows[0]) == {"example", "score", "suffix", "trial"} and len(rows[0]["suffix"]) == 8
    assert len({(row["example"], tuple(row["suffix"])) for row in rows}) == len(rows)


def test_a_dry_run_starts_nothing(machine: Machine) -> None:
    spec = machine.attack("draws", "--dry-run", "--limit", "10", "--set", "trials=7", "--budget", "2h")
    assert (spec["attack"], spec["examples"], spec["round_examples"], spec["budget_s"]) == ("draws", 10, 64, 7200)
    assert spec["params"]["trials"] == 7 and "schema_version" in spec
    printed = machine.run("run", "draws", *machine.plugin(), "--dry-run", "--limit", "10", "--budget", "2h").stdout
    facts = dict(line.split(maxsplit=1) for line in printed.splitlines())
    assert (facts["round"].strip(), facts["attacked"].strip()) == ("small", "10 of 64 examples")
    assert facts["budget"] == "2:00:00"
    assert not machine.runs.exists()


def test_a_limit_attacks_only_the_first_examples(machine: Machine) -> None:
    summary = machine.attack("draws", "--set", "pause=0", "--limit", "10")
    rows = Path(summary["submission"]).read_text().splitlines()[1:]
    assert {int(row.split(",")[0]) for row in rows} == set(range(10))
    assert summary["is_partial"] and summary["error_cap"] == 16
    assert "(a part of the round)" in machine.run("show", summary["id"]).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "drawz"), ("unknown attack 'drawz'", "did you mean draws?")),
        (("run", "draws", "--round", "demmo"), ("unknown round 'demmo'", "did you mean demo?")),
        (("run", "greedy", "--target", "demo"), ("predicts 384 tokens and the round has 50,257",)),
        (
            ("run", "draws", "--set", "file=/nowhere/at/all"),
            ("no such file or directory: /nowhere/at/all. Check the path.",),
        ),
        (("run", "greedy", "--device", "cuda:99"), ("--device: cuda:99 is not available",)),
        (("export", "latest", "--out", "a.parquet"), ("there is no run yet",)),
        (("run", "\x1b[31mred"), ("unknown attack",)),
        (("show", "nothing"), ("unknown name 'nothing'", "`harness list KIND` lists them")),
        (("watch", "latest"), ("there is no run yet",)),
        (("resume", "zzzz"), ("unknown run 'zzzz'",)),
    ],
)
def test_an_invalid_argument_gives_one_line_with_a_suggestion(
    machine: Machine, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    options: tuple[str, ...] = ()
    if arguments[0] == "run":
        options = machine.plugin()[:2] if "--round" in arguments else machine.plugin()
    done = machine.run(*arguments, *options, code=2 if words[0].startswith("unknown ") else 1)
    assert done.stdout == "" and done.stderr.startswith("harness: ")
    assert len(done.stderr.splitlines()) == 1 and "\x1b" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("draws", "--set", "trails=3"), "harness: --set: unknown parameter 'trails': did you mean trials?"),
        (("draws", "--set", "trials=many"), "harness: --set: trials: must be a whole number, got 'many'"),
        (("draws", "--set", "trials"), "--set: expected NAME=VALUE, got 'trials'."),
        (("draws", "--budget", "soon"), "--budget: 'soon' is not a duration"),
        (("draws", "--target", "gpt2"), "harness: --target: draws does not use a target. Remove --target."),
        (("draws", "--device", "cpu"), "harness: --device: draws does not use a target. Remove --device."),
        (("greedy", "--device", "gpu0"), "harness: --device: unknown device 'gpu0'."),
        (("greedy", "--threads", "99999"), "--threads: must be at most 4096"),
        (("greedy", "--dtype", "float8"), "--dtype: "),
    ],
)
def test_a_bad_value_of_an_option_is_a_usage_error(machine: Machine, options: tuple[str, ...], sentence: str) -> None:
    done = machine.run("run", *options, *machine.plugin(), code=2)
    assert done.stdout == "" and sentence in done.stderr
    assert machine.folders() == []


def test_a_run_can_be_named_by_a_unique_prefix(machine: Machine) -> None:
    ids = [machine.executed("draws", "--set", "pause=0").id for _ in range(2)]
    assert machine.json("show", ids[0][:4])["id"] == ids[0]
    assert machine.json("show", "latest")["id"] == ids[1]
    near = machine.run("show", ids[0][:-1] + "x", code=2).stderr
    assert f"did you mean {ids[0]}" in near or ids[0] in near


def test_a_blind_round_has_counts_and_no_score(machine: Machine) -> None:
    path = machine.folder / "round.toml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "answer_file" not in line))
    summary = machine.attack("draws", "--set", "pause=0")
    assert summary["status"] == "finished" and summary["is_blind"]
    assert summary["recall_at_cap"] is None and summary["rows"] == 128
    assert "blind round" in machine.run("show", "latest").stdout
    machine.run("score", summary["submission"], "--round", str(path))
    answers = machine.folder / "answer-64.npy"
    scored = machine.json("score", summary["id"], "--answers", str(answers))
    assert scored["examples"] == 64 and scored["recall_at_cap"] == 0.0


@pytest.mark.slow
def test_the_score_of_a_run_equals_that_of_its_submission(machine: Machine) -> None:
    write_round(machine.folder, examples=64)
    answers = machine.folder / "answer-64.npy"
    prefixes = np.load(machine.folder / "prefix-64.npy")
    known = np.load(answers)
    known[::3] = prefixes[::3]
    np.save(answers, known)
    summary = machine.attack("patient", "--limit", "64", "--budget", "12s", code=3)
    scored = machine.json("score", summary["submission"], "--answers", str(answers))
    assert summary["recall_at_cap"] == scored["recall_at_cap"] == pytest.approx(22 / 64)
    with RunReader(RunFolder(Path(summary["directory"])).store) as reader:
        last = reader.points()[-1]
    assert last.recall == scored["recall_at_cap"]


@pytest.mark.slow
def test_runs_with_a_target_wait_for_the_device_unless_they_share_it(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.mkdir()
    holding = ("holding", "--attacks", str(PLUGINS), "--set", f"gate={gate}")
    options = (*holding, "--round", "demo", "--target", "demo-tiny", "--limit", "16", "--budget", "5m", "--detach")
    first, second, third = (RunFolder(Path(machine.json("run", *options)["directory"])) for _ in range(3))
    wait_until(lambda: str(run_status(second)) == str(run_status(third)) == "queued")
    assert machine.summary(second)["elapsed_s"] == 0
    shared = RunFolder(Path(machine.json("run", *options, "--share-device")["directory"]))
    stopped = machine.json("stop", third.id)
    assert (stopped["status"], stopped["reason"]) == ("stopped", "it was stopped before it started.")
    (gate / "open").touch()
    spans = []
    for folder in (first, second):
        assert machine.json("watch", folder.id)["status"] == "finished"
        with RunReader(folder.store) as reader:
            ledger = reader.ledger()
        spans.append((ledger[0].at, ledger[-1].at))
    assert spans[0][1] <= spans[1][0]
    assert machine.json("watch", shared.id)["status"] == "finished"
    with RunReader(shared.store) as reader:
        assert "queued" not in {detail["phase"] for _, _, name, detail in reader.events() if name == "phase"}
    assert shared.submission.read_bytes() == first.submission.read_bytes()


def test_fewer_answers_than_prefixes_are_refused(machine: Machine) -> None:
    answers = machine.folder / "answer-64.npy"
    np.save(answers, np.load(answers)[:-1])
    refused = machine.run("run", "draws", *machine.plugin(), code=1)
    assert "63 answers for 64 prefixes" in refused.stderr
    assert machine.folders() == []


def test_the_error_cap_of_a_fold_is_proportional_to_its_examples(machine: Machine) -> None:
    options = ("--attacks", str(PLUGINS), "--round", f"{machine.folder / 'round.toml'}:fold0of4")
    summary = machine.json("run", "draws", *options, "--set", "pause=0")
    assert (summary["is_blind"], summary["error_cap"]) == (False, 25)


def test_export_refuses_an_invalid_path(machine: Machine) -> None:
    machine.executed("draws", "--set", "pause=0")
    assert "a submission is a .csv file" in machine.run("export", "latest", "--out", "a.parquet", code=2).stderr
    assert "is a directory" in machine.run("export", "latest", "--out", ".", "--all", "--force", code=1).stderr
    assert "no such directory" in machine.run("export", "latest", "--out", "/nowhere/a.csv", code=1).stderr


@pytest.mark.slow
def test_a_damaged_run_hides_no_other_run(machine: Machine) -> None:
    intact, folder = (machine.executed("draws", "--set", "pause=0", "--limit", "8") for _ in range(2))
    for detail in ("{}", '{"phase": []}', '{"phase": "odd"}', "[]"):
        with contextlib.closing(sqlite3.connect(folder.store)) as db, db:
            db.execute("UPDATE event SET detail = ? WHERE name = 'phase'", (detail,))
        listed = machine.run("list", "runs")
        assert intact.id in listed.stdout and folder.id not in listed.stdout
        assert listed.stderr.startswith(f"harness: {folder.id}: {folder.path}") and "cannot be read" in listed.stderr
        assert "internal error" not in machine.run("show", folder.id, code=1).stderr


def test_a_damaged_scorecard_can_be_deleted_and_restored(machine: Machine) -> None:
    summary = machine.attack("draws", "--set", "pause=0")
    scorecard = RunFolder(Path(summary["directory"])).scorecard
    scorecard.write_text('{"recall_at_cap": "high"}')
    refused = machine.run("show", summary["id"], code=1).stderr
    assert refused.startswith(f"harness: {scorecard}: cannot be read. Delete it") and "Traceback" not in refused
    scorecard.unlink()
    assert machine.json("show", summary["id"])["recall_at_cap"] == summary["recall_at_cap"]
    assert f"harness score {summary['id']}" in refused
    assert machine.json("score", summary["id"])["recall_at_cap"] == summary["recall_at_cap"]


def test_runs_are_stored_in_the_home_option(machine: Machine) -> None:
    home = machine.folder / "elsewhere"
    absent = machine.run("--home", str(home), "list", "runs", code=1).stderr
    assert absent.startswith(f"harness: no such directory of --home or HARNESS_HOME: {home}.")
    done = machine.run("--home", str(home), "run", "draws", *machine.plugin(), "--set", "pause=0", "--json")
    assert json.loads(done.stdout)["directory"].startswith(str(home / "runs"))
