"""Sizes of directories that an attack may have filled."""

from pathlib import Path

import pytest

from harness.core import files
from harness.core.files import is_larger_than


def test_bytes_are_counted_in_every_folder_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert is_larger_than(tmp_path, 50_000)
    assert not is_larger_than(tmp_path, 1_000_000)


def test_more_names_than_anybody_counts_are_too_many_however_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        (tmp_path / f"{number}").touch()
    assert not is_larger_than(tmp_path, 1_000_000)
    monkeypatch.setattr(files, "_MOST_ENTRIES", 10)
    assert is_larger_than(tmp_path, 1_000_000)


def test_a_file_with_holes_weighs_what_it_takes(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert not is_larger_than(tmp_path, 1_000_000)


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert not is_larger_than(tmp_path / "gone", 0)
