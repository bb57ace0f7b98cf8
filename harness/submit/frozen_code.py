"""Frozen code: how the code of a bundle differs from that of an earlier zip, and whether a patch explains all of it.

A patch is applied in memory to files that are already known, and only exactly: no path in it is opened.
"""

import difflib
import filecmp
import hashlib
import io
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded
from harness.core.text import list_first, pluralize, shorten
from harness.submit.code_folder import README

_MAX_TEXT_BYTES = 1 << 20
_MAX_DIFF_LINES = 200
_MAX_COMPARED_LINES, _MAX_COMPARED_FILES = 2500, 20
"""Limits of files that are compared line by line. difflib takes 3 s for 2,500 hostile lines, and minutes for 10,000."""
_MAX_PATH = 1000
_LINE = re.compile(rb"[^\n]*\n(?:\\ [^\n]*(?:\n|\Z))?|[^\n]+")
"""A line of a patch, and the remark that the line has no end."""
_HUNK = re.compile(rb"@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
_NO_FILE = "/dev/null"


@dataclass(frozen=True)
class PatchSize:
    """The size of an approved patch. Its lines do not include context."""

    sha256: str
    """SHA-256 of the patch."""
    bytes: int
    """Size of the patch."""
    files: int
    """Number of changed files."""
    lines_added: int
    """Number of added lines."""
    lines_removed: int
    """Number of removed lines."""

    @property
    def words(self) -> str:
        """The size in one clause."""
        lines = f"{pluralize(self.lines_added, 'line')} added, {self.lines_removed:,} removed"
        return f"{pluralize(self.files, 'file')}, {lines}, {self.bytes:,} bytes"


@dataclass(frozen=True)
class CodeDifference:
    """The files of code/ that differ from the frozen code. README.md is ignored: it gains hardware and time.

    `names_frozen` is True if the bundle's manifest contains the hash of the frozen zip. `changes` maps a file to its
    unified diff, or to a sentence if the file is not text. `patch` is the approved patch, if one was given and the code
    is not the frozen code. `unexplained` lists the files that the frozen code and the patch do not give.
    """

    names_frozen: bool
    changes: dict[str, str]
    patch: PatchSize | None = None
    unexplained: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        return not self.changes

    @property
    def is_accepted(self) -> bool:
        """True if the code is the frozen code, or the frozen code with the approved patch."""
        return self.is_same or (self.patch is not None and not self.unexplained)

    @property
    def summary(self) -> str:
        """The difference in one clause."""
        if self.is_same:
            hash_words = "contains its hash" if self.names_frozen else "contains another hash"
            return f"the code is the frozen code, and the manifest {hash_words}"
        if self.patch is not None and not self.unexplained:
            return f"the code is the frozen code with a patch of {self.patch.words}"
        names, patched = (self.unexplained, " with the patch") if self.patch else (sorted(self.changes), "")
        differ = f"{pluralize(len(names), 'file')} differ{'s' if len(names) == 1 else ''}"
        return f"{differ} from the frozen code{patched}: {list_first([shorten(name) for name in names], 5)}"


def compare_code(bundle: Path, frozen: Path, *, names_frozen: bool, patch: Path | None = None) -> CodeDifference:
    """Compare the folder code/ of an unpacked bundle with that of the unpacked frozen zip.

    With `patch`, an approved unified diff, the code may also be the frozen code with this patch. Raises HarnessError,
    with file and line, if the patch cannot be read.
    """
    new, old = _files(bundle / "code"), _files(frozen / "code")
    changed = [
        name
        for name in sorted(new.keys() | old.keys())
        if name != README and not (name in old and name in new and filecmp.cmp(old[name], new[name], shallow=False))
    ]
    changes = {name: _change(name, old.get(name), new.get(name)) for name in changed[:_MAX_COMPARED_FILES]}
    changes |= dict.fromkeys(changed[_MAX_COMPARED_FILES:], "differs")
    if patch is None or not changes:
        return CodeDifference(names_frozen, changes)
    content = read_bounded(patch, limit=_MAX_TEXT_BYTES)
    patched, signs = _apply(content, old, code_files=new.keys() | old.keys(), path=patch)
    patched.pop(README, None)
    # A file that the patch does not name differs even where both sides are empty, such as an added empty file.
    unexplained = [
        name
        for name in sorted(changes.keys() | patched.keys())
        if name not in patched or patched[name] != _content(new, name)
    ]
    size = PatchSize(hashlib.sha256(content).hexdigest(), len(content), len(patched), signs[b"+"], signs[b"-"])
    return CodeDifference(names_frozen, changes, size, tuple(unexplained))


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def _content(files: Mapping[str, Path], name: str) -> bytes:
    """Return the content of a file, empty if there is none. Raises HarnessError if it is too large for a patch."""
    return read_bounded(files[name], limit=_MAX_TEXT_BYTES) if name in files else b""


def _change(name: str, old: Path | None, new: Path | None) -> str:
    if new is None:
        return "removed"
    if old is None:
        return "added"
    old_lines, new_lines = _lines(old), _lines(new)
    if old_lines is None or new_lines is None:
        return f"changed from {old.stat().st_size:,} to {new.stat().st_size:,} bytes, not text"
    if max(len(old_lines), len(new_lines)) > _MAX_COMPARED_LINES:
        return f"changed from {len(old_lines):,} to {len(new_lines):,} lines, too many to compare"
    lines = list(difflib.unified_diff(old_lines, new_lines, f"frozen/{name}", f"bundle/{name}", lineterm=""))
    if not lines:
        return "only the line endings differ"
    rest = [f"… {len(lines) - _MAX_DIFF_LINES:,} more lines"] if len(lines) > _MAX_DIFF_LINES else []
    return "\n".join([*lines[:_MAX_DIFF_LINES], *rest])


def _lines(path: Path) -> list[str] | None:
    """Return the lines of a file, or None if it is not UTF-8 text or too large to compare."""
    if path.stat().st_size > _MAX_TEXT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return None


@dataclass
class _PatchedFile:
    """A file while hunks are applied, in lines: those of the `old` one from `done` on are not in `new` yet."""

    old: list[bytes]
    done: int = 0
    new: list[bytes] = field(default_factory=list)
    fits: bool = True

    def replace(self, start: int, removed: list[bytes], added: list[bytes]) -> None:
        """Apply a hunk, which fits if the `removed` lines begin at line `start` (from 0)."""
        end = start + len(removed)
        self.fits &= self.done <= start and end <= len(self.old) and self.old[start:end] == removed
        self.new += [*self.old[self.done : start], *added]
        self.done = end


def _apply(
    patch: bytes, old: Mapping[str, Path], *, code_files: Collection[str], path: Path
) -> tuple[dict[str, bytes | None], Counter[bytes]]:
    """Apply a unified diff. Return the new content of each file, None if it does not fit, and the lines of each sign.

    A file is the longest end of its path in the diff that is one of `code_files`; one that is not `old` is empty
    before. Lines outside hunks, such as those of git, are ignored. Raises HarnessError, with the line of `path`, if a
    file is not known, if one occurs twice, or if a hunk is not as long as it says.
    """
    files: dict[str, _PatchedFile] = {}
    signs: Counter[bytes] = Counter()
    lines = _LINE.findall(patch)
    numbered = zip(accumulate(line.count(b"\n") for line in lines), lines, strict=True)
    file, before = _PatchedFile([]), b""
    for number, line in numbered:
        where = f"{path}, line {number}"
        if before.startswith(b"--- ") and line.startswith(b"+++ "):
            name = _file_name(before, line, code_files, where)
            if name in files:
                raise HarnessError(f"{where}: a second change of {shorten(name)}. Write one section for each file.")
            file = files[name] = _PatchedFile(io.BytesIO(_content(old, name)).readlines())
        elif (header := _HUNK.match(line)) is not None and files:
            old_count, new_count = int(header[2] or 1), int(header[4] or 1)
            removed: list[bytes] = []
            added: list[bytes] = []
            while len(removed) < old_count or len(added) < new_count:
                line = next(numbered, (0, b""))[1]
                sign, (text, end, no_end) = line[:1], line[1:].partition(b"\n")
                text += b"" if no_end else end
                signs[sign] += 1
                if sign in (b" ", b"-"):
                    removed.append(text)
                if sign in (b" ", b"+"):
                    added.append(text)
                if sign not in (b" ", b"-", b"+") or len(removed) > old_count or len(added) > new_count:
                    raise HarnessError(f"{where}: the hunk differs in length from its header. Use diff -ruN.")
            # Without old lines, the number is that of the line before.
            file.replace(int(header[1]) - (old_count > 0), removed, added)
        before = line
    if not files:
        raise HarnessError(f"{path}: not a unified diff. `diff -ruN` and `git diff` write them.")
    return {name: b"".join(f.new + f.old[f.done :]) if f.fits else None for name, f in files.items()}, signs


def _file_name(old_line: bytes, new_line: bytes, code_files: Collection[str], where: str) -> str:
    names = set()
    for line in (old_line, new_line):
        # diff writes a time after a tab.
        written = line[4:].split(b"\t")[0].rstrip(b"\r\n").decode(errors="replace")
        parts = written[-_MAX_PATH:].split("/")
        ends = ("/".join(parts[first:]) for first in range(len(parts)))
        if written != _NO_FILE:
            names.add(next((end for end in ends if end in code_files), ""))
    if len(names) != 1 or names == {""}:
        raise HarnessError(f"{where}: not a change of one file in code/. Use diff -ruN FROZEN/code BUNDLE/code.")
    return names.pop()
