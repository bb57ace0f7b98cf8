"""Files: permissions, atomic replacement, and sizes of directories with untrusted content."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.files import atomic_file, is_larger_than, write_atomically, write_export


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_exported_files_respect_the_umask_and_other_files_are_private(tmp_path: Path, umask: int) -> None:
    write_export(tmp_path / "report.html", "text")
    write_atomically(tmp_path / "spec.json", b"bytes")
    assert _mode(tmp_path / "report.html") == 0o666 & ~umask
    assert _mode(tmp_path / "spec.json") == 0o600
    assert (tmp_path / "report.html").read_text() == "text"


def test_a_failed_replacement_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(path := tmp_path / "file", "old")
    with pytest.raises(RuntimeError), atomic_file(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_sizes_are_summed_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert is_larger_than(tmp_path, 50_000, most_files=100)
    assert not is_larger_than(tmp_path, 1_000_000, most_files=100)


def test_too_many_entries_exceed_any_size(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}").touch()
    assert not is_larger_than(tmp_path, 1_000_000, most_files=100)
    assert is_larger_than(tmp_path, 1_000_000, most_files=10)


def test_a_sparse_file_counts_its_blocks(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert not is_larger_than(tmp_path, 1_000_000, most_files=100)


def test_a_missing_directory_is_empty(tmp_path: Path) -> None:
    assert not is_larger_than(tmp_path / "gone", 0, most_files=100)
