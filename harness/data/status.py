"""The state of the files of a round: each file, the official checksum of the joined rows, how to get the rest."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from harness.core.arrays import mapped_array, token_rows
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.rounds import FILE_FIELDS, Round
from harness.data.catalog import FOLDER, SATML, SPLITS, Split

FETCH_COMMAND = "harness data fetch satml"


class FileState(StrEnum):
    """The state of one file."""

    PRESENT = "present"
    MISSING = "missing"
    WRONG = "wrong"


class Checksum(StrEnum):
    """The result of comparing joined rows with the official md5."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class FileStatus:
    """A file that a round names: the fields that name it, its path, its state and what is wrong with it."""

    fields: tuple[str, ...]
    path: Path
    state: FileState
    shape: tuple[int, ...] | None = None
    fault: str = ""


@dataclass(frozen=True)
class JoinedRows:
    """The comparison of the three joined files of one split with the md5 of the organizers."""

    split: str
    checksum: Checksum
    expected: str
    actual: str = ""
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True)
class RoundStatus:
    """The files of a round on this machine. examples: None if a file is missing that would tell the number."""

    round: Round
    examples: int | None
    files: tuple[FileStatus, ...]
    joined: tuple[JoinedRows, ...]
    commands: tuple[str, ...]

    @property
    def missing(self) -> tuple[FileStatus, ...]:
        """Return the files that do not exist, whether a run needs them or not."""
        return tuple(file for file in self.files if file.state is FileState.MISSING)

    @property
    def is_complete(self) -> bool:
        """Return True if all files exist that a run needs. A blind round needs neither answers nor pre-prefixes."""
        unneeded = {"answer_file", "preprefix_file"} if self.round.is_blind else set()
        return all(file.state is FileState.PRESENT or set(file.fields) <= unneeded for file in self.files)

    @property
    def is_sound(self) -> bool:
        """Return True if no existing file contradicts the round or the official checksum."""
        return all(file.state is not FileState.WRONG for file in self.files) and all(
            rows.checksum is not Checksum.WRONG for rows in self.joined
        )


def round_status(round_: Round) -> RoundStatus:
    """Return the state of the files of a round. Each file is read once."""
    files = tuple(_file_statuses(round_))
    return RoundStatus(round_, _examples(round_, files), files, tuple(_joined_rows(round_)), _commands(files))


def _file_statuses(round_: Round) -> Iterator[FileStatus]:
    for path in round_.files:
        fields = tuple(field for field in FILE_FIELDS if getattr(round_, field) == path)
        if not path.exists():
            yield FileStatus(fields, path, FileState.MISSING)
            continue
        try:
            for field in fields:
                _check_rows(round_, field, path)
            yield FileStatus(fields, path, FileState.PRESENT, mapped_array(path).shape)
        except HarnessError as error:
            fault = str(error).removeprefix(f"{path}: ").rstrip(".")
            yield FileStatus(fields, path, FileState.WRONG, fault=fault)


def _check_rows(round_: Round, field: str, path: Path) -> None:
    length = {
        "prefix_file": round_.prefix_length,
        "train_prefix_file": round_.prefix_length,
        "answer_file": round_.suffix_length,
        "train_suffix_file": round_.suffix_length,
    }.get(field)
    rows = round_.train_rows if field.startswith("train_") else round_.answer_rows
    token_rows(path, length=length, vocabulary=round_.vocabulary, rows=rows)


def _examples(round_: Round, files: tuple[FileStatus, ...]) -> int | None:
    if round_.fold is None and round_.answer_rows is not None:
        return round_.answer_rows[1] - round_.answer_rows[0]
    needed = {"train_prefix_file", "train_suffix_file"} if round_.fold is not None else {"prefix_file"}
    if any(needed & set(file.fields) and file.state is not FileState.PRESENT for file in files):
        return None
    return len(load_prefixes(round_))


def _joined_rows(round_: Round) -> Iterator[JoinedRows]:
    """Yield a comparison for each public split whose three files the round names, in the directory of the data set."""
    named = {path.name: path for path in round_.files if path.parent.name == FOLDER}
    for split in SPLITS.values():
        paths = [named[name] for name in split.file_names if name in named]
        if len(paths) == len(split.file_names):
            yield _compare_with_official(split, paths)


def _compare_with_official(split: Split, paths: list[Path]) -> JoinedRows:
    if lacking := tuple(path.name for path in paths if not path.exists()):
        return JoinedRows(split.name, Checksum.UNCHECKED, split.md5, lacking=lacking)
    try:
        actual = joined_md5(paths)
    except HarnessError as error:
        return JoinedRows(split.name, Checksum.WRONG, split.md5, actual=str(error))
    return JoinedRows(split.name, Checksum.RIGHT if actual == split.md5 else Checksum.WRONG, split.md5, actual)


def joined_md5(paths: list[Path]) -> str:
    """Return the checksum of the organizers: hex md5 of the rows, joined along axis 1, as little-endian uint16.

    Raises HarnessError, naming the file, if a file has no token rows or not as many as the first.
    """
    parts = [token_rows(path, length=None, vocabulary=1 << 16) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        if len(part) != len(parts[0]):
            raise HarnessError(f"{path} has {len(part)} rows, but {paths[0].name} has {len(parts[0])}.")
    joined = np.concatenate(parts, axis=1).astype("<u2")
    return hashlib.md5(joined.tobytes(), usedforsecurity=False).hexdigest()


def _commands(files: tuple[FileStatus, ...]) -> tuple[str, ...]:
    """Return the command that fetches the missing files that are public, if there are any."""
    missing = {
        file.path.name for file in files if file.state is not FileState.PRESENT and file.path.parent.name == FOLDER
    }
    return (FETCH_COMMAND,) if missing & {file.name for file in SATML} else ()
