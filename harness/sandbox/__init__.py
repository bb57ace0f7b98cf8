"""What a process that runs strangers' code may see, reach and use up; it knows nothing of runs."""

from harness.sandbox.backends import SandboxBackend, detect_backend
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess

__all__ = ["SandboxBackend", "SandboxPolicy", "SandboxedProcess", "detect_backend"]
