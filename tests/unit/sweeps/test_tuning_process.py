"""Which process continues a tuning, from its lock."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.files import try_lock
from harness.runs.status import Process
from harness.sweeps import tuning_process
from harness.sweeps.tuning_process import is_at_work, lock_file, stop_tuning

ID = "tuning"


@pytest.fixture
def lock(home: Path) -> Iterator[Path]:
    file = lock_file(ID)
    file.parent.mkdir(parents=True, exist_ok=True)
    yield file


def test_a_lock_that_cannot_be_read_belongs_to_no_process(lock: Path) -> None:
    assert not is_at_work(ID)
    lock.symlink_to(lock)
    assert not is_at_work(ID)
    lock.unlink()
    lock.mkdir()
    assert not is_at_work(ID)


def test_the_process_that_took_the_lock_may_write_its_name_later(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Process(2**22 + 1, 1.0, "an earlier boot")
    lock.write_text(json.dumps(before.as_record()))
    held, signals = try_lock(lock), []
    assert held is not None

    def write_the_name() -> None:
        time.sleep(0.3)
        held.truncate()
        held.seek(0)
        held.write(json.dumps(Process.of(os.getpid()).as_record()).encode())

    def end(pid: int, number: int) -> None:
        signals.append((pid, number))
        held.close()

    monkeypatch.setattr(os, "kill", end)
    thread = threading.Thread(target=write_the_name)
    thread.start()
    stop_tuning(ID)
    thread.join()
    assert signals == [(os.getpid(), signal.SIGINT)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no process"),
        (json.dumps(Process(2**22 + 1, 1.0, "boot").as_record()), "another container"),
        ("{}", "lock"),
    ],
)
def test_a_lock_without_a_process_here_is_an_error(
    lock: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(tuning_process, "_NAMED_WITHIN_SECONDS", 0.0)
    lock.write_text(text)
    held = try_lock(lock)
    assert held is not None
    with held, pytest.raises(HarnessError, match=message):
        stop_tuning(ID)
