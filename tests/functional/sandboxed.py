"""Commands that a test itself starts in a sandbox."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.sandbox import SandboxBackend, SandboxedProcess, SandboxPolicy
from harness.sandbox.policy import plain_environment


def start_sandboxed(
    argv: Sequence[str],
    scratch: Path,
    *,
    environment: Mapping[str, str] = {},
    backend: SandboxBackend | None = None,
    **policy: Any,
) -> SandboxedProcess:
    """Start a command in the existing directory `scratch`, the only one that it may write to."""
    return SandboxedProcess(
        argv,
        SandboxPolicy(writable=(scratch,), **policy),
        cwd=scratch,
        environment={**plain_environment(scratch), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        backend=backend,
    )


def output_of(process: SandboxedProcess) -> str:
    """Wait for a command, and return what it has written."""
    try:
        return process.popen.communicate(timeout=240)[0].decode()
    finally:
        process.close()
