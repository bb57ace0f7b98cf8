"""requirements.txt of a bundle: the distributions that the run used, pinned by version and hash."""

import contextlib
import importlib.metadata
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from harness.core.errors import HarnessError
from harness.core.extras import installed_version
from harness.core.text import shorten

_INDEX_SECONDS = 120.0
_NOT_PLAIN = re.compile(r"[^\n\t -~]")
_AMBIGUOUS_COMMENT = re.compile(r"^[^#\n]*\#.*(coding[:=]|\\$)", re.MULTILINE)
"""pip decodes a file by the encoding that a comment declares (PEP 263), and does not continue a comment after \\."""
_HASH = " --hash="
_AMBIGUOUS_PIN = re.compile(r"#|\\|--")
"""pip ends a line at `#`, continues it after `\\`, and reads options after `--`, in a marker too."""
_HASHES = re.compile(r"(?P<hashes>( --hash=sha256:[0-9a-f]{64})+) ?(#.*)?")
"""One hash or more, and a comment."""
_MAX_PIN = 600  # characters, of a pin without its hashes
_MAX_ENTRY = 1 << 16  # characters, of a pin with all of its hashes
_END = (0, "")
_VERSION = re.compile(r"absent|\d[0-9A-Za-z.]*(\+[0-9A-Za-z.]+)?")
_BUILD = re.compile(r"\+(?P<build>cpu|cu\d+|rocm[\d.]+|xpu)$")


class Pin(NamedTuple):
    """One pinned distribution, with the canonical name. `applies` is True if its marker holds here."""

    name: str
    version: str
    hashes: tuple[str, ...]
    applies: bool
    text: str

    @property
    def requirement(self) -> str:
        """The pin as a line for an installer, without the marker."""
        return " ".join([f"{self.name}=={self.version}", *self.hashes])


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
        raise HarnessError(f"{shorten(version)!r} is not a version of torch, such as 2.13.0.")
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
    pins = [pin for pin in read_pins(lock) if not pin.applies or installed_version(pin.name) is not None]
    for pin in pins:
        entries.setdefault(pin.name, []).append(pin.text)
    locked = {pin.name: pin.version for pin in pins if pin.applies}
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


def read_pins(requirements: str) -> list[Pin]:
    """Return the pins in a requirements file, which a stranger may have written.

    Raises HarnessError unless every line pins a distribution by version and SHA-256, without URL, option or file, and
    if two readers could read the file differently: only ASCII is allowed, and no comment may declare an encoding.
    """
    for pattern, fault in (
        (_NOT_PLAIN, "not a printable ASCII character"),
        (_AMBIGUOUS_COMMENT, "a comment that declares an encoding or continues on the next line"),
    ):
        if (fault_place := pattern.search(requirements)) is not None:
            place = requirements.count("\n", 0, fault_place.start()) + 1
            raise HarnessError(f"requirements.txt, line {place}: {shorten(fault_place[0])!r} is {fault}.")
    pins: list[Pin] = []
    lines = enumerate(requirements.split("\n"), 1)
    for number, line in lines:
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        while entry.endswith("\\") and len(entry) <= _MAX_ENTRY:
            entry = f"{entry[:-1].rstrip()} {next(lines, _END)[1].strip()}"
        if len(entry) > _MAX_ENTRY:
            raise HarnessError(f"requirements.txt, line {number}: a pin has more than {_MAX_ENTRY:,} characters.")
        pins.append(_parsed_pin(" ".join(entry.split()), number))
    applying = Counter(pin.name for pin in pins if pin.applies)
    if twice := sorted(name for name, times in applying.items() if times > 1):
        raise HarnessError(f"requirements.txt pins {shorten(twice[0])} more than once for this Python.")
    return pins


def _parsed_pin(entry: str, number: int) -> Pin:
    """Return the pin of an entry whose continued lines are joined. `number` is that of its first line."""
    pin, hash_, rest = entry.partition(_HASH)
    hashed = _HASHES.fullmatch(hash_ + rest)
    try:
        if hashed is None or len(pin) > _MAX_PIN or _AMBIGUOUS_PIN.search(pin):
            raise ValueError
        requirement = Requirement(pin)
        (specifier,) = requirement.specifier
        if requirement.url or requirement.extras or specifier.operator != "==":
            raise ValueError
        Version(specifier.version)  # which has no `*`
        applies = requirement.marker is None or requirement.marker.evaluate()
    except (ValueError, RecursionError, UndefinedComparison, UndefinedEnvironmentName):
        raise HarnessError(
            f"requirements.txt, line {number}: {shorten(entry, 100)!r} does not pin a distribution by version and hash."
        ) from None
    hashes = tuple(hashed["hashes"].split())
    text = " \\\n    ".join([pin, *hashes])
    return Pin(str(canonicalize_name(requirement.name)), specifier.version, hashes, applies, text)


def _installed_with_dependencies(names: tuple[str, ...]) -> dict[str, str]:
    """Return the installed version of the distributions and of everything that they require, by canonical name."""
    versions: dict[str, str] = {}
    pending = list(names)
    while pending:
        name = str(canonicalize_name(pending.pop()))
        version = installed_version(name)
        if name in versions or version is None:
            continue
        versions[name] = version
        for line in importlib.metadata.requires(name) or []:
            # pip reports the distribution's invalid metadata when it installs it.
            with contextlib.suppress(InvalidRequirement):
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    pending.append(requirement.name)
    return versions


def _pins_from_index(versions: Mapping[str, str]) -> dict[str, str]:
    """Return `name==version` with the hash of the wheel that pip would install here, for each of `versions`."""
    if not versions:
        return {}
    pins = [f"{name}=={version}" for name, version in sorted(versions.items())]
    command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    try:
        pip = subprocess.run(
            [*command, "--only-binary", ":all:", "--report", "-", *pins],
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
        names = shorten(", ".join(pins), 200)
        raise HarnessError(
            f"no hash is known for {names}: requirements.lock has other versions, and the package index did not "
            "answer. Install requirements.lock, or package with access to the index."
        ) from None
