"""The files whose changes make the leaderboard rank again."""

from pathlib import Path

import pytest

from harness.submit.verdict import verdict_path
from harness.tui.pages.leaderboard import _bundle_files


def test_a_verdict_counts_and_a_deleted_bundle_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "a.zip").touch()
    (folder / "gone.zip").symlink_to(folder / "deleted")
    before = _bundle_files()
    assert [file.name for file, _ in before] == ["a.zip"]
    verdict_path(before[0][0]).touch()
    assert len(_bundle_files()) == 2
