"""The sandbox backends, and the choice of one for this machine."""

import functools
import os

from harness.core.errors import HarnessError
from harness.sandbox.backend import SandboxBackend
from harness.sandbox.backends.bubblewrap import Bubblewrap
from harness.sandbox.backends.landlock import Landlock
from harness.sandbox.backends.none import NoSandbox, OnNodes
from harness.sandbox.launching import is_available

ON_NODES = OnNodes()
"""The backend of a process whose worker is on another machine. It is never chosen for a worker."""
BACKENDS: tuple[SandboxBackend, ...] = (Bubblewrap(), Landlock(), NoSandbox())
"""All backends. `detect_backend` takes the first that is available, so the strongest comes first."""


def backend_named(name: str) -> SandboxBackend:
    """Return the backend with this name. Raises KeyError if there is none."""
    return {backend.name: backend for backend in (*BACKENDS, ON_NODES)}[name]


@functools.cache
def detect_backend() -> SandboxBackend:
    """Return the strongest backend that works on this machine, or the one that HARNESS_SANDBOX names.

    Raises HarnessError if HARNESS_SANDBOX names an unknown backend or one that does not work here.
    """
    requested = os.environ.get("HARNESS_SANDBOX", "")
    if not requested:
        return next(backend for backend in BACKENDS if is_available(backend))
    try:
        backend = {backend.name: backend for backend in BACKENDS}[requested]
    except KeyError:
        names = ", ".join(backend.name for backend in BACKENDS)
        raise HarnessError(f"HARNESS_SANDBOX={requested} is not a sandbox backend. Use one of: {names}.") from None
    if not is_available(backend):
        raise HarnessError(f"HARNESS_SANDBOX={requested} does not work on this machine. {backend.advice}")
    return backend
