"""`harness list runs`: filters, deletion, notes, tunings."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.files import try_lock
from harness.core.run_request import RunRequest
from harness.runs.folder import RunFolder
from harness.runs.queue import QueuePlace
from harness.supervisor.devices import Device
from harness.sweeps.tuning import TUNINGS, Tuning
from tests.records import change_spec, recorded_audit, recorded_run
from tests.unit.cli.command_line import CommandLine


def make_tuning(id_: str = "tttt-tune-greedy", attack: str = "greedy") -> Tuning:
    tuning = Tuning(
        id=id_,
        created_at=1.0,
        request=RunRequest(attack=attack, round="demo"),
        folds=("fold0of5", "fold1of5"),
        vary=(),
        runs=20,
        ray="none",
    )
    TUNINGS.write(tuning.id, tuning)
    return tuning


def ids(harness: CommandLine, *options: str) -> list[str]:
    return [run["id"] for run in harness("list", "runs", *options, "--json").json["runs"]]


def test_a_damaged_tuning_is_reported_and_the_others_are_listed(harness: CommandLine, home: Path) -> None:
    make_tuning()
    TUNINGS.file_of("uuuu-damaged").write_text("{")
    listed = harness("list", "tunings", "--json")
    assert [one["id"] for one in listed.json["tunings"]] == ["tttt-tune-greedy"] and "uuuu-damaged" in listed.err


def test_runs_are_filtered_by_status_attack_and_round(harness: CommandLine, home: Path) -> None:
    finished, lost = recorded_run(home, id_="aaaa-one"), recorded_run(home, id_="bbbb-two")
    for run, phase in ((finished, "finished"), (lost, "running")):
        run.supervised_by(1 if run is finished else 2)
        run.event("phase", phase=phase)
    summary = harness("show", "aaaa", "--json").json
    assert ids(harness, "--status", "finished") == ["aaaa-one"]
    assert set(ids(harness, "--attack", summary["attack"])) == {"aaaa-one", "bbbb-two"}
    assert ids(harness, "--attack", "greedy") == ids(harness, "--round", "demo") == []
    assert set(ids(harness, "--round", summary["round"])) == {"aaaa-one", "bbbb-two"}
    assert len(ids(harness, "--limit", "1")) == 1
    done = harness("list", "runs", "--status", "done")
    assert done.code == 2 and "unknown status 'done'" in done.err


def test_warnings_and_the_step_of_an_open_batch_are_shown(harness: CommandLine, home: Path) -> None:
    run = recorded_run(home, id_="aaaa-one")
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    run.event("worker_warning", sentence="2 of 6 prefixes begin with token 0.")
    batch, attempt = run.batch("all/0/0")
    with run.store.transaction():
        run.store.add_plan("all", 16.0)
        run.store.set_step(batch, attempt, 0.5, "8 prefixes, token 25 of 50")
    shown = harness("show", "aaaa").out
    assert "warning       2 of 6 prefixes begin with token 0." in shown
    assert "8 prefixes, token 25 of 50" in shown


def test_runs_are_filtered_by_tag_and_group(harness: CommandLine, home: Path) -> None:
    one, two = ended_run(home), ended_run(home, "bbbb-two")
    change_spec(two, parent="sweep")
    harness("runs", "tag", one.id, "good", "fast")
    harness("runs", "tag", two.id, "good")
    assert set(ids(harness, "--tag", "good")) == {one.id, two.id}
    assert ids(harness, "--tag", "good", "--tag", "fast") == [one.id]
    assert ids(harness, "--group", "sweep") == [two.id]
    assert harness("list", "runs", "--tag", "other").err == "no run matches.\n"
    assert "fast good" in harness("list", "runs").out


def test_tags_are_added_removed_and_printed(harness: CommandLine, home: Path) -> None:
    folder = ended_run(home)
    assert harness("runs", "tag", folder.id, "b", "a", "--json").json["tags"] == ["a", "b"]
    assert harness("runs", "tag", folder.id, "b", "--remove").out == ""
    assert harness("runs", "tag", folder.id).out == "a\n"
    assert "a" in next(line for line in harness("show", folder.id).out.splitlines() if line.startswith("tags"))
    refused = harness("runs", "tag", folder.id, "not valid")
    assert refused.code == 2 and "'not valid' is not a tag" in refused.err


def test_the_table_and_show_name_the_parameters_that_were_changed(harness: CommandLine, home: Path) -> None:
    folder = recorded_run(home).folder
    params = {"trials": 4, "rate": 0.5, "mode": None, "text": "\x1b" * 100}
    change_spec(folder, params=params, changed=["trials", "mode", "text", "gone"])
    row = harness("list", "runs").out.splitlines()[1]
    assert "  some trials=4 mode=none text=\ufffd" in row and "…" in row and "rate" not in row
    assert "not default   trials=4, mode=none, text=" in harness("show", folder.id).out
    assert harness("list", "runs", "--json").json["runs"][0]["changed"] == {
        "trials": 4,
        "mode": None,
        "text": "\x1b" * 100,
    }


def test_rm_asks_in_a_terminal(harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ended_run(home)
    monkeypatch.setattr("harness.cli.runs.is_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: (_ for _ in ()).throw(EOFError))
    assert harness("runs", "rm", folder.id).code == 1
    assert folder.path.exists()
    assert harness("runs", "rm", folder.id, "--yes").code == 0
    assert not folder.path.exists()


def test_rm_keeps_a_run_that_is_alive(harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded_run(home)
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    assert "is still running" in harness("runs", "rm", run.folder.id).err
    # A run that does not stop is not deleted, even with --force.
    monkeypatch.setattr("harness.cli.runs.stop_run", lambda _: None)
    monkeypatch.setattr("harness.runs.folder._DELETE_SECONDS", 0.2)
    done = harness("runs", "rm", run.folder.id, "--force")
    assert done.code == 1 and "was not deleted" in done.err
    assert run.folder.spec_file.exists()


def ended_run(home: Path, id_: str = "aaaa-one") -> RunFolder:
    run = recorded_run(home, id_=id_)
    run.supervised_by(1)
    run.event("phase", phase="finished")
    return run.folder


def test_tunings_are_listed_shown_and_deleted_with_their_runs(harness: CommandLine, home: Path) -> None:
    tuning, folder, other = make_tuning(), ended_run(home), ended_run(home, "bbbb-two")
    change_spec(folder, parent=tuning.id)
    (listed,) = harness("list", "tunings", "--json").json["tunings"]
    assert (listed["id"], listed["attack"], listed["round"], listed["runs"]) == (tuning.id, "greedy", "demo", 1)
    assert tuning.id in harness("list", "tunings").out
    done = harness("runs", "rm", "tttt", "--json")
    assert done.json["removed"] == [folder.id, tuning.id]
    assert not folder.path.exists() and other.path.exists()
    assert harness("list", "tunings", "--json").json["tunings"] == []


def test_a_beginning_of_a_run_and_of_a_tuning_is_ambiguous(harness: CommandLine, home: Path) -> None:
    make_tuning("aaaa-tune")
    ended_run(home)
    assert "matches several runs: aaaa-one, aaaa-tune" in harness("show", "aaaa").err


@pytest.mark.parametrize(
    "command",
    [
        "resume aaaa --runs 3",
        "resume aaaa --ray none",
        "resume tttt --seed 1",
        "show tttt --log",
        "show demo --example 1",
        "show aaaa --redact",
        "show aaaa --baseline x",
        "show aaaa --probabilities",
    ],
)
def test_an_option_of_another_kind_is_a_usage_error(harness: CommandLine, home: Path, command: str) -> None:
    make_tuning()
    ended_run(home)
    done = harness(*command.split())
    assert done.code == 2 and command.split()[2] in done.err


def test_a_name_of_a_round_and_of_an_attack_is_ambiguous(
    harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness("new", "attack", "demo", "--dir", "attacks")
    done = harness("show", "demo")
    assert done.code == 1 and "demo is a round and an attack" in done.err
    assert harness("show", "demo", "--attacks", "attacks").out.startswith("demo\n")


def test_latest_is_the_newest_of_the_kind_that_a_command_needs(harness: CommandLine, home: Path) -> None:
    tuning, folder = make_tuning(attack="removed"), ended_run(home)
    assert harness("show", "latest", "--json").json["id"] == folder.id
    assert "there is no audit yet" in harness("audit", "compare", "--run", "latest").err
    assert "there is no audit yet" in harness("show", "latest", "--redact").err
    assert "needs a sweep, and there is none yet" in harness("show", "latest", "--baseline", "a").err
    assert "unknown attack 'removed'" in harness("resume", "latest", "--runs", "9").err
    change_spec(folder, parent=tuning.id)
    folder.code.mkdir()
    (folder.code / "some.py").write_text("")
    assert "unknown attack 'removed'" in harness("resume", "latest").err
    assert harness("watch", "latest", "--json").json["id"] == folder.id


@pytest.mark.parametrize(
    ("device", "gpus", "is_absent"),
    [("cuda", 1, False), ("cuda:1", 2, False), ("cuda:7", 1, True), ("cpu", 0, False)],
)
def test_a_gpu_that_is_absent_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, device: str, gpus: int, is_absent: bool
) -> None:
    from harness.cli import resolving

    monkeypatch.setattr(resolving, "visible_gpus", lambda: [Device(f"cuda:{number}") for number in range(gpus)])
    if not is_absent:
        assert resolving.usable_device(device) == device
        return
    with pytest.raises(HarnessError, match="--device: cuda:7 is not available: the NVIDIA driver shows cuda:0"):
        resolving.usable_device(device)


def test_a_gpu_that_nvml_does_not_list_is_accepted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import resolving

    monkeypatch.setattr(resolving, "visible_gpus", list)
    monkeypatch.setattr(resolving, "GPU_NODES", [(home, "kfd")])
    with pytest.raises(HarnessError, match="--device: cuda is not available: the NVIDIA driver shows no GPU"):
        resolving.usable_device("cuda")
    (home / "kfd").touch()
    assert resolving.usable_device("cuda") == "cuda"


def test_a_tuning_is_resumed_by_a_beginning_of_its_id(harness: CommandLine, home: Path) -> None:
    make_tuning(attack="absent")
    assert "unknown attack 'absent'" in harness("resume", "tttt").err
    make_tuning("tttt-tune-other")
    assert "'tttt' matches several runs" in harness("resume", "tttt").err


def test_a_tuning_is_shown_without_the_file_of_its_attack(harness: CommandLine, home: Path) -> None:
    tuning, run = make_tuning(attack="removed"), recorded_run(home)
    run.folder.code.mkdir(exist_ok=True)
    source = "from harness import Attack, Field, Params\n\n\nclass P(Params):\n    n: int = Field(2, ge=1, le=3)\n\n\n"
    source += 'class Removed(Attack[P]):\n    name = "removed"\n\n    def run(self, context):\n        yield\n'
    (run.folder.code / run.folder.attack_spec().attack.file).write_text(source)
    change_spec(run.folder, parent=tuning.id, params={"n": 3})
    (setting,) = harness("show", tuning.id, "--json").json["settings"]
    assert setting["params"] == {"n": 3}
    assert harness("show", tuning.id).out.split()[0] == "n"


def test_no_tunings_and_no_runs_of_a_tuning_are_one_sentence(harness: CommandLine, home: Path) -> None:
    assert harness("list", "tunings").err == "no tunings yet. `harness tune ATTACK` starts one.\n"
    assert harness("show", make_tuning(attack="removed").id).err.startswith("tttt-tune-greedy has no runs.")


def test_shell_completion_offers_runs_and_tunings(home: Path) -> None:
    from harness.cli.completion import record_names

    make_tuning()
    ended_run(home)
    assert record_names("") == ["latest", "aaaa-one", "tttt-tune-greedy"]
    assert record_names("tt") == ["tttt-tune-greedy"]


def test_the_settings_are_defaults_of_the_command_line(home: Path) -> None:
    from harness.cli.resolving import chosen_device

    assert (RunRequest().round, RunRequest(round="small").round) == ("demo", "small")
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text('round = "satml-dev"\ndevice = "cuda:3"\n')
    assert (RunRequest().round, RunRequest(round="small").round) == ("satml-dev", "small")
    assert (chosen_device("auto"), chosen_device("cpu")) == ("cuda:3", "cpu")
    (home / "config" / "config.toml").write_text('device = "gpu0"\nround = "demmo"\n')
    with pytest.raises(HarnessError, match="line 2: round: unknown round 'demmo'"):
        RunRequest()
    with pytest.raises(HarnessError, match="line 1: device: use auto, cpu, cuda or cuda:N"):
        chosen_device("auto")


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
    listed = harness("list", "queue", "--json").json["queue"]
    assert [(run["id"], run["queue_position"], run["wait_at_most_s"]) for run in listed] == [
        (IDS[0], 1, 0.0),
        (IDS[1], 2, 60.0),
        (IDS[2], 3, 120.0),
    ]
    header, *rows = harness("list", "queue").out.splitlines()
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


@pytest.mark.parametrize("arguments", [("aaaa",), ("aaaa", "--first", "--last")])
@pytest.mark.usefixtures("waiting")
def test_a_move_needs_one_run_and_one_direction(harness: CommandLine, arguments: tuple[str, ...]) -> None:
    done = harness("runs", "queue", *arguments)
    assert done.code == 2 and "give one of --first" in " ".join(done.err.split())


def test_an_empty_queue_is_one_sentence_and_moves_nothing(harness: CommandLine, home: Path) -> None:
    recorded_run(home)
    assert harness("list", "queue").err == "no run waits for a device.\n"
    refused = harness("runs", "queue", "abcd", "--up")
    assert refused.code == 1 and "abcd-some does not wait for a device" in refused.err


@pytest.mark.usefixtures("waiting")
def test_shell_completion_offers_queued_runs_in_order() -> None:
    from harness.cli.completion import queued_run_names

    assert queued_run_names("") == list(IDS) and queued_run_names("b") == [IDS[1]]


def test_the_list_of_runs_names_an_audit_at_work(harness: CommandLine, home: Path) -> None:
    audit = recorded_audit(pid=None)
    try:
        audit.supervised_by(os.getpid())
        audit.event("phase", phase="running", reason="")
        recorded_run(home, id_="aaaa-over").event("phase", phase="finished", reason="")
        shown = harness("list", "runs")
        assert "aaaa-over" in shown.out and "abcd-sequence-corpus is an audit at work" in shown.err
    finally:
        audit.release()
