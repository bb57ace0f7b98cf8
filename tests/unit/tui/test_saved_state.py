"""The saved values of a form, and files with invalid content."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import paths
from harness.tui.form import Field, FieldKind
from harness.tui.saved_state import load_values, save_values

FIELDS = (
    Field("trials", default="100", kind=FieldKind.NUMBER, rules={"type": "integer", "minimum": 1}),
    Field("label", default="x", kind=FieldKind.TEXT),
    Field("seed", default="0", kind=FieldKind.NUMBER, rules={"type": "integer", "minimum": 0}, is_option=True),
)


@pytest.fixture(autouse=True)
def forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "forms.json"


def test_each_attack_has_its_own_values() -> None:
    save_values("one", {"trials": "5", "--seed": "3"})
    save_values("two", {"trials": "6"})
    assert load_values("one", FIELDS) == {"trials": "5", "--seed": "3"}
    assert load_values("two", FIELDS) == {"trials": "6"}
    assert load_values("three", FIELDS) == {}


def test_saved_values_replace_the_previous_ones() -> None:
    save_values("one", {"trials": "5"})
    save_values("one", {"label": "y"})
    assert load_values("one", FIELDS) == {"label": "y"}


def test_unknown_and_invalid_values_are_dropped() -> None:
    save_values("one", {"trials": "0", "gone": "1", "label": "y"})
    assert load_values("one", FIELDS) == {"label": "y"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"one": 3}', b'{"one": {"trials": 3, "label": null}}', b"null"],
)
def test_a_damaged_file_counts_as_empty_and_is_replaced(forms: Path, content: bytes) -> None:
    forms.parent.mkdir(parents=True)
    forms.write_bytes(content)
    assert load_values("one", FIELDS) == {}
    save_values("one", {"trials": "5"})
    assert load_values("one", FIELDS) == {"trials": "5"}


def test_an_unwritable_home_is_ignored(forms: Path) -> None:
    forms.parent.write_text("a file where a folder should be")
    save_values("one", {"trials": "5"})
    assert load_values("one", FIELDS) == {}


def test_the_file_is_private(forms: Path) -> None:
    save_values("one", {"trials": "5"})
    assert forms.stat().st_mode & 0o077 == 0


@given(st.text(), st.text())
def test_any_text_is_loaded_as_saved(attack: str, label: str) -> None:
    save_values(attack, {"label": label})
    assert load_values(attack, FIELDS) == {"label": label}
    assert paths.state_home().exists()
