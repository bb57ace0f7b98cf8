"""The command that starts `launcher.py` inside a backend, with the configuration that the launcher reads."""

import marshal
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.sandbox import launcher
from harness.sandbox.backend import SandboxBackend
from harness.sandbox.policy import OPEN_FILES, SHARED_MEMORY_BYTES, SandboxPolicy
from harness.sandbox.seccomp import filter_program, is_supported_machine

_TRIAL_SECONDS = 10.0


def launcher_command(
    argv: list[str], backend: SandboxBackend, policy: SandboxPolicy, *, cwd: Path, report: int = -1
) -> tuple[list[str], int]:
    """Return the command that starts `argv` in `cwd` inside `backend`, and the descriptor of its configuration.

    The process must inherit this descriptor, which the caller closes, and `report`, the end of a pipe to which the
    launcher writes what it applied (-1 for no report).
    """
    setup = backend.launcher_setup(policy)
    # Not RLIMIT_AS: a GPU driver reserves terabytes of address space.
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    if policy.file_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, policy.file_bytes))
    content: dict[str, object] = {
        "limits": limits,
        "processes": policy.processes,
        "has_user_namespace": "user" in backend.namespaces,
        "has_own_root": "mount" in backend.namespaces,
        "creates_namespaces": setup.creates_namespaces,
        "makes_files_read_only": setup.makes_files_read_only,
        "shared_memory": SHARED_MEMORY_BYTES,
        "file_rules": setup.file_rules,
        "network": policy.network,
        "writable": [str(path.resolve()) for path in policy.writable],
    }
    for name, has_read_only_files in (("filter", True), ("filter_for_writable_files", False)):
        content[name] = (
            filter_program(network=policy.network, has_read_only_files=has_read_only_files)
            if backend.is_sandbox
            else b""
        )
    config = os.memfd_create("launcher-config")
    try:
        os.write(config, marshal.dumps(content))
        command = [sys.executable, "-I", "-S", launcher.__file__, str(config), str(report), *argv]
        return backend.wrap(command, policy, cwd=cwd), config
    except BaseException:
        os.close(config)
        raise


def is_available(backend: SandboxBackend) -> bool:
    """Return True if `backend` works on this machine; a sandbox is tried with a process that does nothing."""
    if not backend.is_sandbox:
        return True
    if not is_supported_machine():
        return False
    with tempfile.TemporaryDirectory(prefix="harness-probe-") as scratch:
        policy = SandboxPolicy(writable=(Path(scratch),))
        try:
            command, config = launcher_command(["/bin/sh", "-c", ":"], backend, policy, cwd=Path(scratch))
            with os.fdopen(config):
                trial = subprocess.run(
                    command, capture_output=True, timeout=_TRIAL_SECONDS, check=False, pass_fds=(config,), env={}
                )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return trial.returncode == 0
