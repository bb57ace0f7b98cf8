"""The values that an attack was last started with, whatever has become of the file or the attack since."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import paths
from harness.tui.form import Field, Kind
from harness.tui.remembered import remember_values, remembered_values

FIELDS = (
    Field("trials", Kind.INTEGER, "100", rules={"minimum": 1}),
    Field("label", Kind.TEXT, "x"),
    Field("seed", Kind.INTEGER, "0", rules={"minimum": 0}, is_option=True),
)


@pytest.fixture(autouse=True)
def forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "forms.json"


def test_each_attack_has_values_of_its_own() -> None:
    remember_values("one", {"trials": "5", "--seed": "3"})
    remember_values("two", {"trials": "6"})
    assert remembered_values("one", FIELDS) == {"trials": "5", "--seed": "3"}
    assert remembered_values("two", FIELDS) == {"trials": "6"}
    assert remembered_values("three", FIELDS) == {}


def test_the_last_values_replace_those_before_them() -> None:
    remember_values("one", {"trials": "5"})
    remember_values("one", {"label": "y"})
    assert remembered_values("one", FIELDS) == {"label": "y"}


def test_what_is_no_field_or_not_valid_any_more_is_dropped() -> None:
    remember_values("one", {"trials": "0", "gone": "1", "label": "y"})
    assert remembered_values("one", FIELDS) == {"label": "y"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"one": 3}', b'{"one": {"trials": 3, "label": null}}', b"null"],
)
def test_a_file_that_holds_something_else_counts_as_empty_and_is_mended(forms: Path, content: bytes) -> None:
    forms.parent.mkdir(parents=True)
    forms.write_bytes(content)
    assert remembered_values("one", FIELDS) == {}
    remember_values("one", {"trials": "5"})
    assert remembered_values("one", FIELDS) == {"trials": "5"}


def test_a_home_that_cannot_be_written_stops_nobody(forms: Path) -> None:
    forms.parent.write_text("a file where a folder should be")
    remember_values("one", {"trials": "5"})
    assert remembered_values("one", FIELDS) == {}


def test_values_are_the_users_own(forms: Path) -> None:
    remember_values("one", {"trials": "5"})
    assert forms.stat().st_mode & 0o077 == 0


@given(st.text(), st.text())
def test_any_text_comes_back_as_it_was(attack: str, label: str) -> None:
    remember_values(attack, {"label": label})
    assert remembered_values(attack, FIELDS) == {"label": label}
    assert paths.state_home().exists()
