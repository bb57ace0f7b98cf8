"""The comparison of a bundle's code with the frozen code, without and with an approved patch."""

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.submit.frozen_code import CodeDifference, compare_code

FILES = {"run.sh": "exit 0\n", "attack/a.py": "one\ntwo\nthree\n", "README.md": "before\n"}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side in ("bundle", "frozen"):
        for name, text in FILES.items():
            path = tmp_path / side / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path / "bundle", tmp_path / "frozen"


def _difference(folders: tuple[Path, Path], *, names_frozen: bool = True, patch: bytes | None = None) -> CodeDifference:
    path = folders[0].parent / "fix.patch"
    if patch is not None:
        path.write_bytes(patch)
    return compare_code(*folders, names_frozen=names_frozen, patch=None if patch is None else path)


def test_equal_code_is_the_same(folders: tuple[Path, Path]) -> None:
    assert _difference(folders).is_same
    assert _difference(folders).summary == "the code is the frozen code, and the manifest contains its hash"
    assert _difference(folders, names_frozen=False).summary.endswith("and the manifest contains another hash")


def test_a_changed_line_is_shown(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/attack/a.py").write_text("one\nTWO\nthree\n")
    found = _difference(folders)
    assert not found.is_same and found.summary == "1 file differs from the frozen code: attack/a.py"
    assert found.changes["attack/a.py"].splitlines()[0] == "--- frozen/attack/a.py"
    assert {"-two", "+TWO"} <= set(found.changes["attack/a.py"].splitlines())


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ({"README.md": b"after\n"}, {}),
        ({"extra": b"x", "run.sh": None}, {"extra": "added", "run.sh": "removed"}),
        ({"attack/README.md": b"x"}, {"attack/README.md": "added"}),
        ({"run.sh": b"exit 0\r\n"}, {"run.sh": "only the line endings differ"}),
        ({"run.sh": b"\xff\xfe\x00"}, {"run.sh": "changed from 7 to 3 bytes, not text"}),
        ({"run.sh": b"x" * (2 << 20)}, {"run.sh": "changed from 7 to 2,097,152 bytes, not text"}),
    ],
    ids=["readme", "added and removed", "readme in a subfolder", "line endings", "binary", "huge"],
)
def test_each_changed_file_is_described(
    content: dict[str, bytes | None], changes: dict[str, str], folders: tuple[Path, Path]
) -> None:
    for name, changed in content.items():
        path = folders[0] / "code" / name
        path.unlink() if changed is None else path.write_bytes(changed)
    assert _difference(folders).changes == changes


def test_a_long_difference_is_cut(folders: tuple[Path, Path]) -> None:
    (folders[0] / "code/run.sh").write_text("".join(f"line {number}\n" for number in range(1000)))
    lines = _difference(folders).changes["run.sh"].splitlines()
    assert len(lines) == 201 and lines[-1] == "… 804 more lines"


def test_hostile_files_are_not_compared_line_by_line(folders: tuple[Path, Path]) -> None:
    """difflib would take a second for 2,000 such lines, ten for 4,000, and eight times as long for twice as many."""
    for folder, step in zip(folders, (1, 2), strict=True):
        (folder / "code/run.sh").write_text("".join(f"{number // step % 101}\n" for number in range(100_000)))
        for number in range(30):
            (folder / f"code/{number:02}").write_text(f"{step}\n")
    changes = _difference(folders).changes
    assert _difference(folders).summary == "31 files differ from the frozen code: 00, 01, 02, 03, 04 and 26 more"
    assert changes["run.sh"] == "differs" and changes["19"].startswith("---") and changes["20"] == "differs"
    for number in range(30):
        (folders[0] / f"code/{number:02}").unlink()
        (folders[1] / f"code/{number:02}").unlink()
    assert _difference(folders).changes == {"run.sh": "changed from 100,000 to 100,000 lines, too many to compare"}


def test_a_bundle_without_code_lacks_each_file(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    assert set(compare_code(empty, folders[1], names_frozen=False).changes) == {"run.sh", "attack/a.py"}


def _unified(old: bytes, new: bytes, name: str) -> bytes:
    """Return the diff of two texts whose lines all end, as `diff -u` writes it."""
    lines = (text.splitlines(keepends=True) for text in (old, new))
    return b"".join(difflib.diff_bytes(difflib.unified_diff, *lines, f"a/{name}".encode(), f"b/{name}".encode()))


CHANGED = b"one\nTWO\nthree\nfour\n"
PATCH = _unified(b"one\ntwo\nthree\n", CHANGED, "attack/a.py")


@pytest.fixture
def patched(folders: tuple[Path, Path]) -> tuple[Path, Path]:
    """The folders of a bundle whose code is the frozen code with PATCH."""
    (folders[0] / "code/attack/a.py").write_bytes(CHANGED)
    return folders


def test_a_patch_that_explains_every_difference_is_accepted(patched: tuple[Path, Path]) -> None:
    found = _difference(patched, patch=PATCH)
    assert found.is_accepted and not found.is_same and found.unexplained == ()
    assert found.patch is not None
    assert (found.patch.files, found.patch.lines_added, found.patch.lines_removed) == (1, 2, 1)
    size = f"1 file, 2 lines added, 1 removed, {len(PATCH)} bytes"
    assert found.summary == f"the code is the frozen code with a patch of {size}"
    assert set(found.changes) == {"attack/a.py"}


@pytest.mark.parametrize(
    "headers",
    [
        b"diff --git a/code/attack/a.py b/code/attack/a.py\nindex 1..2 100644\n--- a/code/attack/a.py\n"
        b"+++ b/code/attack/a.py\n",
        b"diff -ruN f/code/attack/a.py b/code/attack/a.py\n--- f/code/attack/a.py\t2023-01-01 00:00:00.0 +0000\n"
        b"+++ b/code/attack/a.py\t2023-01-02 00:00:00.0 +0000\n",
        b"--- /tmp/one/code/attack/a.py\n+++ /tmp/two/code/attack/a.py\n",
        b"--- attack/a.py\n+++ attack/a.py\n",
    ],
    ids=["git", "diff", "absolute", "bare"],
)
def test_headers_of_git_and_diff_are_read(patched: tuple[Path, Path], headers: bytes) -> None:
    body = PATCH[PATCH.index(b"@@") :]
    assert _difference(patched, patch=headers + body + b"-- \n2.43.0\n").is_accepted


def test_code_without_the_patch_is_still_the_frozen_code(folders: tuple[Path, Path]) -> None:
    found = _difference(folders, patch=PATCH)
    assert found.is_accepted and found.is_same and found.patch is None


def test_a_change_besides_the_patch_is_not_accepted(patched: tuple[Path, Path]) -> None:
    (patched[0] / "code/run.sh").write_text("exit 1\n")
    (patched[0] / "code/attack/__init__.py").write_bytes(b"")
    found = _difference(patched, patch=PATCH)
    assert not found.is_accepted and found.unexplained == ("attack/__init__.py", "run.sh")
    assert found.summary == "2 files differ from the frozen code with the patch: attack/__init__.py, run.sh"


def test_a_patch_that_changes_more_than_the_bundle_is_not_accepted(patched: tuple[Path, Path]) -> None:
    more = _unified(b"exit 0\n", b"exit 1\n", "run.sh")
    assert _difference(patched, patch=PATCH + more).unexplained == ("run.sh",)


def test_changes_of_the_readme_are_ignored_in_a_patch_too(patched: tuple[Path, Path]) -> None:
    found = _difference(patched, patch=PATCH + _unified(b"before\n", b"x\n" * 99, "README.md"))
    assert found.is_accepted and found.patch is not None and found.patch.files == 1


@pytest.mark.parametrize(
    "patch",
    [
        PATCH.replace(b"-two", b"-Two"),
        PATCH.replace(b" one\n", b" One\n"),
        PATCH.replace(b"@@ -1,3 +1,4 @@", b"@@ -2,3 +2,4 @@"),
        PATCH.replace(b"@@ -1,3 +1,4 @@", b"@@ -9999999,3 +1,4 @@"),
        PATCH.replace(b"\n", b"\r\n"),
        PATCH + PATCH[PATCH.index(b"@@") :],
        b"--- a/attack/a.py\n+++ b/attack/a.py\n@@ -9,0 +10 @@\n+x\n",
        b"--- a/attack/a.py\n+++ b/attack/a.py\n",
        b"--- a/attack/a.py\n+++ b/attack/a.py\nBinary files a/attack/a.py and b/attack/a.py differ\n",
    ],
    ids=["removed", "context", "moved", "far", "line ends", "twice", "beyond the end", "no hunk", "binary"],
)
def test_a_patch_fits_exactly_or_not_at_all(patched: tuple[Path, Path], patch: bytes) -> None:
    assert _difference(patched, patch=patch).unexplained == ("attack/a.py",)


@pytest.mark.parametrize(
    ("patch", "fault"),
    [
        (b"", "fix.patch: not a unified diff"),
        (b"\x00\xff" * 99, "not a unified diff"),
        (b"x" * (2 << 20), "fix.patch: larger than 1,048,576 bytes"),
        (b"--- a/../../../etc/passwd\n+++ b/../../../etc/passwd\n@@ -1 +1 @@\n-x\n+y\n", "line 2: not a change of one"),
        (b"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-x\n+y\n", "line 2: not a change of one file in code/"),
        (b"--- a/attack/a.py\n+++ b/run.sh\n@@ -1 +1 @@\n-x\n+y\n", "Use diff -ruN FROZEN/code BUNDLE/code"),
        (b"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-x\n+y\n", "line 2: not a change of one file in code/"),
        (b"--- " + b"a/" * 300_000 + b"\n+++ b/run.sh\n", "line 2: not a change of one file in code/"),
        (PATCH + PATCH, "line 10: a second change of attack/a.py"),
        (PATCH[:-7], "fix.patch, line 3: the hunk differs in length from its header. Use diff -ruN"),
        (PATCH.replace(b"+1,4", b"+1,5"), "line 3: the hunk differs in length"),
        (PATCH.replace(b"-1,3", b"-1,1"), "line 3: the hunk differs in length"),
        (PATCH.replace(b" one", b"one"), "line 3: the hunk differs in length"),
    ],
)
def test_a_hostile_patch_is_refused_with_its_line(patched: tuple[Path, Path], patch: bytes, fault: str) -> None:
    with pytest.raises(HarnessError) as refused:
        _difference(patched, patch=patch)
    assert fault in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["no end", "end"])
def test_a_patch_adds_removes_and_ends_files(folders: tuple[Path, Path], end: bytes) -> None:
    code = folders[0] / "code"
    (code / "new.py").write_bytes(b"x\ny" + end)
    (code / "run.sh").unlink()
    (code / "attack/a.py").write_bytes(b"one\ntwo\nthree" + end)
    (folders[1] / "code/attack/a.py").write_bytes(b"one\ntwo\nTHREE")
    no_end = b"\\ No newline at end of file\n"
    last = b"" if end else no_end
    patch = b"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+x\n+y\n" + last
    patch += b"--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-exit 0\n"
    patch += b"--- a/attack/a.py\n+++ b/attack/a.py\n@@ -3 +3 @@\n-THREE\n" + no_end + b"+three\n" + last
    found = _difference(folders, patch=patch)
    assert found.is_accepted and found.patch is not None and found.patch.files == 3
    assert found.changes["new.py"] == "added" and found.changes["run.sh"] == "removed"


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"-- x\n", b"++ y\n", b"@@ -1 +1 @@\n", b"\\ z\n", b"\n", b" c\r\n"]))


@given(LINES, LINES)
def test_every_diff_of_two_texts_is_applied_exactly(tmp_path_factory, old: list[bytes], new: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("sides")
    for side, lines in (("frozen", old), ("bundle", new)):
        (folder / side / "code").mkdir(parents=True)
        (folder / side / "code" / "f").write_bytes(b"".join(lines))
    difference = difflib.diff_bytes(difflib.unified_diff, old, new, b"a/f", b"b/f", n=len(old) % 3)
    (folder / "p").write_bytes(b"".join(difference))
    found = compare_code(folder / "bundle", folder / "frozen", names_frozen=False, patch=folder / "p")
    assert found.is_accepted and found.is_same is (old == new)
    if found.patch is not None:
        assert found.patch.lines_added - found.patch.lines_removed == len(new) - len(old)
