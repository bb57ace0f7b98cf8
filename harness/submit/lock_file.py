"""requirements.txt of a bundle: the distributions that the run used, pinned by version and hash."""

import contextlib
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
_PINNED = re.compile(
    r"""^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)
    (\ *;(?P<marker>[^\\\n]*))?
    .*(\n[ \t].*)*                                # the rest of the line, and indented lines below it""",
    re.VERBOSE | re.MULTILINE,
)
_HASH = r"\s+--hash=sha256:[0-9a-f]{64}"
_PLAIN_LINE = re.compile(
    rf"""\s*(\#.*)?                               # an empty line or a comment
    | [A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+          # a distribution pinned to a version,
      (\s*;(?:(?!--)[^\\])*)?({_HASH})*\s*\\?     # with an optional marker and hashes
    | {_HASH}\s*\\?""",
    re.VERBOSE,
)
_VERSION = re.compile(r"absent|\d[0-9A-Za-z.]*(\+[0-9A-Za-z.]+)?")
_BUILD = re.compile(r"\+(?P<build>cpu|cu\d+|rocm[\d.]+|xpu)$")


class _Pin(NamedTuple):
    """One pinned distribution. `applies` is True if its marker holds here. `text` is its entry in the lock."""

    name: str
    version: str
    applies: bool
    text: str


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def comes_with_torch(name: str) -> bool:
    """Return True for torch and the distributions that its wheels require, by canonical name. No lock names them."""
    return name in ("torch", "triton") or (name.startswith(("nvidia-", "cuda-")) and name != "nvidia-ml-py")


def torch_build() -> str:
    """Return the installed torch's version with its build, such as `2.13.0+cpu`, or `absent`."""
    return installed_version("torch") or "absent"


def torch_install_arguments(version: str) -> str:
    """Return the pip arguments that install this build of torch. PyTorch has one package index per build.

    Raises HarnessError if the text is not a version: it may be untrusted, and pip would read further words as options.
    """
    if not _VERSION.fullmatch(version):
        raise HarnessError(f"{shorten(version)!r} is not a version of torch.")
    build = _BUILD.search(version)
    index = f" --index-url https://download.pytorch.org/whl/{build['build']}" if build else ""
    return f"torch=={version.partition('+')[0]}{index}"


def pinned_requirements(lock: str, requires: tuple[str, ...]) -> str:
    """Return a requirements file with hashes of everything in `lock`, and of `requires` with its dependencies.

    A distribution that could be installed here and is not is left out, because the run did not use it: what builds the
    wheel, or an extra. Torch and what comes with it are left out, too. The lock's hashes are used where the installed
    version is the locked one; the package index is asked for the others. Raises HarnessError if the index cannot
    provide them.
    """
    entries: dict[str, list[str]] = {}
    for pin in _pins(lock):
        if not pin.applies or installed_version(pin.name) is not None:
            entries.setdefault(pin.name, []).append(pin.text)
    locked = pinned_versions(lock)
    pinned: dict[str, str] = {}
    without_hash: dict[str, str] = {}
    for name, texts in entries.items():
        version = installed_version(name)
        # A distribution that is not installed here, or whose pins do not apply here, is for another platform.
        if version is None or version == locked.get(name, version):
            pinned[name] = "\n".join(texts)
        else:
            without_hash[name] = version
    for name, version in _installed_with_dependencies(requires).items():
        if name not in entries and not comes_with_torch(name) and name != "extraction-harness":
            without_hash[name] = version
    pinned |= _pins_from_index(without_hash)
    return "\n".join(pinned[name] for name in sorted(pinned)) + "\n"


def require_plain_lock(requirements: str) -> None:
    """Raise HarnessError unless every line pins a distribution by version and hash, without URL, option or file."""
    for number, line in enumerate(requirements.splitlines(), 1):
        if not _PLAIN_LINE.fullmatch(line):
            raise HarnessError(
                f"requirements.txt, line {number}: {shorten(line.strip())!r} does not pin a distribution by version "
                "and hash."
            )


def pinned_versions(requirements: str) -> dict[str, str]:
    """Return the version of each distribution that a requirements file pins for this Python, by canonical name."""
    return {pin.name: pin.version for pin in _pins(requirements) if pin.applies}


def _pins(lock: str) -> Iterator[_Pin]:
    for entry in _PINNED.finditer(lock):
        applies = _marker_holds((entry["marker"] or "").strip())
        yield _Pin(str(canonicalize_name(entry["name"])), entry["version"], applies, entry[0])


def _marker_holds(marker: str) -> bool:
    try:
        return not marker or Marker(marker).evaluate()
    except InvalidMarker:
        return True  # pip reports the invalid marker when it installs the lock.


def _installed_with_dependencies(names: tuple[str, ...]) -> dict[str, str]:
    """Return the installed version of the distributions and of everything that they require, by canonical name."""
    found: dict[str, str] = {}
    pending = list(names)
    while pending:
        name = str(canonicalize_name(pending.pop()))
        version = installed_version(name)
        if name in found or version is None:
            continue
        found[name] = version
        for line in importlib.metadata.requires(name) or []:
            # pip reports the distribution's invalid metadata when it installs it.
            with contextlib.suppress(InvalidRequirement):
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    pending.append(requirement.name)
    return found


def _pins_from_index(versions: Mapping[str, str]) -> dict[str, str]:
    """Return `name==version` with the hash of the wheel that pip would install here, for each of `versions`."""
    if not versions:
        return {}
    wanted = [f"{name}=={version}" for name, version in sorted(versions.items())]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    try:
        pip = subprocess.run(
            [*command, "--only-binary", ":all:", "--report", "-", *wanted],
            capture_output=True,
            timeout=_INDEX_SECONDS,
            check=True,
        )
        return {
            str(canonicalize_name(item["metadata"]["name"])): (
                f"{item['metadata']['name']}=={item['metadata']['version']} \\\n"
                f"    --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}"
            )
            for item in json.loads(pip.stdout)["install"]
        }
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        names = shorten(", ".join(wanted), 200)
        raise HarnessError(
            f"no hash is known for {names}: requirements.lock has other versions, and the package index did not "
            "answer. Install requirements.lock, or package with access to the index."
        ) from None
