"""The plan that the launcher (`launcher.py`) carries out inside, written by whoever starts it outside."""

import marshal
import os
import resource
import sys

from harness.sandbox import launcher
from harness.sandbox.policy import OPEN_FILES, SHARED_MEMORY_BYTES, SandboxPolicy
from harness.sandbox.rules import OF_PROC, rules_for
from harness.sandbox.seccomp import filter_program
from harness.sandbox.view import FileView


def limits_of(confinement: SandboxPolicy) -> list[tuple[int, int]]:
    """(resource, most) for setrlimit: what is limited under every means."""
    # Not RLIMIT_AS: a GPU's driver reserves addresses by the terabyte.
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    if confinement.file_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, confinement.file_bytes))
    return limits


def written_plan(
    confinement: SandboxPolicy, view: FileView | None, *, is_filtered: bool = True, has_own_users: bool
) -> int:
    """A descriptor to hand to the launcher, which is to restrict itself to `view` by landlock if there is one.

    `is_filtered`: with a filter of system calls, and no capability; `has_own_users`: it starts in a user namespace.
    """
    network = confinement.network
    plan = {
        "limits": limits_of(confinement),
        "processes": confinement.processes,
        "has_own_users": has_own_users,
        "namespaces": view is not None,
        "shared_memory": SHARED_MEMORY_BYTES,
        "rules": None if view is None else rules_for(view),
        "proc": list(OF_PROC),
        "network": network,
        "filters": [filter_program(network=network, is_heard=heard) for heard in (True, False)] if is_filtered else [],
    }
    descriptor = os.memfd_create("plan")
    os.write(descriptor, marshal.dumps(plan))
    return descriptor


def launched(argv: list[str], plan: int, *, report: int) -> list[str]:
    """`argv`, started by the launcher; `plan` and `report` are descriptors that it inherits, report -1 for none."""
    return [sys.executable, "-I", "-S", launcher.__file__, str(plan), str(report), *argv]
