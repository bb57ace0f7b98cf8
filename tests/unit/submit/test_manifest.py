"""MANIFEST.json and team.toml are validated, and the manifest is compared with the files of a bundle."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.submit.manifest import MANIFEST, Manifest, hashes_of, manifest_faults, read_manifest
from harness.submit.team import load_team
from tests.unit.submit.ended import run_record

FILES = {"code/run.sh": b"exit 0\n", "submission.csv": b"Example ID,Suffix Guess\n"}


def _fields(**changed: Any) -> dict[str, Any]:
    return {
        "kind": "submission",
        "harness": "1",
        "prefixes_sha256": "1",
        "data_sha256": {},
        "code_bundle_sha256": None,
        "run": None,
        "marks": [],
        "files": hashes_of(FILES),
        **changed,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / MANIFEST).write_bytes(Manifest(**_fields()).json_bytes())
    return tmp_path


def _faults(folder: Path, *more: str) -> list[str]:
    return manifest_faults(read_manifest(folder), folder, [*FILES, MANIFEST, *more])


def test_a_changed_file_is_named_with_both_hashes(folder: Path) -> None:
    (folder / "code/run.sh").write_bytes(b"exit 1\n")
    (fault,) = _faults(folder)
    says = hashes_of(FILES)["code/run.sh"][:12]
    assert fault.startswith("code/run.sh was changed: its SHA-256 is ") and fault.endswith(f"the manifest says {says}…")


@pytest.mark.parametrize(
    ("listed", "present", "faults"),
    [
        ([], [], []),
        ([], ["team.toml"], ["team.toml is present but not listed"]),
        *(
            ([name], [], [f"{name} is listed but missing"])
            for name in ("../outside", "/etc/passwd", MANIFEST, "code", "")
        ),
    ],
)
def test_added_missing_and_outside_files_are_named(
    listed: list[str], present: list[str], faults: list[str], folder: Path
) -> None:
    files = hashes_of(FILES) | dict.fromkeys(listed, "0" * 64)
    (folder / MANIFEST).write_bytes(Manifest(**_fields(files=files)).json_bytes())
    assert _faults(folder, *present) == faults


def test_a_manifest_is_read_back_unchanged(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest == Manifest(**_fields())
    assert manifest.json_bytes() == (folder / MANIFEST).read_bytes()


def test_hashes_are_sorted_by_name() -> None:
    assert list(hashes_of({"b": b"", "a": b"", "B": b""})) == ["B", "a", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "MANIFEST.json: "),
        (b"[]", "MANIFEST.json: "),
        (b"\xff\xfe", "MANIFEST.json: "),
        (b"{" * 5000, "MANIFEST.json: "),
        (json.dumps(_fields(kind="other")), "kind: "),
        (json.dumps(_fields(format=2)), "format: "),
        (json.dumps(_fields(files=["a"])), "files: "),
        (json.dumps(_fields(files={"a": 1})), "files.a: "),
        (json.dumps(_fields(more="x")), "more: unknown field"),
        (json.dumps(_fields(run=run_record(spent_s="long"))), "run.spent_s: "),
        (json.dumps(_fields(run=run_record(spent_s=float("nan")))), "run.spent_s: "),
        (json.dumps(_fields(run=run_record(spent_s=float("inf")))), "run.spent_s: "),
        (json.dumps(_fields(run=run_record(spent_s=-1))), "run.spent_s: "),
        (json.dumps({"\x1b[31m" * 100: 1}), "MANIFEST.json: "),
    ],
)
def test_an_invalid_manifest_is_refused_with_the_field(content: bytes | str, words: str, folder: Path) -> None:
    (folder / MANIFEST).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(HarnessError, match=words) as refusal:
        read_manifest(folder)
    assert len(str(refusal.value)) < 300


def test_a_missing_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"MANIFEST\.json is missing: this is not a bundle of this harness"):
        read_manifest(tmp_path)


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    with (folder / MANIFEST).open("r+b") as file:
        file.truncate(9 << 20)
    with pytest.raises(HarnessError, match="larger than"):
        read_manifest(folder)


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
        ("", "members: is required"),
        ("members = []", "members: must have at least 1 item"),
        ('members = "A"', "members: must be a list in brackets"),
        ("[[members]]\n", r"members\.0\.name: is required"),
        ('[[members]]\nname = ""', r"members\.0\.name: must have at least 1 character"),
        ('[[members]]\nname = "   "', r"members\.0\.name: must have at least 1 character"),
        ("[[members]]\nname = 5", r"members\.0\.name: must be text"),
        ('[[members]]\nname = "two\\nlines"', r"members\.0\.name: "),
        (f'[[members]]\nname = "{"x" * 201}"', r"members\.0\.name: must have at most 200 characters"),
        ('[[members]]\nname = "A"\nemail = "nowhere"', r"members\.0\.email: must match"),
        ('[[members]]\nname = "A"\nemail = "a@b c"', r"members\.0\.email: must match"),
        ('[[members]]\nname = "A"\nage = 5', r"members\.0\.age: unknown field"),
        ('nmae = "x"\n[[members]]\nname = "A"', "nmae: unknown field"),
        ('name = ""\n[[members]]\nname = "A"', "name: must have at least 1 character"),
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
    with pytest.raises(HarnessError, match=r"no such file: .*\. A team file has a table \[\[members\]\]"):
        load_team(tmp_path / "absent.toml")
    with pytest.raises(HarnessError, match="not a regular file"):
        load_team(tmp_path)
