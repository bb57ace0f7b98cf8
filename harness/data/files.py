"""The public files of the SaTML 2023 training data extraction challenge, and the state of the files of a round.

The licence of all public files is Apache-2.0. The state of a round lists each file, the checksums of the joined rows
that the organizers published, and the commands that fetch what is missing.
"""

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

FOLDER = "satml"
"""Name of the data set's directory inside the data directory."""
FETCH_COMMAND = "harness data fetch satml"
# MD5 of the rows of each split, published by the organizers: 100 + 50 + 50 tokens as little-endian uint16, example by
# example. The test suffixes were never published, so their owners alone can check that split.
_MD5 = {
    "train": "6d85d7f2b48e34e6f96541a546a699bf",
    "val": "318d6f3d68dfd3497956a79678067c62",
    "test": "ddcc8318f0cf1f857a6adcb18e6726b8",
}


class Base(StrEnum):
    """Base addresses of the authors: the repository of the challenge, and the data repository that its README names."""

    CHALLENGE = "https://raw.githubusercontent.com/google-research/lm-extraction-benchmark/master"
    TRAINING_DATA = "https://raw.githubusercontent.com/ethz-privsec/lm-extraction-benchmark-data/main"


@dataclass(frozen=True)
class PublicFile:
    """A published file: its name, its path below a base address, its size in bytes and its hex SHA-256."""

    name: str
    base: Base
    path: str
    size: int
    sha256: str

    @property
    def address(self) -> str:
        """Return the address at which the authors publish the file."""
        return f"{self.base}/{self.path}"


_PUBLISHED = {
    # path below the base address, size in bytes, SHA-256
    Base.TRAINING_DATA: """
    datasets/train_preprefix.npy 3000128 a9c3ed1dc735d4b93183b47a3c08e9613d1d36da0a7f26790e19a8f87e10a70d
    datasets/train_prefix.npy 1500128 a2f69009df399132937f028e73b4a37783ee27704a01ca74e3f9e6ece0807aa9
    datasets/train_suffix.npy 1500128 5934e2007eeb42efd057646da5094716aa0bb1cac386f898b075a58299162c39
    """,
    Base.CHALLENGE: """
    datasets/val_preprefix.npy 200128 6bd9871a4d967cf107e50e1236a22565e3e02a65256b3a717151b41722d4e748
    datasets/val_prefix.npy 100128 b270fcb1d441bae4314a32f28eeb285866455dc0d591d45d481924e919d5c20b
    datasets/val_suffix.npy 100128 8ef968b406cd54202ff4835c300a95b4e979b39a567a4e7426bf5c0be274cfa7
    datasets/test_prefix.npy 100128 16414ba3006a3fdaedcd48373d2f74a2d22861e626a1d98eaf0a858fc471e206
    example_submission/example_submission.csv 288925 60cb0671c402801056ea37ec3ed297389af56d28673106d747df20ead13141bd
    example_submission/fake_test_suffixes.npy 80128 85a210d556c99da57878ecf4990baa196c8987fb952608c86e2cccd5e73f8179
    """,
}
SATML = tuple(
    PublicFile(path.rpartition("/")[2], base, path, int(size), sha256)
    for base, table in _PUBLISHED.items()
    for path, size, sha256 in map(str.split, table.strip().splitlines())
)


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
    """A file that a round names."""

    fields: tuple[str, ...]
    """Fields of the round that name the file."""
    path: Path
    """Path of the file."""
    state: FileState
    """State of the file."""
    shape: tuple[int, ...] | None = None
    """Shape of the array. Null if the file is missing or wrong."""
    fault: str = ""


@dataclass(frozen=True)
class JoinedRows:
    """The comparison of the three joined files of one split with the md5 of the organizers."""

    split: str
    """Name of the split."""
    checksum: Checksum
    """Result of the comparison."""
    expected: str
    """MD5 that the organizers published."""
    actual: str = ""
    """MD5 of the files, or why there is none. Empty if it was not checked."""
    lacking: tuple[str, ...] = ()
    """Names of missing files."""


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
        """True if no existing file contradicts the round or the official MD5."""
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
    prefixes, suffixes = round_.prefix_length, round_.suffix_length
    lengths = {"prefix_file": prefixes, "answer_file": suffixes, "suffix_file": suffixes}
    length = lengths.get(field.removeprefix("train_"))
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
    paths_by_name = {path.name: path for path in round_.files if path.parent.name == FOLDER}
    for split, md5 in _MD5.items():
        names = [f"{split}_{part}.npy" for part in ("preprefix", "prefix", "suffix")]
        paths = [paths_by_name[name] for name in names if name in paths_by_name]
        if len(paths) == len(names):
            yield _compare_with_official(split, md5, paths)


def _compare_with_official(split: str, md5: str, paths: list[Path]) -> JoinedRows:
    if lacking := tuple(path.name for path in paths if not path.exists()):
        return JoinedRows(split, Checksum.UNCHECKED, md5, lacking=lacking)
    try:
        actual = joined_md5(paths)
    except HarnessError as error:
        return JoinedRows(split, Checksum.WRONG, md5, actual=str(error))
    return JoinedRows(split, Checksum.RIGHT if actual == md5 else Checksum.WRONG, md5, actual)


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
