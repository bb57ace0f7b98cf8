"""The harness's own wheel and lock, which a bundle contains."""

import base64
import csv
import functools
import hashlib
import importlib.metadata
import io
import re
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.plugins.discovery import built_in_folder
from harness.submit.archive import archive_bytes

DISTRIBUTION = "extraction-harness"
WHEEL = re.compile(r"extraction_harness-[A-Za-z0-9.+]+-py3-none-any\.whl")
_LOCK = "requirements.lock"
_WHEEL = "Wheel-Version: 1.0\nGenerator: harness\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_COPIED_METADATA = ("METADATA", "entry_points.txt", "licenses/LICENSE")


def harness_wheel() -> tuple[str, bytes]:
    """Return the wheel's file name and content. Equal installed files give equal bytes.

    Files with answers of the built-in rounds are left out, so that code in a bundle cannot find them.
    Raises HarnessError if the harness is not installed as a distribution.
    """
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise HarnessError(
            f"{DISTRIBUTION} is not installed as a distribution. Install it, or its checkout, with pip."
        ) from None
    if distribution.read_text("METADATA") is None:
        raise HarnessError(f"{DISTRIBUTION}: the METADATA of its installation is missing. Install it again with pip.")
    stem = f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}"
    files = {f"harness/{name}": content for name, content in _package_files().items()}
    for name in _COPIED_METADATA:
        if (text := distribution.read_text(name)) is not None:
            files[f"{stem}.dist-info/{name}"] = text.encode()
    files[f"{stem}.dist-info/WHEEL"] = _WHEEL.encode()
    record = f"{stem}.dist-info/RECORD"
    files[record] = _record(files, record)
    return f"{stem}-py3-none-any.whl", _compress(tuple(files.items()))


@functools.lru_cache(maxsize=1)
def _compress(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """Return the zip of the files of the wheel. A command that verifies many bundles compresses them once."""
    return archive_bytes(dict(files))


def installed_lock() -> str:
    """Return the text of the lock that was installed with the harness. Raises HarnessError if it is missing."""
    return _lock_path().read_text(encoding="utf-8")


def _package_files() -> dict[str, bytes]:
    """Return every file of the package by its name in the wheel, which contains the attacks and the lock."""
    files = {_LOCK: _lock_path()}
    files |= {
        path.relative_to(paths.PACKAGE).as_posix(): path
        for path in sorted(paths.PACKAGE.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and (path.suffix == ".toml" or not any(path.is_relative_to(answers) for answers in paths.BUILT_IN_ANSWERS))
    }
    attacks = built_in_folder()
    if attacks is not None:
        files |= {f"attacks/{path.name}": path for path in sorted(attacks.glob("*.py"))}
    return {name: path.read_bytes() for name, path in files.items()}


def _lock_path() -> Path:
    """Return the lock, which lies next to the package in a checkout and inside the package in a wheel."""
    for path in (paths.PACKAGE.parent / _LOCK, paths.PACKAGE / _LOCK):
        if path.is_file():
            return path
    raise HarnessError(f"{paths.PACKAGE}: {_LOCK} is missing. Install the harness again.")


def _record(files: dict[str, bytes], record: str) -> bytes:
    """Return RECORD: each file with its hash and size (PyPA, "Recording installed projects")."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(files[name])])
    writer.writerow([record, "", ""])
    return lines.getvalue().encode()
