"""team.toml is validated, and errors name the wrong field."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.submit.team import load_team

WHOLE = """
name = " The Two "
contact = "two@example.org"

[[members]]
name = "A. One"
affiliation = "Somewhere"
email = "one@example.org"

[[members]]
name = "B. Two"
"""


def _load(folder: Path, text: str | bytes):
    path = folder / "team.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_team(path)


def test_a_team_has_name_contact_and_members(tmp_path: Path) -> None:
    team = _load(tmp_path, WHOLE)
    assert (team.title, team.contact) == ("The Two", "two@example.org")
    assert [member.name_and_affiliation for member in team.members] == ["A. One, Somewhere", "B. Two"]


def test_a_team_without_a_name_is_named_by_its_members(tmp_path: Path) -> None:
    team = _load(tmp_path, '[[members]]\nname = "A"\n[[members]]\nname = "B"\n')
    assert (team.title, team.name, team.contact) == ("A, B", None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "members: is missing"),
        ("members = []", "members: Tuple should have at least 1 item"),
        ('members = "A"', "members: Input should be a valid tuple"),
        ("[[members]]\n", r"members\.0\.name: is missing"),
        ('[[members]]\nname = ""', r"members\.0\.name: String should have at least 1 character"),
        ('[[members]]\nname = "   "', r"members\.0\.name: String should have at least 1 character"),
        ("[[members]]\nname = 5", r"members\.0\.name: Input should be a valid string"),
        ('[[members]]\nname = "two\\nlines"', r"members\.0\.name: "),
        (f'[[members]]\nname = "{"x" * 201}"', r"members\.0\.name: String should have at most 200 characters"),
        ('[[members]]\nname = "A"\nemail = "nowhere"', r"members\.0\.email: String should match"),
        ('[[members]]\nname = "A"\nemail = "a@b c"', r"members\.0\.email: String should match"),
        ('[[members]]\nname = "A"\nage = 5', r"members\.0\.age: unknown field"),
        ('nmae = "x"\n[[members]]\nname = "A"', "nmae: unknown field"),
        ('name = ""\n[[members]]\nname = "A"', "name: String should have at least 1 character"),
        ("[[members]]\nname = 'A'\n" * 101, "members: "),
        ("not toml", "not a TOML file"),
        (b"\xff\xfe", "not UTF-8 text"),
        ('name = "a\x1bb"\n[[members]]\nname = "A"', "not a TOML file"),
        ("x = " + "[" * 20_000, "not a TOML file"),
        ("#" * 70_000, "larger than 65,536 bytes"),
    ],
)
def test_an_invalid_team_is_refused_with_the_field(text: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=words) as refusal:
        _load(tmp_path, text)
    assert "team.toml" in str(refusal.value) and len(str(refusal.value)) < 300


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"no such file\. A team file has a table \[\[members\]\]"):
        load_team(tmp_path / "absent.toml")
    with pytest.raises(HarnessError, match="not a regular file"):
        load_team(tmp_path)


@given(st.text(max_size=60) | st.binary(max_size=60))
@settings(deadline=None, max_examples=50)
def test_arbitrary_files_are_refused(tmp_path_factory, text: str | bytes) -> None:
    with pytest.raises(HarnessError):
        _load(tmp_path_factory.mktemp("team"), text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
