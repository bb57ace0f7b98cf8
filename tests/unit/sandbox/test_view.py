"""The files that a sandboxed process may see."""

import sys
from pathlib import Path

import pytest

from harness.core import paths
from harness.sandbox import SandboxPolicy
from harness.sandbox.backends.landlock import file_rules
from harness.sandbox.view import Access, FileView, file_view


def test_the_view_shows_the_system_and_no_home_and_no_answers(tmp_path: Path) -> None:
    view = file_view(SandboxPolicy(writable=(tmp_path,)))
    for path in ("/usr/bin/env", paths.PACKAGE / "__init__.py", Path(sys.executable), "/etc/passwd"):
        assert view.access(Path(path).resolve()) is Access.READ
    assert view.access(tmp_path.resolve()) is Access.WRITE
    private = (Path.home(), paths.SHIPPED_ROUNDS / "demo", tmp_path.parent)
    for path in (*private, "/etc/shadow", "/root", "/var", "/mnt", "/srv"):
        assert view.access(Path(path)) in (None, Access.HIDDEN)


def test_only_the_interpreter_is_visible_in_a_home_that_contains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin", "lib", "diary", "data"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    view = file_view(SandboxPolicy())
    assert view.access(tmp_path / "bin" / "python") is Access.READ
    assert view.access(tmp_path / "diary") is Access.HIDDEN and view.access(tmp_path / "data") is Access.HIDDEN


def test_the_view_contains_the_links_to_a_visible_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "again").symlink_to(tmp_path / "real" / "deep")
    view = file_view(SandboxPolicy(readable=(tmp_path / "link" / "again",)))
    assert view.links[tmp_path / "link"] == "real"
    assert view.links[tmp_path / "real" / "again"] == str(tmp_path / "real" / "deep")
    assert view.access(tmp_path / "real" / "deep") is Access.READ and view.access(tmp_path / "real") is None


def test_only_linked_directories_follow_links_inside(tmp_path: Path) -> None:
    for name in ("theirs", "model", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    for name in ("theirs", "model"):
        (tmp_path / name / "link").symlink_to(tmp_path / "elsewhere" / "secret")
    secret = (tmp_path / "elsewhere" / "secret").resolve()
    assert file_view(SandboxPolicy(readable=(tmp_path / "theirs",))).access(secret) is None
    assert file_view(SandboxPolicy(linked=(tmp_path / "model",))).access(secret) is Access.READ


def test_landlock_allows_no_directory_that_contains_a_hidden_path(tmp_path: Path) -> None:
    for name in ("hidden", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    rules = dict(file_rules(FileView({tmp_path: Access.WRITE, tmp_path / "hidden": Access.HIDDEN}, {})))
    assert rules[str(tmp_path)] == "list" and rules[str(tmp_path / "shown")] == "write"
    assert not [path for path in rules if path.startswith(str(tmp_path / "hidden"))]
