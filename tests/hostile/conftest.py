"""Hostile input is tried with every sandbox backend of this machine."""

from tests.functional.conftest import (
    bundler,
    draws,
    each_sandbox,
    machine,
    machine_per_backend,
    sandboxed_machine,
    use_backend,
)

__all__ = ["bundler", "draws", "each_sandbox", "machine", "machine_per_backend", "sandboxed_machine", "use_backend"]
