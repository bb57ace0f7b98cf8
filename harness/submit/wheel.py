"""The harness's own wheel, built again from the files that are installed: it names the code that ran."""

import base64
import csv
import hashlib
import importlib.metadata
import io
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.plugins.discovery import shipped_folder
from harness.submit.archive import archive_bytes

DISTRIBUTION = "extraction-harness"
_LOCK = "requirements.lock"
_WHEEL = "Wheel-Version: 1.0\nGenerator: harness\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_KEPT = ("METADATA", "entry_points.txt")


def harness_wheel() -> tuple[str, bytes]:
    """The wheel's file name and content: the same bytes for the same installed files.

    The shipped rounds' arrays are left out, since the demo's answers are among them and an attack that is run from this
    wheel must not find any. Raises HarnessError when the harness is not installed as a distribution.
    """
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise HarnessError(
            f"{DISTRIBUTION} is not installed as a distribution: pip install it, or its checkout."
        ) from None
    stem = f"{DISTRIBUTION.replace('-', '_')}-{distribution.version}"
    files = {f"harness/{name}": content for name, content in _package_files().items()}
    for name in _KEPT:
        text = distribution.read_text(name)
        if text is None:
            raise HarnessError(f"{DISTRIBUTION} lacks its {name}: install it again.")
        files[f"{stem}.dist-info/{name}"] = text.encode()
    if (licence := distribution.read_text("licenses/LICENSE")) is not None:
        files[f"{stem}.dist-info/licenses/LICENSE"] = licence.encode()
    files[f"{stem}.dist-info/WHEEL"] = _WHEEL.encode()
    record = f"{stem}.dist-info/RECORD"
    files[record] = _record(files, record)
    return f"{stem}-py3-none-any.whl", archive_bytes(files)


def installed_lock() -> str:
    """The text of the lock that came with the harness. Raises HarnessError when there is none."""
    for path in _lock_places():
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise HarnessError(f"{paths.PACKAGE}: the {_LOCK} that belongs to it is missing: install the harness again.")


def _package_files() -> dict[str, bytes]:
    """Every installed file of the package, by its name there, attacks and lock inside it as a wheel has them."""
    found = {
        path.relative_to(paths.PACKAGE).as_posix(): path
        for path in sorted(paths.PACKAGE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not _is_round_array(path)
    }
    attacks = shipped_folder()
    if attacks is not None:
        found |= {f"attacks/{path.name}": path for path in sorted(attacks.glob("*.py"))}
    lock = next((path for path in _lock_places() if path.is_file()), None)
    found |= {} if lock is None else {_LOCK: lock}
    return {name: path.read_bytes() for name, path in found.items()}


def _is_round_array(path: Path) -> bool:
    return paths.SHIPPED_ROUNDS in path.parents and path.suffix != ".toml"


def _lock_places() -> tuple[Path, Path]:
    """Beside the package in a checkout, inside it where a wheel put it."""
    return paths.PACKAGE.parent / _LOCK, paths.PACKAGE / _LOCK


def _record(files: dict[str, bytes], itself: str) -> bytes:
    """RECORD: each file with its hash and size (PyPA, "Recording installed projects")."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(files[name])])
    writer.writerow([itself, "", ""])
    return lines.getvalue().encode()
