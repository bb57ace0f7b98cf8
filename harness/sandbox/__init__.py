"""Run untrusted code in a sandbox: limit the files it sees, the system calls it makes and the resources it uses.

A backend isolates a process; `SandboxedProcess` starts one with the first backend that works on this machine. To add
a backend, write a module in `harness/sandbox/backends/` with a class that implements `SandboxBackend`
(`harness/sandbox/backend.py`), and add an instance to `BACKENDS` in `harness/sandbox/backends/__init__.py`.
"""

from harness.sandbox.backend import SandboxBackend
from harness.sandbox.backends import backend_named, detect_backend
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess

__all__ = ["SandboxBackend", "SandboxPolicy", "SandboxedProcess", "backend_named", "detect_backend"]
