"""The comparison of a bundle's code with the frozen code."""

from pathlib import Path

import pytest

from harness.submit.verdict import CodeDifference, compare_code

FILES = {"run.sh": "exit 0\n", "attack/a.py": "one\ntwo\nthree\n", "README.md": "before\n"}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side in ("bundle", "frozen"):
        for name, text in FILES.items():
            path = tmp_path / side / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path / "bundle", tmp_path / "frozen"


def _difference(folders: tuple[Path, Path], *, names_frozen: bool = True) -> CodeDifference:
    return compare_code(*folders, names_frozen=names_frozen)


def test_equal_code_is_the_same(folders: tuple[Path, Path]) -> None:
    assert _difference(folders).is_same
    assert _difference(folders).summary == "the code is the frozen code, and the manifest contains its hash"
    assert _difference(folders, names_frozen=False).summary.endswith("and the manifest contains another hash")


def test_the_readme_is_ignored(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/README.md").write_text("after\n")
    assert _difference(folders).is_same


def test_a_changed_line_is_shown(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/attack/a.py").write_text("one\nTWO\nthree\n")
    found = _difference(folders)
    assert not found.is_same and found.summary == "1 files differ from the frozen code: attack/a.py"
    assert found.changes["attack/a.py"].splitlines()[0] == "--- frozen/attack/a.py"
    assert {"-two", "+TWO"} <= set(found.changes["attack/a.py"].splitlines())


def test_added_and_removed_files_are_listed(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/extra").write_text("x")
    (folders[0] / "code/run.sh").unlink()
    assert _difference(folders).changes == {"extra": "added", "run.sh": "removed"}


def test_a_readme_in_a_subfolder_is_compared(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/attack/README.md").write_text("x")
    assert _difference(folders).changes == {"attack/README.md": "added"}


def test_different_line_endings_are_reported(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/run.sh").write_bytes(b"exit 0\r\n")
    assert _difference(folders).changes == {"run.sh": "only the line endings differ"}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x" * (2 << 20)], ids=["binary", "huge"])
def test_files_that_are_not_text_are_compared_by_size(content: bytes, folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/run.sh").write_bytes(content)
    change = _difference(folders).changes["run.sh"]
    assert change == f"changed from 7 to {len(content):,} bytes, not text"


def test_a_long_difference_is_cut(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/run.sh").write_text("".join(f"line {number}\n" for number in range(1000)))
    lines = _difference(folders).changes["run.sh"].splitlines()
    assert len(lines) == 201 and lines[-1] == "… 804 more lines"


def test_a_bundle_without_code_lacks_each_file(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    assert set(compare_code(empty, folders[1], names_frozen=False).changes) == {"run.sh", "attack/a.py"}
