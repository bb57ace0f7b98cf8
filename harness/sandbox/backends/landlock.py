"""Isolation by landlock, seccomp and those namespaces that the kernel lets an unprivileged process create."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from harness.sandbox.backend import FileRule, LauncherSetup, SandboxBackend
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.view import PLAIN_DEVICES, Access, FileView, accelerator_devices, file_view


class Landlock(SandboxBackend):
    """Run the command under landlock rules, which the launcher applies to itself."""

    name = "landlock"
    description = "answers, data and home unreadable; read-only system, no network; file names visible"
    advice = "Use a kernel with landlock and seccomp (Linux 5.13 or newer)."

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return a setup with a rule for each path that `policy` shows."""
        return LauncherSetup(True, True, file_rules(file_view(policy)))


def file_rules(view: FileView) -> list[FileRule]:
    """Return the rules that allow what `view` shows.

    A landlock rule allows a directory with everything below it. So a directory that contains a hidden path is allowed
    child by child and may be listed: names below it are visible, contents are not.
    """
    rules = [(f"/dev/{name}", "device") for name in PLAIN_DEVICES]
    rules += [(str(node), "device") for node in accelerator_devices()]
    for path, access in view.paths.items():
        if access is Access.LIST:
            rules.append((str(path), "list"))
        elif access is not Access.HIDDEN:
            rules += _rules_below(path, access, view)
    return rules


def _rules_below(path: Path, access: Access, view: FileView) -> Iterator[FileRule]:
    if not any(other is Access.HIDDEN and path in below.parents for below, other in view.paths.items()):
        yield str(path), access.value
        return
    yield str(path), "list"
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            child = path / entry.name
            # A rule would follow the link. If its target is visible, the target has a rule of its own.
            if not entry.is_symlink() and child not in view.paths:
                yield from _rules_below(child, access, view)
