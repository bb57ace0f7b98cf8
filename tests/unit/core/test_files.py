"""Files: permissions, atomic replacement, and sizes of directories with untrusted content."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.core.files import atomic_file, is_larger_than, remove_tree, write_atomically, write_export


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


def test_an_interrupt_while_a_file_is_created_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.open

    def interrupted(path: str, *arguments: int) -> int:
        os.close(create(path, *arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_file(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == []


def test_sizes_are_summed_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert is_larger_than(tmp_path, 50_000, max_files=100)
    assert not is_larger_than(tmp_path, 1_000_000, max_files=100)


def test_too_many_entries_exceed_any_size(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}").touch()
    assert not is_larger_than(tmp_path, 1_000_000, max_files=100)
    assert is_larger_than(tmp_path, 1_000_000, max_files=10)


def test_a_sparse_file_counts_its_blocks(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert not is_larger_than(tmp_path, 1_000_000, max_files=100)


def test_a_missing_directory_is_empty(tmp_path: Path) -> None:
    assert not is_larger_than(tmp_path / "gone", 0, max_files=100)


def _make_deep(folder: Path, levels: int) -> int:
    """Create nested directories, each with a file and a link, and return the size of all files in bytes.

    The paths of the last ones can be longer than a path may be.
    """
    folder.mkdir()
    size = 0
    with contextlib.chdir(folder):
        for _ in range(levels):
            Path("inside").mkdir()
            os.chdir("inside")
            Path("file").write_bytes(b"x")
            Path("link").symlink_to("/usr")
            size += 512 * sum(Path(name).lstat().st_blocks for name in ("file", "link"))
    return size


@pytest.mark.parametrize("levels", [1, 63, 64, 65, 66, 2_000])
def test_a_tree_of_any_depth_is_measured_and_deleted(levels: int, tmp_path: Path) -> None:
    total = _make_deep(tmp_path / "deep", levels)
    assert is_larger_than(tmp_path / "deep", total - 1, max_files=10_000)
    assert not is_larger_than(tmp_path / "deep", total, max_files=3 * levels)
    assert is_larger_than(tmp_path / "deep", total, max_files=3 * levels - 1)
    descriptors = os.listdir("/proc/self/fd")
    remove_tree(tmp_path / "deep")
    assert os.listdir(tmp_path) == [] and os.listdir("/proc/self/fd") == descriptors


def test_deletion_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone" / "inside").mkdir(parents=True)
    (tmp_path / "gone" / "inside" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("gone", "link", "absent"):
        remove_tree(tmp_path / name)
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["kept", "file"]


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A directory that other users can write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def _without_rights(function: Callable[[], bool]) -> bool:
    """Return what `function` returns in a process that is not root's, because root needs no permissions."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.setresuid(12345, 12345, 12345)
            code = 0 if function() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_directories_without_permissions_are_measured_and_deleted(shared_folder: Path) -> None:
    def try_it() -> bool:
        tree = shared_folder / "tree"
        (inside := tree / "a" / "b").mkdir(parents=True)
        (inside / "file").write_bytes(b"x" * 10_000)
        for path in (inside, inside.parent, tree):
            path.chmod(0)
        is_measured = is_larger_than(tree, 5_000, max_files=100)
        inside.parent.chmod(0)
        remove_tree(tree)
        return is_measured

    assert _without_rights(try_it) and os.listdir(shared_folder) == []


@pytest.mark.skipif(os.getuid() != 0, reason="Only root can create directories of another user.")
def test_what_cannot_be_deleted_is_reported_after_everything_else_is_gone(shared_folder: Path) -> None:
    (tree := shared_folder / "tree").mkdir()
    tree.chmod(0o777)
    (tree / "of root" / "inside").mkdir(parents=True)

    def try_it() -> bool:
        for name in ("a", "z"):
            (tree / name / "inside").mkdir(parents=True)
        with pytest.raises(PermissionError):
            remove_tree(tree)
        return True

    assert _without_rights(try_it) and os.listdir(tree) == ["of root"]
