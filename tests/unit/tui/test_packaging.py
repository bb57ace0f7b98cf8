"""What the Package screen decides, without a screen: standings, acceptance, hindrances, the command line."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.submit.checklist import Check
from harness.tui.faults import fault_in
from harness.tui.packaging import (
    FIELDS,
    CheckState,
    Look,
    Packaging,
    look_at,
    opening_values,
    packaged,
    remember,
    run_in_words,
)
from harness.tui.widgets.path_suggester import completed_path
from tests.functional.machine import homes
from tests.unit.tui.recorded import recorded_run

VALUES = {"--team": "", "--description": "", "--out": "", "--redact": "false"}
MET = Check("ended", True, "the run ended finished")
LIMITED = Check("partial", False, "--limit left 1 of 2 examples out", "run it without --limit", True)
TEAM = Check("team", False, "no team is named", "write team.toml")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def look(*checks: Check, team: str | None = None, description: str | None = None, **more: object) -> Look:
    return replace(
        Look(VALUES, team and Path(team), description and Path(description), checks=checks),
        **more,  # type: ignore[arg-type]
    )


def state(*checks: Check, **more: object) -> Packaging:
    return Packaging("abcd-some", VALUES).looked_at(look(*checks, **more))


def test_an_unmet_point_holds_the_run_back_until_it_is_accepted_and_again_when_that_is_taken_back() -> None:
    packaging = state(MET, LIMITED)
    assert packaging.tally == "1 of 2 met" and packaging.awaited == "open: partial"
    assert packaging.hindrance is not None and packaging.hindrance.startswith("partial: --limit left 1 of 2")
    accepted = packaging.toggled("partial")
    assert (accepted.standing(LIMITED), accepted.hindrance) == (CheckState.ACCEPTED, None)
    assert accepted.tally == "1 of 2 met, 1 accepted" and accepted.awaited == "ready."
    assert accepted.command_line()[-2:] == ["--accept", "partial"]
    assert accepted.toggled("partial") == packaging


def test_what_is_met_or_cannot_be_accepted_says_so() -> None:
    packaging = state(MET, TEAM)
    with pytest.raises(HarnessError, match=r"^ended is met: there is nothing to accept\.$"):
        packaging.toggled("ended")
    with pytest.raises(HarnessError, match=r"^team cannot be accepted: no team is named; write team\.toml\.$"):
        packaging.toggled("team")


def test_a_point_that_comes_to_say_something_else_must_be_accepted_anew() -> None:
    packaging = state(LIMITED).toggled("partial")
    assert packaging.looked_at(look(LIMITED)).standing(LIMITED) is CheckState.ACCEPTED
    other = LIMITED._replace(sentence="--limit left 2 of 3 examples out")
    assert packaging.looked_at(look(other)).standing(other) is CheckState.UNMET
    met = Check("partial", True, "all 3 examples were attacked")
    assert packaging.looked_at(look(met)).looked_at(look(LIMITED)).standing(LIMITED) is CheckState.UNMET


def test_what_was_typed_since_the_last_look_holds_the_run_back_until_the_next() -> None:
    packaging = state(MET).edited(VALUES | {"--team": "other.toml"})
    assert packaging.hindrance == packaging.awaited == "still checking …"
    assert packaging.command_line() == ["package", "abcd-some", "--team", "other.toml"]
    assert packaging.looked_at(look(MET, values=packaging.values)).hindrance is None


def test_a_run_that_cannot_be_read_for_a_moment_keeps_its_checklist_and_what_was_accepted() -> None:
    packaging = state(LIMITED).toggled("partial").looked_at(look(fault="run.db: cannot be read."))
    assert packaging.checks == (LIMITED,) and packaging.standing(LIMITED) is CheckState.ACCEPTED
    assert packaging.hindrance == "run.db: cannot be read."
    assert packaging.looked_at(look(LIMITED)).hindrance is None


def test_a_place_that_the_zip_cannot_go_to_holds_the_run_back() -> None:
    assert state(MET, out_fault="x is a file, not a folder").hindrance == "out: x is a file, not a folder."


def test_the_command_line_names_what_was_typed_else_what_was_found_and_leaves_defaults_out(place: Path) -> None:
    found = state(MET, team="team.toml", description="submissions/description.md")
    files = ["--team", "team.toml", "--description", "submissions/description.md"]
    assert found.command_line() == ["package", "abcd-some", *files]
    typed = found.edited({"--team": " ~/my team.toml ", "--description": "", "--out": "x.zip", "--redact": "true"})
    home = Path.home()
    assert typed.command_line(force=True) == [
        *("package", "abcd-some", "--team", f"{home}/my team.toml", "--description", "submissions/description.md"),
        *("--out", "x.zip", "--redact", "--force"),
    ]
    assert (found.destination, typed.destination) == (Path("submissions/abcd-some.zip"), Path("x.zip"))
    assert found.edited(VALUES | {"--out": "far"}).destination == Path("far/abcd-some.zip")


def test_the_fields_open_with_the_files_that_are_there_and_then_with_what_was_last_packaged(place: Path) -> None:
    assert opening_values() == VALUES
    (place / "team.toml").touch()
    (place / "submissions").mkdir()
    (place / "submissions" / "description.md").touch()
    assert opening_values() == VALUES | {"--team": "team.toml", "--description": "submissions/description.md"}
    (place / "ours.toml").touch()
    remember(VALUES | {"--team": "ours.toml", "--redact": "true"})
    wanted = VALUES | {"--team": "ours.toml", "--description": "submissions/description.md", "--redact": "true"}
    assert opening_values() == wanted
    (place / "ours.toml").unlink()
    assert opening_values()["--team"] == "team.toml"


def test_a_look_at_a_run_finds_the_files_that_an_empty_field_stands_for(place: Path) -> None:
    run = recorded_run(place, pid=os.getpid())
    assert look_at(run.folder, VALUES).team is None
    (place / "team.toml").write_text('[[members]]\nname = "[/ Ada \\u001b[31m"\n')
    seen = look_at(run.folder, VALUES)
    assert seen.team == Path("team.toml") and seen.fault is None
    checks = {check.name: check for check in seen.checks}
    assert checks["team"].is_met and not checks["ended"].is_met and not checks["ended"].can_be_accepted


def test_a_run_that_is_about_to_start_has_a_checklist_and_one_without_a_record_a_reason(place: Path) -> None:
    run = recorded_run(place)
    run.store.close()
    run.folder.store.unlink()
    os.utime(run.folder.spec_file)
    seen = look_at(run.folder, VALUES)
    assert seen.fault is None and seen.checks[0].sentence == "the run is starting"
    run.folder.spec_file.write_text("{")
    seen = look_at(run.folder, VALUES)
    assert seen.fault is not None and seen.checks == ()


@pytest.mark.parametrize(
    ("is_blind", "words"),
    [(True, "some on small, which is blind"), (False, "some on small, no score yet")],
)
def test_the_header_names_attack_round_and_score_and_the_runs_note(place: Path, is_blind: bool, words: str) -> None:
    run = recorded_run(place, is_blind=is_blind, pid=os.getpid())
    run.folder.note.write_text("for the camera")
    summary = look_at(run.folder, VALUES).summary
    assert summary is not None
    assert run_in_words(summary) == (words, "abcd-some · starting · for the camera")
    scored = replace(summary, is_blind=False, recall_at_cap=0.5, recall_interval=(0.25, 0.75), error_cap=100)
    assert run_in_words(scored)[0] == "some on small, recall at 100 errors 0.500 [0.250, 0.750]"


def test_a_zip_is_told_in_lines_and_no_zip_is_one_sentence() -> None:
    told = {"bundle": "out/a.zip", "sha256": "ab", "bytes": 2_320_498, "files": 19, "pages": 2, "marks": []}
    lines = packaged(told).lines
    assert lines == ["out/a.zip", "SHA-256 ab", "19 files, description of 2 pages, 2.3 MB, 0 marks"]
    marked = packaged(told | {"marks": [{"check": "partial", "sentence": "half of it"}]}).lines
    assert marked[2:] == ["19 files, description of 2 pages, 2.3 MB, 1 mark", "accepted: partial – half of it"]
    with pytest.raises(HarnessError, match="told of no zip"):
        packaged({"bundle": 3})


@pytest.mark.parametrize(
    ("key", "text", "fault"),
    [
        ("--team", "", None),
        ("--team", "file", None),
        ("--team", "folder", "a folder, not a file"),
        ("--team", "none", "no such file"),
        ("--team", "~nobody-of-this-name/x", "not a path of this machine"),
        ("--out", "", None),
        ("--out", "new/deeper", None),
        ("--out", "new/deeper/x.zip", None),
        ("--out", "file", "file is a file, not a folder"),
        ("--out", "file/below/x.zip", "file is a file, not a folder"),
        ("--out", "odd.zip", "a folder, not a .zip"),
    ],
)
def test_what_is_amiss_in_a_path_is_said(place: Path, key: str, text: str, fault: str | None) -> None:
    (place / "file").touch()
    (place / "folder").mkdir()
    (place / "odd.zip").mkdir()
    field = next(field for field in FIELDS if field.key == key)
    assert fault_in(field, text) == fault


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("te", "team-a.toml"),
        ("team-a.toml", None),
        ("sub", "submissions/"),
        ("submissions", "submissions/"),
        ("submissions/", "submissions/deep/"),
        (".h", ".hidden"),
        ("./", "./bad"),
        ("nowhere/", None),
        ("~nobody-of-this-name/", None),
        ("a\0/", None),
    ],
)
def test_a_path_is_completed_by_the_first_name_that_it_begins(place: Path, text: str, completed: str | None) -> None:
    for name in ("team-b.toml", "team-a.toml", ".hidden", "bad", "aa\x1b[31m"):
        (place / name).touch()
    (place / "submissions" / "deep").mkdir(parents=True)
    assert completed_path(text) == completed
