"""What a confined process may see: an allow-list of places, whichever means enforces it.

The system without its secrets, the interpreter, this package without the answers that it ships, and what the
confinement names. Home, data, runs, caches and other models are in it only where one of these lies inside them.
"""

import contextlib
import os
import site
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.core import paths
from harness.sandbox.policy import SandboxPolicy

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/sys", "/nix/store", "/gnu/store", "/run/opengl-driver", "/run/current-system"),
    *("/opt/cuda", "/opt/nvidia", "/opt/rocm"),
)
_SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts"),
    *("gai.conf", "group", "host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale"),
    *(
        "locale.alias",
        "locale.conf",
        "localtime",
        "lsb-release",
        "magic",
        "manpath.config",
        "mime.types",
        "nsswitch.conf",
    ),
    *(
        "OpenCL",
        "os-release",
        "passwd",
        "pki",
        "profile",
        "protocols",
        "resolv.conf",
        "rpc",
        "services",
        "ssl",
        "static",
    ),
    *("terminfo", "timezone", "vulkan", "glvnd", "nvidia"),
)
"""Of /etc: what programs look up, and nothing that holds a password or a key."""
_KEYS = (Path("/etc/ssl/private"), Path("/etc/pki/tls/private"), Path("/etc/nvidia/private"))
_DEVICES = ("nvidia*", "dri", "kfd", "dxg")
_OF_AN_INTERPRETER = ("bin", "lib", "lib64", "libexec", "include", "share", "ssl", "pyvenv.cfg")
_MOST_LINKS = 10_000


class Access(StrEnum):
    """What may be done with a place and all below it, as far as no deeper place says otherwise."""

    READ = "read"
    LIST = "list"
    WRITE = "write"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class FileView:
    """places: by real path; links: symbolic links that lead to them and lie in no place themselves, to their text."""

    places: dict[Path, Access]
    links: dict[Path, str]

    def access(self, path: Path) -> Access | None:
        """What holds at `path`, a real path: what its deepest place says; None outside of all."""
        for place in (path, *path.parents):
            if (found := self.places.get(place)) not in (None, Access.LIST):
                return found
        return None


def view_for(confinement: SandboxPolicy) -> FileView:
    """The places and links that `confinement` and this installation need."""
    places: dict[Path, Access] = {}
    links: dict[Path, str] = {}
    hidden = [*_private_places(), *confinement.hidden, *_KEYS]

    def see(path: Path, access: Access) -> None:
        try:
            real = path.resolve(strict=True)
        except OSError:
            return
        links.update(_links_on_the_way_to(path))
        places[real] = access

    for path in hidden:
        see(path, Access.HIDDEN)
    for path in _installation([path.resolve() for path in hidden]):
        see(path, Access.READ)
    if paths.PACKAGE.parent not in places:
        # Where the search for `import harness` looks; the package is all that can be read of it.
        see(paths.PACKAGE.parent, Access.LIST)
    for folder in (paths.PACKAGE.parent, *_package_folders()):
        # Another copy of this package ships the same answers.
        see(folder / paths.PACKAGE.name / paths.SHIPPED_ROUNDS.name, Access.HIDDEN)
    for path in (*confinement.readable, *confinement.linked):
        see(path, Access.READ)
    for file in (file for path in confinement.linked for file in _linked_files(path)):
        see(file, Access.READ)
    for path in confinement.writable:
        see(path, Access.WRITE)
    return _pruned(FileView(places, links))


def _pruned(view: FileView) -> FileView:
    """Without what says again what an outer place says already."""
    kept = {place: access for place, access in view.places.items() if view.access(place.parent) is not access}
    return FileView(kept, {link: text for link, text in view.links.items() if not _is_shown(view.access(link.parent))})


def _is_shown(access: Access | None) -> bool:
    return access in (Access.READ, Access.WRITE)


def devices() -> list[Path]:
    """The nodes of accelerators that there are."""
    return sorted(node for pattern in _DEVICES for node in Path("/dev").glob(pattern))


def model_cache() -> Path:
    """Where the hub's client keeps models (huggingface_hub's HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME)."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub = os.environ.get("HF_HUB_CACHE") or str(Path(os.environ.get("HF_HOME") or f"{cache}/huggingface") / "hub")
    return Path(hub).expanduser()


def _private_places() -> list[Path]:
    homes = [paths.data_home(), paths.state_home(), paths.cache_home(), paths.config_home()]
    return [*homes, model_cache(), Path.home()]


def _installation(hidden: list[Path]) -> Iterator[Path]:
    """The system, the interpreter and this package."""
    yield from map(Path, _SYSTEM)
    yield from (Path("/etc") / name for name in _SETTINGS)
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        yield from _without(Path(prefix), hidden)
    yield Path(sys.executable)
    yield Path(getattr(sys, "_base_executable", sys.executable))
    yield paths.PACKAGE
    for folder in (*_library_folders(), *_package_folders(), *_folders_of_editable_packages()):
        if not _holds_any(folder.resolve(), hidden):
            yield folder


def _without(prefix: Path, hidden: list[Path]) -> Iterator[Path]:
    """An interpreter's folder; only what is its own there where somebody keeps a home, runs or data in it."""
    if _holds_any(prefix.resolve(), hidden):
        yield from (prefix / name for name in _OF_AN_INTERPRETER)
    else:
        yield prefix


def _holds_any(folder: Path, places: Iterable[Path]) -> bool:
    return any(folder == place or folder in place.parents for place in places)


def _library_folders() -> Iterator[Path]:
    for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if name.startswith("/"):
            yield Path(name)


def _package_folders() -> list[Path]:
    """Where installed packages lie, the user's own among them."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [Path(folder) for folder in (*site.getsitepackages(), *user)]


def _folders_of_editable_packages() -> Iterator[Path]:
    """Folders that a .pth file adds to the search for modules (site.addpackage), other checkouts of ours left out."""
    for file in (file for folder in _package_folders() for file in folder.glob("*.pth")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in file.read_text().splitlines():
                folder = Path(line.strip())
                if folder.is_absolute() and not (folder / paths.PACKAGE.name).exists():
                    yield folder


def _links_on_the_way_to(path: Path) -> Iterator[tuple[Path, str]]:
    """The symbolic links that are followed on the way to `path`, each with its text."""
    rest, at = list(reversed(path.absolute().parts[1:])), Path("/")
    for _ in range(_MOST_LINKS):
        if not rest:
            return
        part = rest.pop()
        if part == "..":
            at = at.parent
            continue
        step = at / part
        if step.is_symlink():
            text = str(step.readlink())
            yield step, text
            aim = Path(text)
            at = Path("/") if aim.is_absolute() else at
            rest += reversed(aim.parts[1:] if aim.is_absolute() else aim.parts)
        else:
            at = step


def _linked_files(path: Path) -> Iterator[Path]:
    """The symbolic links below a folder that lead to files, as a model cache keeps its snapshots."""
    if not path.is_dir():
        return
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder) / name
            if file.is_symlink() and file.is_file():
                yield file
                found += 1
                if found >= _MOST_LINKS:
                    return
