"""Directories with odd names and links are read, or refused in one sentence."""

import os
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.inputs import content_sha256, files_in


def test_a_name_that_is_not_utf8_is_hashed_and_differs(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.txt")
    file.write_text("text")
    first = content_sha256(tmp_path)
    file.rename(tmp_path / os.fsdecode(b"caf\xe8.txt"))
    assert content_sha256(tmp_path) != first


def test_a_link_that_leads_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("x")
    (tmp_path / "y").symlink_to("z")
    (tmp_path / "z").symlink_to("y")
    with pytest.raises(HarnessError, match="is a link that leads to itself"):
        files_in(tmp_path)
