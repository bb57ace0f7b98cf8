"""Directories with odd names and links are read, or refused in one sentence."""

import os
import sys
from pathlib import Path

import pytest

from harness.cli.app import main
from harness.core.inputs import content_sha256
from harness.core.text import sanitize
from harness.corpora.documents import documents_in
from harness.corpora.text_files import Notes


def test_a_name_that_is_not_utf8_is_hashed_and_differs(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.txt")
    file.write_text("text")
    first = content_sha256(tmp_path)
    file.rename(tmp_path / os.fsdecode(b"caf\xe8.txt"))
    assert content_sha256(tmp_path) != first


@pytest.mark.parametrize(
    "names", [(b"caf\xe9.txt", b"caf\xe8.txt"), ("a\u200bb.txt".encode(), "a\u200cb.txt".encode())]
)
def test_documents_whose_names_cannot_be_shown_stay_apart(tmp_path: Path, names: tuple[bytes, bytes]) -> None:
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text("text")
    documents = [document.name for document in documents_in(tmp_path, field=None, split=None, notes=Notes())]
    assert len(set(documents)) == 2 and all(sanitize(name) == name for name in documents)


@pytest.mark.parametrize("place", ["argument", "folder", "link", "home"])
def test_a_path_that_is_not_utf8_is_refused_in_one_sentence(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    named = folder if place == "argument" else tmp_path / "named"
    if place == "link":
        named.symlink_to(folder)
    if place == "folder":
        monkeypatch.chdir(folder)
    if place == "home":
        monkeypatch.setenv("HARNESS_HOME", str(folder))
    monkeypatch.setattr(sys, "argv", ["harness", "run", "baseline", "--target", str(named)])
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capsys.readouterr().err
    assert "caf\\udce9" in error and "is not UTF-8. Rename the file or directory" in error and "internal" not in error
