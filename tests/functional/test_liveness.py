"""A run is alive while its supervisor holds the lock, also as seen from another container."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runs.status import Status
from harness.runs.summary import run_status, run_summary
from tests.functional.machine import Machine, guess_count, kill_supervisor, wait_until

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc"]


def in_another_container(machine: Machine, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a new PID namespace, where no process of the run is visible."""
    command = [*UNSHARE, sys.executable, "-m", "harness", *arguments]
    return subprocess.run(
        command, cwd=machine.folder, env=machine.env(), capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture
def other_namespace() -> None:
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not create PID namespaces.")


@pytest.mark.slow
@pytest.mark.usefixtures("other_namespace")
def test_a_running_run_cannot_be_changed_from_another_pid_namespace(machine: Machine) -> None:
    (gate := machine.folder / "gate").mkdir()
    folder = machine.detached("draws", "--set", f"gate={gate}", "--budget", "10m")
    wait_until(lambda: guess_count(folder) > 0)
    seen = json.loads(in_another_container(machine, "show", folder.id, "--json").stdout)
    assert seen["status"] == "running"
    for arguments in (("runs", "rm", folder.id), ("runs", "rm", "--force", folder.id), ("stop", folder.id)):
        done = in_another_container(machine, *arguments)
        assert done.returncode == 1, done.stdout + done.stderr
    assert "another container" in done.stderr
    assert run_status(folder) is Status.RUNNING
    assert machine.json("stop", folder.id)["status"] == "stopped"
    assert in_another_container(machine, "runs", "rm", folder.id).returncode == 0
    assert not folder.path.exists()


def test_a_run_without_supervisor_is_lost_and_can_be_deleted(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.5")
    wait_until(lambda: guess_count(folder) > 0)
    kill_supervisor(folder)
    wait_until(lambda: run_summary(folder).status is Status.LOST)
    assert machine.run("runs", "rm", folder.id).stdout.strip() == folder.id
    assert not folder.path.exists()


@pytest.fixture
def ramfs_home(machine: Machine, request: pytest.FixtureRequest) -> Path:
    """Mount the home directory on a file system without fallocate."""
    home = machine.folder / "state"
    home.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "ramfs", "ramfs", str(home)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount ramfs: {mounted.stderr.strip()}")
    request.addfinalizer(lambda: subprocess.run(["umount", "--lazy", str(home)], check=True))
    return home


@pytest.mark.usefixtures("ramfs_home")
def test_a_run_on_a_file_system_without_fallocate_finishes(machine: Machine) -> None:
    assert machine.attack("draws", "--set", "pause=0")["status"] == "finished"
