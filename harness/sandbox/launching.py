"""The command line that starts `launcher.py` inside a backend, and the configuration that the launcher reads."""

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
    argv: list[str], config: int, backend: SandboxBackend, policy: SandboxPolicy, *, cwd: Path, report: int = -1
) -> list[str]:
    """Return the command that starts `argv` in `cwd` inside `backend`.

    The process must inherit two descriptors: `config`, from `write_launcher_config`, and the socket `report`, on which
    the launcher reports what it applied (-1 for no report).
    """
    command = [sys.executable, "-I", "-S", launcher.__file__, str(config), str(report), *argv]
    return backend.wrap(command, policy, cwd=cwd)


def write_launcher_config(backend: SandboxBackend, policy: SandboxPolicy) -> int:
    """Return a descriptor of a file in memory with the configuration for `launcher.py`. The caller closes it."""
    setup = backend.launcher_setup(policy)
    # Not RLIMIT_AS: a GPU driver reserves terabytes of address space.
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    if policy.file_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, policy.file_bytes))
    config = {
        "limits": limits,
        "processes": policy.processes,
        "has_user_namespace": "user" in backend.namespaces,
        "creates_namespaces": setup.creates_namespaces,
        "shared_memory": SHARED_MEMORY_BYTES,
        "file_rules": setup.file_rules,
        "network": policy.network,
        "filters": [filter_program(network=policy.network, notifies=notifies) for notifies in (True, False)]
        if backend.is_sandbox
        else [],
    }
    descriptor = os.memfd_create("launcher-config")
    os.write(descriptor, marshal.dumps(config))
    return descriptor


def is_available(backend: SandboxBackend) -> bool:
    """Return True if `backend` works on this machine; a sandbox is tried with a process that does nothing."""
    if not backend.is_sandbox:
        return True
    if not is_supported_machine():
        return False
    with tempfile.TemporaryDirectory(prefix="harness-probe-") as scratch:
        policy = SandboxPolicy(writable=(Path(scratch),))
        config = write_launcher_config(backend, policy)
        try:
            command = launcher_command(["/bin/sh", "-c", ":"], config, backend, policy, cwd=Path(scratch))
            trial = subprocess.run(
                command, capture_output=True, timeout=_TRIAL_SECONDS, check=False, pass_fds=(config,), env={}
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        finally:
            os.close(config)
    return trial.returncode == 0
