"""What a bug report needs to know of a machine: each thing looked at or tried, none guessed."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.paths import runs_home
from harness.runs.machine import hardware, versions
from harness.sandbox import SandboxBackend, detect_backend
from harness.sandbox.guarantees import tried_guarantees
from harness.sandbox.view import model_cache

_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "9p"}
)


@dataclass(frozen=True)
class Finding:
    """One line of the report. advice: what to do about it; None when nothing is wrong."""

    name: str
    value: str
    advice: str | None = None


def findings() -> list[Finding]:
    """The report, in the order that it is read."""
    machine = hardware()
    return [
        *(Finding(name, value) for name, value in versions().items()),
        Finding("executable", sys.executable),
        Finding("system", f"{machine['system']} {machine['machine']}"),
        Finding("processor", f"{machine['processor']}, {machine['cores']} cores usable"),
        Finding("gpus", ", ".join(machine["gpus"]) or "none that a driver reports"),
        _memory(),
        *(_place(name, path) for name, path in _places().items()),
        *_sandbox(),
        _lingering(),
    ]


def _places() -> dict[str, Path]:
    return {
        "runs": runs_home(),
        "data": paths.data_home(),
        "cache": paths.cache_home(),
        "model cache": model_cache(),
    }


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    return Finding("memory", f"{_gigabytes(memory.available)} free of {_gigabytes(memory.total)}")


def _place(name: str, path: Path) -> Finding:
    """A folder's file system and free space, read at its nearest ancestor that exists."""
    there = next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())
    kind = file_system_of(there)
    free = shutil.disk_usage(there).free
    advice = None
    if name == "runs" and (kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse")):
        advice = "run.db needs a local file system: set HARNESS_HOME to a local folder."
    elif not os.access(there, os.W_OK):
        advice = f"{there} cannot be written to."
    elif free < 1 << 30:
        advice = "less than 1 GB is free."
    return Finding(name, f"{path} ({kind}, {_gigabytes(free)} free)", advice)


def _sandbox() -> list[Finding]:
    """The means that this machine offers, and whether it keeps each promise: a process of its own tried to break it."""
    try:
        means = detect_backend()
    except HarnessError as error:
        return [Finding("sandbox", "none works as asked", str(error))]
    advice = None
    if means is SandboxBackend.NONE:
        advice = "install bubblewrap (Debian: apt-get install bubblewrap), and allow user namespaces."
    return [
        Finding("sandbox", f"{means}: {means.promise}", advice),
        *(
            Finding(
                f"  {guarantee.name}",
                f"by {guarantee.means}" if guarantee.means else "not given here",
                None if guarantee.means or means is SandboxBackend.NONE else guarantee.advice,
            )
            for guarantee in tried_guarantees()
        ),
    ]


def _lingering() -> Finding:
    """Whether a run survives its user's logout where systemd cleans up after sessions."""
    if not Path("/run/systemd/system").exists():
        return Finding("after logout", "runs go on: no systemd cleans up after sessions here")
    user = Path("/var/lib/systemd/linger") / (os.environ.get("USER") or str(os.getuid()))
    if os.getuid() == 0 or user.exists():
        return Finding("after logout", "runs go on")
    if "KillUserProcesses=yes" in _logind_settings():
        return Finding(
            "after logout", "runs are killed by systemd (KillUserProcesses=yes)", "loginctl enable-linger keeps them."
        )
    return Finding(
        "after logout", "runs go on unless logind was built to kill them", "loginctl enable-linger makes it sure."
    )


def _logind_settings() -> str:
    files = [Path("/etc/systemd/logind.conf"), *sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))]
    return "\n".join(file.read_text(errors="replace") for file in files if file.is_file())


def file_system_of(path: Path) -> str:
    """The type of the file system that holds `path`, as the kernel's mount table names it; `unknown` elsewhere."""
    table = Path("/proc/self/mountinfo")
    if not table.exists():
        return "unknown"
    best, kind = -1, "unknown"
    real = str(path.resolve())
    for line in table.read_text(errors="replace").splitlines():
        fields, _, after = line.partition(" - ")
        mounted = fields.split()[4].encode().decode("unicode_escape")
        if (real == mounted or real.startswith(mounted.rstrip("/") + "/")) and len(mounted) >= best:
            best, kind = len(mounted), after.split()[0]
    return kind


def as_json(report: list[Finding]) -> dict[str, Any]:
    """The report as an object: value and advice by name."""
    return {finding.name: {"value": finding.value, "advice": finding.advice} for finding in report}


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
