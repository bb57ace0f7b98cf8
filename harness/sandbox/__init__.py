"""Run untrusted code in a sandbox: limit the files it sees, the system calls it makes and the resources it uses.

`SandboxedProcess` starts a process with the first backend of `harness/sandbox/backends.py` that works on this machine.
docs/development/architecture.md says how to add a backend.
"""

from harness.sandbox.backends import ON_NODES, SandboxBackend, backend_named, detect_backend
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess

__all__ = ["ON_NODES", "SandboxBackend", "SandboxPolicy", "SandboxedProcess", "backend_named", "detect_backend"]
