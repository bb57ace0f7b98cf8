"""One run on several devices: the bytes of one device, also when workers are killed, and the faults of one worker."""

import random
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from harness.runs.folder import RunFolder
from harness.runs.launch import resume_run
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from tests.functional.machine import (
    Machine,
    guess_count,
    kill_supervisor,
    kill_worker,
    processes_that_name,
    wait_until,
)
from tests.tools.tiers import first_is_fast

TWO = ("--devices", "cpu:2")


def _events(folder: RunFolder, wanted: str) -> list[dict[str, Any]]:
    with RunReader(folder.store) as reader:
        return [detail for _, _, name, detail in reader.events() if name == wanted]


def _expected_bytes(machine: Machine) -> bytes:
    """Return the submission of `draws` on one device."""
    return machine.executed("draws", "--set", "pause=0").submission.read_bytes()


def _submission_at_end(folder: RunFolder) -> bytes:
    wait_until(lambda: run_status(folder).is_over)
    assert str(run_status(folder)) == "finished"
    return folder.submission.read_bytes()


def test_two_workers_give_the_bytes_of_one(machine: Machine) -> None:
    summary = machine.attack("draws", "--set", "pause=0.1", *TWO)
    folder = RunFolder(Path(summary["directory"]))
    assert summary["status"] == "finished" and summary["progress"] == 1.0
    assert folder.submission.read_bytes() == _expected_bytes(machine)
    assert len(_events(folder, "worker")) == 2
    assert not folder.shared.exists() and not folder.scratch.exists()
    with RunReader(folder.store) as reader:
        attempts = reader.query("SELECT attempt FROM attempt JOIN batch USING (batch) WHERE key != ''")
    assert {attempt for (attempt,) in attempts} == {1}, "a batch was run twice"


@pytest.mark.slow
def test_two_workers_run_batches_at_the_same_time(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.mkdir()
    folder = machine.detached("draws", "--set", f"gate={gate}", *TWO)

    def begun() -> int:
        with RunReader(folder.store) as reader:
            return reader.row_count("attempt")

    # Each worker waits in its first batch until the gate contains a file.
    wait_until(lambda: begun() == 2)
    (gate / "open").touch()
    assert _submission_at_end(folder) == _expected_bytes(machine)


@pytest.mark.parametrize("worker", first_is_fast([0, 1]))
def test_a_killed_worker_is_started_again(machine: Machine, worker: int) -> None:
    folder = machine.detached("draws", "--set", "pause=0.3", *TWO)
    wait_until(lambda: guess_count(folder) > 0)
    assert wait_until(lambda: kill_worker(folder, worker))
    assert _submission_at_end(folder) == _expected_bytes(machine)
    (restarted,) = _events(folder, "worker_restarted")
    assert restarted["worker"] == worker and "was killed by SIGKILL" in restarted["reason"]
    assert len(_events(folder, "worker")) == 3
    assert f"worker {worker} was started again" in machine.run("show", folder.id).stdout


@pytest.mark.slow
def test_the_second_death_of_a_worker_ends_the_run(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=5", *TWO)
    wait_until(lambda: len(_events(folder, "worker")) == 2)
    assert wait_until(lambda: kill_worker(folder, 1))
    wait_until(lambda: len(_events(folder, "worker")) == 3)
    wait_until(lambda: kill_worker(folder, 1))
    wait_until(lambda: run_status(folder).is_over)
    summary = machine.summary(folder)
    assert summary["status"] == "crashed" and "was killed by SIGKILL" in summary["reason"]
    wait_until(lambda: not processes_that_name(str(folder.path)))


@pytest.mark.slow
def test_a_randomly_killed_run_ends_with_the_same_bytes(machine: Machine) -> None:
    expected, rng = _expected_bytes(machine), random.Random(4)
    folder = machine.detached("draws", "--set", "pause=0.3", *TWO)
    for _ in range(5):
        time.sleep(rng.uniform(0.0, 1.0))
        if run_status(folder).is_over:
            break
        if rng.random() < 0.5:
            kill_worker(folder, rng.randrange(2))
        else:
            kill_supervisor(folder)
            wait_until(lambda: run_status(folder).is_over)
        if run_status(folder).is_over and str(run_status(folder)) != "finished":
            resume_run(folder, weights_sha256=())
    wait_until(lambda: run_status(folder).is_over)
    if str(run_status(folder)) != "finished":
        resume_run(folder, weights_sha256=())
    assert _submission_at_end(folder) == expected


@pytest.mark.slow
def test_a_stopped_run_continues(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.4", *TWO)
    wait_until(lambda: guess_count(folder) > 0)
    assert machine.json("stop", folder.id)["status"] == "stopped"
    machine.run("resume", folder.id)
    assert _submission_at_end(folder) == _expected_bytes(machine)


@pytest.mark.slow
def test_a_killed_supervisor_leaves_no_process(machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = machine.detached("unkillable", "--set", f"marker={marker}", *TWO)
    wait_until(lambda: len(processes_that_name(marker)) >= 16)
    kill_supervisor(folder)
    wait_until(lambda: not processes_that_name(marker))
    wait_until(lambda: not processes_that_name(str(folder.scratch)))
    assert str(run_status(folder)) == "lost"


@pytest.mark.slow
def test_unkillable_workers_end_at_the_deadline(machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    summary = machine.attack("unkillable", "--set", f"marker={marker}", "--budget", "8s", *TWO, code=3)
    assert summary["status"] == "out_of_time" and summary["elapsed_s"] == 8.0
    assert processes_that_name(marker) == []


@pytest.mark.slow
def test_the_budget_is_that_of_the_run(machine: Machine) -> None:
    summary = machine.attack("patient", "--budget", "6s", *TWO, code=3)
    assert summary["reason"] == "its budget ended before its work did; it finished early as asked."
    assert 5.7 <= summary["elapsed_s"] < 6.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "action", "words"),
    first_is_fast(
        [
            ("misbehaving", "raises", "the attack raised ValueError at misbehaving.py:"),
            ("misbehaving", "silent_exit", "the attack's process exited with code 0 before its end."),
            ("forging", "rubbish", "the attack's process sent an invalid message: bytes that do not begin a frame."),
            ("forging", "close", "the attack's process closed the pipe of its results."),
            ("disk_filling", "", "the attack wrote more than 4 GiB or 50,000 files into its scratch directory."),
        ]
    ),
)
def test_the_faults_of_one_worker_end_the_run_of_two(machine: Machine, plugin: str, action: str, words: str) -> None:
    options = ("--set", f"action={action}") if action else ()
    machine.run("run", plugin, *machine.plugin(), *options, *TWO, code=1)
    summary = machine.newest()
    assert summary["status"] == "crashed" and summary["reason"].startswith(words)
    assert not RunFolder(Path(summary["directory"])).scratch.exists()


@pytest.mark.slow
def test_a_loop_inside_a_batch_is_refused(machine: Machine) -> None:
    nested = ("--set", "action=nested")
    machine.run("run", "looping", *machine.plugin(), *nested, *TWO, code=1)
    assert machine.newest()["reason"] == (
        "the attack begins the stage 'inner' inside a batch of another loop, so it cannot run on several devices. "
        "Use one."
    )
    assert machine.attack("looping", *nested)["status"] == "finished"


def test_an_attack_that_leaves_a_loop_early_finishes(machine: Machine) -> None:
    summary = machine.attack("looping", "--set", "action=leaving", *TWO)
    assert summary["status"] == "finished" and summary["rows"] == 64


@pytest.mark.slow
def test_a_training_loop_is_run_in_order_by_one_worker(machine: Machine) -> None:
    training = ("--set", "action=training")
    one, two = machine.attack("looping", *training), machine.attack("looping", *training, *TWO)
    assert one["guesses"] == two["guesses"] == 64 + 5
    assert Path(one["submission"]).read_bytes() == Path(two["submission"]).read_bytes()


@pytest.mark.parametrize(
    ("devices", "code", "words"),
    [
        ("cpu", 2, "unknown devices 'cpu'. Use GPUs such as 0,1, all, or cpu:N."),
        ("0,,1", 2, "unknown devices '0,,1'"),
        ("0,0", 2, "0,0 names a GPU twice. Name each GPU once."),
        ("cpu:0", 2, "unknown devices 'cpu:0'"),
        ("cpu:999", 1, "--devices: cpu:999: each worker or piece needs a core"),
        ("0,1", 1, "--devices: cuda:0 is not available"),
        ("all", 1, "--devices: the NVIDIA driver shows no GPU. Use cpu:N for several workers on the CPU."),
    ],
)
def test_devices_that_are_not_there_are_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, devices: str, code: int, words: str
) -> None:
    monkeypatch.setattr("harness.cli.resolving.visible_gpus", list)
    monkeypatch.setattr("harness.cli.resolving.GPU_NODES", [])
    message = machine.run("run", "draws", *machine.plugin(), "--devices", devices, code=code).stderr
    assert words in " ".join(message.replace("│", " ").split())


@pytest.mark.slow
def test_a_run_like_another_uses_its_devices(machine: Machine) -> None:
    summary = machine.attack("draws", "--set", "pause=0", *TWO)
    again = machine.json("run", "--like", summary["id"], "--dry-run")
    assert again["spec"]["devices"] == ["cpu", "cpu"]
    assert "2, on cpu" in machine.run("show", summary["id"]).stdout


SPLIT = (*TWO, "--split-target", "--threads", "1")
DEMO = ("--round", "demo", "--target", "demo-tiny", "--limit", "16")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    first_is_fast(
        (options,)
        for options in (
            ("sampling", "--reference", "demo-reference", "--set", "ranker=reference_ratio", "--set", "trials=2"),
            ("soft_prompt", "--set", "epochs=1", "--set", "tokens=2", "--set", "examples=64"),
            ("multi_prefix", "--set", "width=2"),
            ("contrastive",),
        )
    ),
)
def test_a_split_target_gives_the_bytes_of_one_device(machine: Machine, options: Any) -> None:
    one = machine.json("run", *options, *DEMO, "--device", "cpu", "--threads", "1")
    split = machine.json("run", *options, *DEMO, *SPLIT)
    assert split["status"] == "finished"
    assert Path(split["submission"]).read_bytes() == Path(one["submission"]).read_bytes()
    assert len(_events(RunFolder(Path(split["directory"])), "worker")) == 1


@pytest.mark.slow
def test_the_pieces_of_a_target_are_recorded_and_used_again(machine: Machine) -> None:
    run = ("baseline", *DEMO, "--set", "trials=1")
    summary = machine.json("run", *run, *SPLIT)
    shown = machine.json("show", summary["id"])
    assert shown["spec"]["target"]["shards"] == ["cpu", "cpu"] and shown["spec"]["devices"] == []
    assert shown["target_as_loaded"]["blocks"] == "2 + 2"
    assert "cpu, cpu, 2 + 2 blocks, float32, 1 thread," in machine.run("show", summary["id"]).stdout
    again = machine.json("run", "--like", summary["id"], "--dry-run")["spec"]["target"]
    assert (again["shards"], again["threads"]) == (["cpu", "cpu"], 1)
    whole = machine.json("run", "--like", summary["id"], "--device", "cpu", "--dry-run")["spec"]["target"]
    assert (whole["shards"], whole["device"]) == ([], "cpu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("baseline", "--split-target"), "needs two devices or more. Name them with --devices, such as 0,1."),
        (("baseline", "--devices", "cpu:1", "--split-target"), "needs two devices or more."),
        (("replay", "--set", "source=x.csv", *SPLIT), "replay does not use a target. Remove --split-target."),
    ],
)
def test_a_target_cannot_be_split_without_devices(machine: Machine, arguments: Any, words: str) -> None:
    message = machine.run("run", *arguments, code=2).stderr
    assert words in " ".join(message.replace("│", " ").split())


def test_a_target_with_fewer_blocks_than_devices_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.resolving.usable_cores", lambda: 8)
    message = machine.run("run", "baseline", *DEMO, "--devices", "cpu:5", "--split-target", code=1).stderr
    assert "demo-tiny has 4 blocks and cannot be split over 5 devices. Name fewer with --devices." in message
