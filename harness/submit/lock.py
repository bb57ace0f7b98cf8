"""The distributions that a run had, pinned by hash: what a clean machine installs to run it again."""

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.core.errors import HarnessError
from harness.core.text import shorten

_INDEX_SECONDS = 120.0
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = r"\s+--hash=sha256:[0-9a-f]{64}"
_PLAIN_LINE = re.compile(
    rf"""\s*(\#.*)?                               # nothing, or a remark
    | [A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+          # a distribution in one version,
      (\s*;(?:(?!--)[^\\])*)?({_HASH})*\s*\\?     # where a marker holds, with its hashes
    | {_HASH}\s*\\?""",
    re.VERBOSE,
)
_VERSION = re.compile(r"absent|\d[0-9A-Za-z.]*(\+[0-9A-Za-z.]+)?")
_BUILD = re.compile(r"\+(?P<build>cpu|cu\d+|rocm[\d.]+|xpu)$")


class _Pin(NamedTuple):
    """One pinned distribution. applies: its marker holds here, or it has none; lines: as they stand in the lock."""

    name: str
    version: str
    applies: bool
    lines: str


def torch_build() -> str:
    """The installed torch's version with its build, such as `2.13.0+cpu`."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def torch_install(version: str) -> str:
    """What installs that build of torch, as arguments of pip: PyTorch keeps an index for each.

    Raises HarnessError for a text that is no version: it may be a stranger's, and pip would take more for options.
    """
    if not _VERSION.fullmatch(version):
        raise HarnessError(f"{shorten(version)!r} is no version of torch.")
    build = _BUILD.search(version)
    index = f" --index-url https://download.pytorch.org/whl/{build['build']}" if build else ""
    return f"torch=={version.partition('+')[0]}{index}"


def pinned_requirements(lock: str, requires: tuple[str, ...]) -> str:
    """A requirements file, every line with its hashes, of what `lock` names and is installed, and of `requires` with
    all that they need in turn; torch and what it brings of its own are left out.

    The lock's hashes are taken where the installed version is the locked one; the others are asked for at the package
    index. Raises HarnessError when that does not know them.
    """
    lines: dict[str, list[str]] = {}
    for pin in _pins(lock):
        lines.setdefault(pin.name, []).append(pin.lines)
    locked = pinned_versions(lock)
    pinned: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for name, its_lines in lines.items():
        installed = _installed_version(name)
        if installed in (None, locked.get(name)):
            # What is not installed here is another platform's; what is, another Python may have in another version.
            pinned[name] = "\n".join(its_lines)
        else:
            unknown[name] = str(installed)
    for name in _closure(requires):
        version = _installed_version(name)
        if name not in lines and not _comes_with_torch(name) and version is not None:
            unknown[name] = version
    pinned |= _asked_of_index(unknown)
    return "\n".join(pinned[name] for name in sorted(pinned)) + "\n"


def require_plain_lock(requirements: str) -> None:
    """Raise HarnessError unless every line pins a distribution by version and hash: no address, option or file."""
    for number, line in enumerate(requirements.splitlines(), 1):
        if not _PLAIN_LINE.fullmatch(line):
            raise HarnessError(
                f"line {number} of its lock, {shorten(line.strip())!r}, pins no distribution by version and hash."
            )


def pinned_versions(requirements: str) -> dict[str, str]:
    """The version of each distribution that a requirements file pins for this Python here, by canonical name."""
    return {pin.name: pin.version for pin in _pins(requirements) if pin.applies}


def _pins(lock: str) -> Iterator[_Pin]:
    block: list[str] = []
    for line in [*lock.splitlines(), ""]:
        if line.startswith((" ", "\t")) and block:
            block.append(line)
            continue
        if block and (match := _PINNED.match(block[0])) is not None:
            applies = _holds_here(block[0].partition(";")[2].strip(" \\"))
            yield _Pin(str(canonicalize_name(match["name"])), match["version"], applies, "\n".join(block))
        block = [line]


def _holds_here(marker: str) -> bool:
    try:
        return not marker or Marker(marker).evaluate()
    except InvalidMarker:
        return True  # a lock's own mistake; pip says more when it is installed


def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _closure(names: tuple[str, ...]) -> list[str]:
    """The distributions and all that they need here, by canonical name."""
    found: dict[str, None] = {}
    waiting = [str(canonicalize_name(name)) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for need in needs:
            try:
                requirement = Requirement(need)
            except InvalidRequirement:
                continue  # a distribution's own mistake; pip says more when it is installed
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(str(canonicalize_name(requirement.name)))
    return list(found)


def _comes_with_torch(name: str) -> bool:
    return name in ("torch", "triton", "extraction-harness") or (
        name.startswith(("nvidia-", "cuda-")) and name != "nvidia-ml-py"
    )


def _asked_of_index(versions: Mapping[str, str]) -> dict[str, str]:
    """`name==version` with the hash of the wheel that pip would install here, for each of `versions`."""
    if not versions:
        return {}
    wanted = [f"{name}=={version}" for name, version in sorted(versions.items())]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    try:
        asked = subprocess.run(
            [*command, "--only-binary", ":all:", "--report", "-", *wanted],
            capture_output=True,
            timeout=_INDEX_SECONDS,
            check=True,
        )
        told = json.loads(asked.stdout)["install"]
        return {
            str(canonicalize_name(one["metadata"]["name"])): (
                f"{one['metadata']['name']}=={one['metadata']['version']} \\\n"
                f"    --hash=sha256:{one['download_info']['archive_info']['hashes']['sha256']}"
            )
            for one in told
        }
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        names = shorten(", ".join(wanted), 200)
        raise HarnessError(
            f"no hash is known of {names}: these are not the versions that came with the harness, and the package "
            "index did not tell; install requirements.lock, or package where the index can be reached."
        ) from None
