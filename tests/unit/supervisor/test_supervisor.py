"""A run that waits for its device names the holder, and a run that shares its device does not wait."""

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.core.files import try_lock
from harness.runs.folder import RunFolder, run_folder
from harness.runs.queue import QueuePlace, device_holder
from harness.runs.reader import RunReader
from harness.runs.status import Status
from harness.runs.summary import run_summary
from harness.supervisor import devices, supervisor
from harness.supervisor.devices import Device, DeviceLock
from harness.supervisor.execution import DISK_FULL, Ending
from harness.supervisor.supervisor import Supervisor
from tests.records import MODEL, recorded_run

Supervise = Callable[..., RunFolder]
GPU = Device("cuda:0", "GPU-b333", "NVIDIA H200")
OTHER_GPU = Device("cuda:1", "GPU-aa11", "NVIDIA H200")
used_devices: list[tuple[Device, ...]] = []


class FakeExecution:
    """An execution that only records the devices of its workers."""

    def __init__(self, *arguments: Any) -> None:
        used_devices.extend(arguments[-1])

    def run(self, _: Callable[[], bool]) -> Ending:
        return Ending(Status.FINISHED)


@pytest.fixture
def supervise(home: Path, monkeypatch: pytest.MonkeyPatch) -> Supervise:
    """Return a function that supervises a run on the only GPU of this machine, or on two with `shards`."""
    used_devices.clear()
    monkeypatch.setattr(supervisor, "Execution", FakeExecution)

    def supervise(*, shares_device: bool, shards: tuple[str, ...] = ()) -> RunFolder:
        monkeypatch.setattr(devices, "visible_gpus", lambda: [GPU, OTHER_GPU][: max(1, len(shards))])
        run = recorded_run(home)
        target = MODEL.model_copy(update={"device": "cuda", "shards": shards})
        spec = run.folder.attack_spec().model_copy(update={"target": target, "shares_device": shares_device})
        run.folder.spec_file.write_text(spec.model_dump_json())
        run.store.close()
        Supervisor(run.folder).run()
        return run.folder

    return supervise


def _phases(folder: RunFolder) -> list[tuple[str, str]]:
    with RunReader(folder.store) as reader:
        return [
            (detail["phase"], detail.get("reason", "")) for _, _, name, detail in reader.events() if name == "phase"
        ]


def test_a_queued_run_names_the_run_that_holds_its_device_now(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = DeviceLock("aaaa-first-long"), DeviceLock("bbbb-second")
    assert first.try_acquire([GPU]) == GPU
    reasons: list[str] = []

    def hand_over() -> None:
        first.release()
        assert second.try_acquire([GPU]) == GPU

    pauses = iter([lambda: None, hand_over, lambda: None, second.release])

    def pause(_: float) -> None:
        # `harness.supervisor.__main__` holds this lock.
        alive = try_lock(run_folder("latest").lock)
        assert alive is not None
        with alive:
            reasons.append(run_summary(run_folder("latest")).reason)
        next(pauses)()

    monkeypatch.setattr(time, "sleep", pause)
    folder = supervise(shares_device=False)
    assert reasons == [
        f"waiting for cuda:0: run {holder} holds it; 1st of 1 in the queue."
        for holder in ("aaaa-first-long", "aaaa-first-long", "bbbb-second", "bbbb-second")
    ]
    assert _phases(folder) == [
        ("starting", ""),
        ("queued", "waiting for cuda:0."),
        ("starting", ""),
        ("finishing", ""),
        ("finished", ""),
    ]
    assert used_devices == [(GPU,)]


def test_a_run_whose_target_is_split_has_one_worker_and_locks_all_of_its_devices(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DeviceLock("aaaa-other")
    assert other.try_acquire([OTHER_GPU]) == OTHER_GPU
    holders: list[list[str | None]] = []

    def pause(_: float) -> None:
        holders.append([device_holder(gpu.lock_file.name) for gpu in (GPU, OTHER_GPU)])
        other.release()

    monkeypatch.setattr(time, "sleep", pause)
    folder = supervise(shares_device=False, shards=("cuda:1", "cuda:0"))
    # It takes none of its devices as long as one is taken.
    assert holders == [[None, "aaaa-other"]]
    assert ("queued", "waiting for cuda:1 and cuda:0.") in _phases(folder)
    assert used_devices == [(OTHER_GPU, GPU)]
    with RunReader(folder.store) as reader:
        held = reader.last_event("device")
    assert held is not None and held["device"] == "cuda:1, cuda:0"


def test_a_free_device_is_left_to_the_run_that_came_first(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = RunFolder.of("aaaa-early")
    early.path.mkdir(parents=True)
    place = QueuePlace(early, {GPU.name: GPU.lock_file.name}, budget_s=60.0)
    place.__enter__()
    monkeypatch.setattr(time, "sleep", lambda _: place.__exit__())
    folder = supervise(shares_device=False)
    assert [phase for phase, _ in _phases(folder)] == ["starting", "queued", "starting", "finishing", "finished"]
    assert used_devices == [(GPU,)]


def test_a_run_that_cannot_enter_the_queue_because_the_disk_is_full_says_so(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.runs.queue.write_atomically", refuse)
    assert _phases(supervise(shares_device=False))[-1] == ("crashed", DISK_FULL)
    assert used_devices == []


def test_a_run_that_shares_its_device_starts_while_another_run_holds_it(supervise: Supervise) -> None:
    other = DeviceLock("aaaa-first")
    assert other.try_acquire([GPU]) == GPU
    folder = supervise(shares_device=True)
    assert [phase for phase, _ in _phases(folder)] == ["starting", "finishing", "finished"]
    assert used_devices == [(GPU,)] and run_summary(folder).device == "cuda:0"
    assert device_holder(GPU.lock_file.name) == "aaaa-first"


def test_a_run_that_shares_its_device_does_not_lock_it_before_a_run_that_waits(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = RunFolder.of("aaaa-early")
    early.path.mkdir(parents=True)
    holders: list[str | None] = []
    monkeypatch.setattr(FakeExecution, "__init__", lambda *_: holders.append(device_holder(GPU.lock_file.name)))
    with QueuePlace(early, {GPU.name: GPU.lock_file.name}, budget_s=60.0):
        supervise(shares_device=True)
    assert holders == [None]


def test_a_failed_clean_up_does_not_cost_the_results(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Path) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(supervisor, "remove_tree", fail)
    folder = supervise(shares_device=False)
    assert _phases(folder)[-1] == ("finished", "")
    assert folder.submission.exists() and folder.scorecard.exists()
    assert "scratch was not deleted: RecursionError" in capfd.readouterr().err
