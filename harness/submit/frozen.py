"""Whether the code of a bundle is the code that was handed in before the prefixes were known."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from harness.core.files import file_sha256
from harness.submit.code import README

_MOST_TEXT_BYTES = 1 << 20
_MOST_LINES = 200


@dataclass(frozen=True)
class CodeDifference:
    """Files of code/ that are not the same, README.md apart, which tells hardware and time once there are any.

    names_frozen: the bundle's manifest names the frozen zip's very hash; changes: by file, a unified diff, or a
    sentence where it is no text.
    """

    names_frozen: bool
    changes: dict[str, str]

    @property
    def is_same(self) -> bool:
        return not self.changes

    @property
    def in_words(self) -> str:
        """The difference as a clause."""
        if self.is_same:
            named = "and the manifest names its hash" if self.names_frozen else "though the manifest names another hash"
            return f"the code is the frozen code, {named}"
        return f"{len(self.changes):,} files differ from the frozen code: {', '.join(sorted(self.changes))}"


def code_difference(bundle: Path, frozen: Path, *, names_frozen: bool) -> CodeDifference:
    """What differs between the folders code/ below `bundle` and `frozen`, both unpacked."""
    now, before = _files(bundle / "code"), _files(frozen / "code")
    changes = {
        name: _change(name, before.get(name), now.get(name))
        for name in sorted(now.keys() | before.keys())
        if name != README and _hash(now.get(name)) != _hash(before.get(name))
    }
    return CodeDifference(names_frozen, changes)


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def _hash(path: Path | None) -> str | None:
    return None if path is None else file_sha256(path)


def _change(name: str, before: Path | None, now: Path | None) -> str:
    if now is None:
        return "is gone"
    if before is None:
        return "is new"
    texts = [_lines(path) for path in (before, now)]
    if texts[0] is None or texts[1] is None:
        return f"was {before.stat().st_size:,} bytes, is {now.stat().st_size:,}, and is no text to compare"
    lines = list(difflib.unified_diff(texts[0], texts[1], f"frozen/{name}", f"bundle/{name}", lineterm=""))
    if not lines:
        return "has the same lines, which end otherwise"
    rest = [f"… {len(lines) - _MOST_LINES:,} further lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *rest])


def _lines(path: Path) -> list[str] | None:
    """The file's lines, None where it is no text of a size to be read."""
    if path.stat().st_size > _MOST_TEXT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return None
