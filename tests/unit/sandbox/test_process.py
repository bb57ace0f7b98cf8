"""A process that cannot be started leaves nothing behind."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess
from harness.supervisor.worker_process import WorkerProcess

IMPOSSIBLE = {"A": "a\0b"}


def start_sandboxed(folder: Path, policy: SandboxPolicy) -> object:
    return SandboxedProcess(["true"], policy, cwd=folder, environment=IMPOSSIBLE)


def start_worker(folder: Path, policy: SandboxPolicy) -> object:
    return WorkerProcess(folder, policy, environment=IMPOSSIBLE)


@pytest.mark.parametrize("start", [start_sandboxed, start_worker])
def test_a_failed_start_leaks_no_descriptor_and_no_thread(
    tmp_path: Path, start: Callable[[Path, SandboxPolicy], object]
) -> None:
    policy = SandboxPolicy(readable=(), writable=(tmp_path,))
    before = set(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        with pytest.raises(ValueError, match="null byte"):
            start(tmp_path, policy)
    assert (set(os.listdir("/proc/self/fd")), threading.active_count()) == before
