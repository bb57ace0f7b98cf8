"""The lowest limits above a process on memory and on processor time count, in control groups of both versions."""

import os
from pathlib import Path

import pytest

from harness.core.hardware import MemoryLimit, memory_limits, usable_cores
from harness.engine import memory

MIB = 1 << 20
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def _group(path: Path, version: int, limit: int | str, used: int, cached: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, value in zip(_FILES[version], (limit, used), strict=False):
        (path / name).write_text(f"{value}\n")
    (path / "memory.stat").write_text(f"anon 5\n{_FILES[version][2]} {cached}\n")


def _process(folder: Path, version: int, *, root: str = "/") -> Path:
    """Write the files of a process in the group /slurm/job_7/step of a hierarchy that is mounted at folder/mount."""
    process = folder / "process"
    process.mkdir()
    inside = "/slurm/job_7/step"
    (process / "cgroup").write_text(f"0::{inside}\n" if version == 2 else f"9:memory,cpu:{inside}\n1:pids:/\n0::/\n")
    kind = "cgroup2 cgroup rw" if version == 2 else "cgroup cgroup rw,memory,cpu"
    (process / "mountinfo").write_text(
        f"21 1 0:20 / /proc rw - proc proc rw\n30 21 0:26 {root} {folder / 'mount'} rw shared:4 - {kind}\n"
    )
    return process


@pytest.mark.parametrize("version", [1, 2])
def test_every_ancestor_limits_a_process(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, mount = _process(tmp_path, version), tmp_path / "mount"
    _group(mount / "slurm" / "job_7" / "step", version, "max" if version == 2 else 1 << 62, 3 * MIB, 0)
    _group(mount / "slurm" / "job_7", version, 8 * MIB, 5 * MIB, 2 * MIB)
    _group(mount / "slurm", version, 64 * MIB, 20 * MIB, 0)
    _group(mount / "slurm" / "job_8", version, MIB, MIB, 0)
    limits = list(memory_limits(process))
    assert MemoryLimit(8 * MIB, 3 * MIB) in limits and MemoryLimit(64 * MIB, 20 * MIB) in limits
    assert all(limit.limit > MIB for limit in limits)
    monkeypatch.setattr(memory, "memory_limits", lambda: memory_limits(process))
    assert memory.total_bytes() == 8 * MIB and memory.free_bytes(memory.torch.device("cpu")) == 5 * MIB


def test_a_container_sees_its_own_part_of_a_hierarchy(tmp_path: Path) -> None:
    process = _process(tmp_path, 1, root="/slurm/job_7")
    _group(tmp_path / "mount" / "step", 1, 4 * MIB, MIB, 0)
    assert list(memory_limits(process)) == [MemoryLimit(4 * MIB, MIB)]


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert list(memory_limits(tmp_path)) == []


def _write_quota(group: Path, version: int, quota: int | str, period: int = 100_000) -> None:
    group.mkdir(parents=True, exist_ok=True)
    if version == 2:
        (group / "cpu.max").write_text(f"{quota} {period}\n")
    else:
        (group / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (group / "cpu.cfs_period_us").write_text(f"{period}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_a_quota_of_processor_time_counts_as_cores(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    process, job = _process(tmp_path, version), tmp_path / "mount" / "slurm" / "job_7"
    assert usable_cores(process) == 64
    _write_quota(job / "step", version, "max" if version == 2 else -1)
    assert usable_cores(process) == 64
    _write_quota(job, version, 250_000)
    assert usable_cores(process) == 2
    _write_quota(job.parent, version, 800_000)
    assert usable_cores(process) == 2
    _write_quota(job, version, 30_000)
    assert usable_cores(process) == 1
