"""The files that a sandboxed process may see, as an allow-list of paths for every backend.

It shows the system without its secrets, the interpreter, this package without the answers that it ships, and the paths
of the policy. Home, data, runs, caches and other models are visible only if one of these paths lies inside them. What
the policy hides stays hidden, whatever else it shows.
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
from harness.core.inputs import cached_files
from harness.sandbox.policy import SandboxPolicy

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/sys", "/nix/store", "/gnu/store", "/run/opengl-driver", "/run/current-system"),
    *("/opt/cuda", "/opt/nvidia", "/opt/rocm"),
)
_SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts"),
    *("gai.conf", "group", "host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale"),
    *("locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "manpath.config", "mime.types"),
    *("nsswitch.conf", "OpenCL", "os-release", "passwd", "pki", "profile", "protocols", "resolv.conf", "rpc"),
    *("services", "ssl", "static", "terminfo", "timezone", "vulkan", "glvnd", "nvidia"),
)
"""Names in /etc that programs read. None of them contains a password or a private key."""
_PRIVATE_KEYS = (Path("/etc/ssl/private"), Path("/etc/pki/tls/private"), Path("/etc/nvidia/private"))
PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICES = ("nvidia*", "dri", "kfd", "dxg")
_PACKAGES = tuple(
    f"{place}py*/*-packages"
    for place in ("", "lib*/", "*/lib*/", "*/*/lib/", *(f"local/{'*/' * depth}lib/" for depth in (2, 3, 4)))
)
"""The places of packages below a directory with interpreters or environments, at depths that are quick to search.

In /usr/local are the environments of pipx, of uv and of administrators."""
_INTERPRETER_PARTS = ("bin", "lib", "lib64", "libexec", "include", "share", "ssl", "pyvenv.cfg")


class Access(StrEnum):
    """The access of a process to a path and everything below it, unless a deeper path says otherwise."""

    READ = "read"
    LIST = "list"
    WRITE = "write"
    HIDDEN = "hidden"


@dataclass(frozen=True)
class FileView:
    """The access to each listed path, and the symbolic links that lead to the listed paths from outside of them."""

    paths: dict[Path, Access]
    """The access to each path, by real path."""
    links: dict[Path, str]
    """Path of the link to its target, as the link states it."""

    def access(self, path: Path) -> Access | None:
        """Return the access to the real path `path`: that of its deepest listed parent, None if there is none.

        LIST is no answer: it shows names in addition to what a parent allows.
        """
        for listed in (path, *path.parents):
            if (access := self.paths.get(listed)) not in (None, Access.LIST):
                return access
        return None


def file_view(policy: SandboxPolicy) -> FileView:
    """Return the paths and links that `policy` and this installation need."""
    access_by_path: dict[Path, Access] = {}
    links: dict[Path, str] = {}
    homes = (paths.data_home(), paths.state_home(), paths.cache_home(), paths.config_home(), model_cache(), Path.home())
    installation = list(_installation([path.resolve() for path in homes]))
    answers = list(_built_in_answers(installation))

    def add(path: Path, access: Access) -> None:
        try:
            real = path.resolve(strict=True)
        except OSError:
            return
        links.update(_links_to(path))
        access_by_path[real] = access

    for path in (*homes, *_PRIVATE_KEYS):
        add(path, Access.HIDDEN)
    for path in installation:
        add(path, Access.READ)
    if paths.PACKAGE.parent not in access_by_path:
        # `import harness` searches this directory. Only the package inside it is readable.
        add(paths.PACKAGE.parent, Access.LIST)
    for path in answers:
        add(path, Access.HIDDEN)
    for path in shown_files(policy):
        add(path, Access.READ)
    for path in policy.writable:
        add(path, Access.WRITE)
    for path in policy.hidden:
        add(path, Access.HIDDEN)
        real = path.resolve()
        access_by_path = {listed: access for listed, access in access_by_path.items() if real not in listed.parents}
    return without_redundant(FileView(access_by_path, links))


def shown_files(policy: SandboxPolicy) -> list[Path]:
    """Return the readable paths of the policy, and the files that links inside them lead to."""
    return [
        file for path in policy.readable for file in (path, *(cached_files(path.resolve()) if path.is_dir() else ()))
    ]


def _built_in_answers(installation: list[Path]) -> Iterator[Path]:
    """Yield the files with answers of built-in rounds, in this package and in every copy that is readable.

    Copies are those that can be imported, and those of interpreters and environments below `installation`.
    """
    roots = {path.resolve() for path in installation}
    outermost = [root for root in roots if roots.isdisjoint(root.parents)]
    below = [directory for root in outermost for pattern in _PACKAGES for directory in root.glob(pattern)]
    directories = (paths.PACKAGE.parent, *_package_directories(), *(Path(name) for name in sys.path if name), *below)
    for directory in dict.fromkeys(directories):
        for answers in paths.BUILT_IN_ANSWERS:
            yield directory / paths.PACKAGE.name / answers.relative_to(paths.PACKAGE)


def without_redundant(view: FileView) -> FileView:
    """Drop paths that a parent covers with the same or a wider access, and links inside visible directories."""
    visible = (Access.READ, Access.WRITE)
    covering = {Access.LIST: visible}
    needed = {
        path: access
        for path, access in view.paths.items()
        if view.access(path.parent) not in covering.get(access, (access,))
    }
    links = {link: target for link, target in view.links.items() if view.access(link.parent) not in visible}
    return FileView(needed, links)


def accelerator_devices() -> list[Path]:
    """Return the device nodes of accelerators on this machine."""
    return sorted(node for pattern in _DEVICES for node in Path("/dev").glob(pattern))


def model_cache() -> Path:
    """Return the cache directory of huggingface_hub (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME), without importing it."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub = os.environ.get("HF_HUB_CACHE") or str(Path(os.environ.get("HF_HOME") or f"{cache}/huggingface") / "hub")
    return Path(hub).expanduser()


def _installation(homes: list[Path]) -> Iterator[Path]:
    """Yield the paths of the system, the interpreter and this package, without directories that contain `homes`."""
    yield from map(Path, _SYSTEM)
    yield from (Path("/etc") / name for name in _SETTINGS)
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        if _contains_any(Path(prefix).resolve(), homes):
            # Somebody's home, runs or data lie in the interpreter's directory.
            yield from (Path(prefix) / name for name in _INTERPRETER_PARTS)
        else:
            yield Path(prefix)
    yield Path(sys.executable)
    yield Path(getattr(sys, "_base_executable", sys.executable))
    yield paths.PACKAGE
    libraries = [Path(name) for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if name.startswith("/")]
    for directory in (*libraries, *_package_directories(), *_editable_packages()):
        if not _contains_any(directory.resolve(), homes):
            yield directory


def _contains_any(directory: Path, places: Iterable[Path]) -> bool:
    return any(place.is_relative_to(directory) for place in places)


def _package_directories() -> list[Path]:
    """Return the site-packages directories, including the user's own."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [Path(directory) for directory in (*site.getsitepackages(), *user)]


def _editable_packages() -> Iterator[Path]:
    """Yield the directories that .pth files add to the module search path (site.addpackage), without copies of us."""
    for file in (file for directory in _package_directories() for file in directory.glob("*.pth")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in file.read_text().splitlines():
                directory = Path(line.strip())
                if directory.is_absolute() and not (directory / paths.PACKAGE.name).exists():
                    yield directory


def _links_to(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each symbolic link that is followed to resolve the existing path `path`, with its target."""
    path = path.absolute()
    for step in (*reversed(path.parents), path):
        if step.is_symlink():
            target = step.readlink()
            # No earlier step is a link, so ".." means the directory above.
            yield Path(os.path.normpath(step)), str(target)
            yield from _links_to(step.parent / target / path.relative_to(step))
            return
