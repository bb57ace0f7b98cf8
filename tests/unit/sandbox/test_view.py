"""The files that a sandboxed process may see."""

import itertools
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import paths
from harness.sandbox import SandboxPolicy
from harness.sandbox.backends import file_rules
from harness.sandbox.view import Access, FileView, file_view, shown_files, without_redundant

NOT_SHOWN = (None, Access.HIDDEN)
"""The access to a path outside of everything that is shown: it is hidden if it is in the home of the tests' user."""


def test_the_view_shows_the_system_and_no_home_and_no_answers(tmp_path: Path) -> None:
    view = file_view(SandboxPolicy(writable=(tmp_path,)))
    for path in ("/usr/bin/env", paths.PACKAGE / "__init__.py", Path(sys.executable), "/etc/passwd"):
        assert view.access(Path(path).resolve()) is Access.READ
    assert view.access(tmp_path.resolve()) is Access.WRITE
    private = (Path.home(), paths.BUILT_IN_ROUNDS / "demo", tmp_path.parent)
    for path in (*private, "/etc/shadow", "/root", "/var", "/mnt", "/srv"):
        assert view.access(Path(path)) in NOT_SHOWN


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
    assert view.access(tmp_path / "real" / "deep") is Access.READ
    assert view.access(tmp_path / "real") in NOT_SHOWN


def test_a_snapshot_of_the_hub_shows_the_files_of_its_model(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "commit"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    for name in ("hash", "other", "../../secret"):
        (blobs / name).write_text(name)
    (snapshot / "model.safetensors").symlink_to("../../blobs/hash")
    (snapshot / "config.json").symlink_to(tmp_path / "secret")
    policy = SandboxPolicy(readable=(snapshot,))
    view = file_view(policy)
    assert view.access(blobs / "hash") is Access.READ
    assert view.access(blobs / "other") in NOT_SHOWN and view.access(tmp_path / "secret") in NOT_SHOWN
    assert shown_files(policy) == [snapshot, blobs / "hash"]


def test_what_a_policy_hides_stays_hidden(tmp_path: Path) -> None:
    for name in ("model", "round"):
        (tmp_path / name).mkdir()
    answers = tmp_path / "round" / "answers.npy"
    answers.write_text("answers")
    for readable in (answers, answers.parent, tmp_path):
        assert file_view(SandboxPolicy(readable=(readable,), hidden=(answers,))).access(answers) is Access.HIDDEN
    assert file_view(SandboxPolicy(readable=(answers,), hidden=(answers.parent,))).access(answers) is Access.HIDDEN


def _copy_package(directory: Path) -> Path:
    """Write files where a copy of the package in `directory` has answers, and return the copy."""
    copy = directory / "harness"
    for answers in paths.BUILT_IN_ANSWERS:
        file = copy / answers.relative_to(paths.PACKAGE) / "x"
        file.parent.mkdir(parents=True)
        file.write_text("answers")
    return copy


def test_answers_are_hidden_in_every_copy_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = _copy_package(tmp_path / "site")
    monkeypatch.syspath_prepend(str(copy.parent))
    view = file_view(SandboxPolicy(readable=(tmp_path / "site",)))
    for answers in paths.BUILT_IN_ANSWERS:
        for package in (copy, paths.PACKAGE):
            assert view.access(package / answers.relative_to(paths.PACKAGE)) is Access.HIDDEN
    assert view.access(copy) is Access.READ


@pytest.mark.parametrize(
    "place",
    [
        "lib/python3.11/site-packages",
        "lib64/python3.11/site-packages",
        "lib/python3/dist-packages",
        "local/lib/python3.11/dist-packages",
        "envs/other/lib/python3.12/site-packages",
        "lib/other/lib/python3.12/site-packages",
        "local/venvs/other/lib/python3.12/site-packages",
        "local/pipx/venvs/other/lib/python3.12/site-packages",
        "local/share/pipx/venvs/other/lib/python3.12/site-packages",
    ],
)
@pytest.mark.parametrize("is_home", [False, True], ids=["alone", "in a home"])
def test_answers_are_hidden_in_copies_of_the_base_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, is_home: bool
) -> None:
    copy = _copy_package(tmp_path / place)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    if is_home:
        monkeypatch.setenv("HOME", str(tmp_path))
    view = file_view(SandboxPolicy())
    rules = dict(file_rules(view))
    for answers in paths.BUILT_IN_ANSWERS:
        hidden = copy / answers.relative_to(paths.PACKAGE)
        assert view.access(hidden) in NOT_SHOWN
        assert not {"read", "write"} & {rules.get(str(parent)) for parent in (hidden / "x", *(hidden / "x").parents)}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which each of two directories has two directories and two files, three levels deep."""
    root = tmp_path_factory.mktemp("tree")
    for names in itertools.product("ab", repeat=3):
        root.joinpath(*names).mkdir(parents=True)
    for folder in [root, *root.rglob("?")]:
        for name in ("x", "y"):
            (folder / name).write_text(name)
    return root


@given(st.dictionaries(st.integers(0, 44), st.sampled_from(Access), max_size=6))
def test_landlock_allows_what_the_view_shows(tree: Path, accesses: dict[int, Access]) -> None:
    places = sorted([tree, *tree.rglob("*")])
    view = without_redundant(FileView({places[number]: access for number, access in accesses.items()}, {}))
    given_view = FileView({places[number]: access for number, access in accesses.items()}, {})
    rules = dict(file_rules(view))
    for file in (place for place in places if place.is_file()):
        allowed = {rules.get(str(place)) for place in (file, *file.parents)} & {"read", "write"}
        expected = given_view.access(file)
        assert view.access(file) is expected or {view.access(file), expected} == {None, Access.HIDDEN}
        if expected in (Access.READ, Access.WRITE):
            assert expected.value in allowed
        else:
            assert not allowed


def test_landlock_allows_no_directory_that_contains_a_hidden_path(tmp_path: Path) -> None:
    for name in ("hidden", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    rules = dict(file_rules(FileView({tmp_path: Access.WRITE, tmp_path / "hidden": Access.HIDDEN}, {})))
    assert rules[str(tmp_path)] == "list" and rules[str(tmp_path / "shown")] == "write"
    assert not [path for path in rules if path.startswith(str(tmp_path / "hidden"))]
