"""The view as rules for landlock, which can allow a folder and all below it, and nothing less."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from harness.sandbox.view import Access, FileView, devices

# Without a /proc of its own: what libraries read about the machine and about the process itself.
OF_PROC = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/version", "/proc/loadavg"),
    *("/proc/uptime", "/proc/filesystems", "/proc/driver", "/proc/devices", "/proc/modules"),
)
_PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")

Rule = tuple[str, str]


def rules_for(view: FileView) -> list[Rule]:
    """(place, kind) for each place; the kinds are those that `launcher.py` knows.

    A folder with something hidden inside is allowed child by child, and may be listed: names below it can be seen,
    contents cannot.
    """
    rules: list[Rule] = [(f"/dev/{name}", "device") for name in _PLAIN_DEVICES]
    rules += [(str(node), "device") for node in devices()]
    for place, access in view.places.items():
        if access is Access.LIST:
            rules.append((str(place), "list"))
        elif access is not Access.HIDDEN:
            rules += _allowed(place, access, view)
    return rules


def _allowed(place: Path, access: Access, view: FileView) -> Iterator[Rule]:
    hides = any(found is Access.HIDDEN and place in other.parents for other, found in view.places.items())
    if not hides:
        yield str(place), access.value
        return
    yield str(place), "list"
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            child = place / entry.name
            # A rule would follow the link; whatever it leads to has a place of its own or none.
            if not entry.is_symlink() and child not in view.places:
                yield from _allowed(child, access, view)
