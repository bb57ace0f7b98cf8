"""The backend for machines without a sandbox: only resource limits and the cleanup of processes remain."""

from harness.sandbox.backend import SandboxBackend


class NoSandbox(SandboxBackend):
    """Run the command without isolation: every file is readable and the network is open."""

    name = "none"
    description = "no sandbox: an attack could read the answers by path; only its resources are limited"
    is_sandbox = False


class OnNodes(SandboxBackend):
    """Run our own process, which passes a worker's messages on; the worker is in the sandbox of a node of a cluster."""

    name = "ray"
    description = "the worker was on a node of a cluster; the log says in which sandbox"
    is_sandbox = False
