"""The state of the Package screen: check states, acceptance, blockers and the command line."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.submit.checklist import Check
from harness.tui.package_state import (
    FIELDS,
    CheckState,
    PackageSnapshot,
    PackageState,
    initial_values,
    parse_result,
    read_snapshot,
    run_header,
    save_initial_values,
)
from harness.tui.validation import validation_error
from harness.tui.widgets.form_fields import complete_path
from tests.unit.tui.recorded import recorded_run

VALUES = {"--team": "", "--description": "", "--out": "", "--redact": "false"}
MET = Check("ended", True, "the run is finished")
LIMITED = Check("partial", False, "--limit left 1 of 2 examples out", "run it without --limit", True)
TEAM = Check("team", False, "no team is named", "write team.toml")


@pytest.fixture(autouse=True)
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory without files."""
    current = home / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    return current


def snapshot(
    *checks: Check, team: str | None = None, description: str | None = None, **more: object
) -> PackageSnapshot:
    return replace(
        PackageSnapshot(VALUES, team and Path(team), description and Path(description), checks=checks),
        **more,  # type: ignore[arg-type]
    )


def state(*checks: Check, **more: object) -> PackageState:
    return PackageState("abcd-some", VALUES).with_snapshot(snapshot(*checks, **more))


def test_an_unmet_check_blocks_until_it_is_accepted() -> None:
    current = state(MET, LIMITED)
    assert current.counts == "1 of 2 met" and current.status == "unmet: partial"
    assert current.blocker is not None and current.blocker.startswith("partial: --limit left 1 of 2")
    accepted = current.with_accepted_toggled("partial")
    assert (accepted.check_state(LIMITED), accepted.blocker) == (CheckState.ACCEPTED, None)
    assert accepted.counts == "1 of 2 met, 1 accepted" and accepted.status == "ready."
    assert accepted.command_line()[-2:] == ["--accept", "partial"]
    assert accepted.with_accepted_toggled("partial") == current


def test_some_checks_cannot_be_accepted() -> None:
    current = state(MET, TEAM)
    with pytest.raises(HarnessError, match=r"^ended is met: there is nothing to accept\.$"):
        current.with_accepted_toggled("ended")
    with pytest.raises(HarnessError, match=r"^team cannot be accepted: no team is named; write team\.toml\.$"):
        current.with_accepted_toggled("team")


def test_a_changed_check_must_be_accepted_again() -> None:
    current = state(LIMITED).with_accepted_toggled("partial")
    assert current.with_snapshot(snapshot(LIMITED)).check_state(LIMITED) is CheckState.ACCEPTED
    other = LIMITED._replace(sentence="--limit left 2 of 3 examples out")
    assert current.with_snapshot(snapshot(other)).check_state(other) is CheckState.UNMET
    met = Check("partial", True, "all 3 examples were attacked")
    assert (
        current.with_snapshot(snapshot(met)).with_snapshot(snapshot(LIMITED)).check_state(LIMITED) is CheckState.UNMET
    )


def test_an_edit_blocks_until_the_next_snapshot() -> None:
    current = state(MET).with_values(VALUES | {"--team": "other.toml"})
    assert current.blocker == current.status == "checking …"
    assert current.command_line() == ["bundle", "create", "abcd-some", "--team", "other.toml"]
    assert current.with_snapshot(snapshot(MET, values=current.values)).blocker is None


def test_an_unreadable_run_keeps_its_checklist_and_acceptance() -> None:
    current = state(LIMITED).with_accepted_toggled("partial").with_snapshot(snapshot(fault="run.db: cannot be read."))
    assert current.checks == (LIMITED,) and current.check_state(LIMITED) is CheckState.ACCEPTED
    assert current.blocker == "run.db: cannot be read."
    assert current.with_snapshot(snapshot(LIMITED)).blocker is None


def test_an_invalid_destination_blocks() -> None:
    assert state(MET, out_error="x is a file, not a directory").blocker == "out: x is a file, not a directory."


def test_the_command_line_prefers_typed_files_and_omits_defaults(folder: Path) -> None:
    filled = state(MET, team="team.toml", description="submissions/description.md")
    files = ["--team", "team.toml", "--description", "submissions/description.md"]
    assert filled.command_line() == ["bundle", "create", "abcd-some", *files]
    typed = filled.with_values(
        {"--team": " ~/my team.toml ", "--description": "", "--out": "x.zip", "--redact": "true"}
    )
    home = Path.home()
    assert typed.command_line(force=True) == [
        *(
            "bundle",
            "create",
            "abcd-some",
            "--team",
            f"{home}/my team.toml",
            "--description",
            "submissions/description.md",
        ),
        *("--out", "x.zip", "--redact", "--force"),
    ]
    assert (filled.destination, typed.destination) == (Path("submissions/abcd-some.zip"), Path("x.zip"))
    assert filled.with_values(VALUES | {"--out": "far"}).destination == Path("far/abcd-some.zip")


def test_fields_start_with_existing_files_or_the_saved_values(folder: Path) -> None:
    assert initial_values() == VALUES
    (folder / "team.toml").touch()
    (folder / "submissions").mkdir()
    (folder / "submissions" / "description.md").touch()
    assert initial_values() == VALUES | {"--team": "team.toml", "--description": "submissions/description.md"}
    (folder / "ours.toml").touch()
    save_initial_values(VALUES | {"--team": "ours.toml", "--redact": "true"})
    expected = VALUES | {"--team": "ours.toml", "--description": "submissions/description.md", "--redact": "true"}
    assert initial_values() == expected
    (folder / "ours.toml").unlink()
    assert initial_values()["--team"] == "team.toml"


def test_a_snapshot_finds_files_for_empty_fields(folder: Path) -> None:
    run = recorded_run(folder, pid=os.getpid())
    assert read_snapshot(run.folder, VALUES).team is None
    (folder / "team.toml").write_text('[[members]]\nname = "[/ Ada \\u001b[31m"\n')
    seen = read_snapshot(run.folder, VALUES)
    assert seen.team == Path("team.toml") and seen.fault is None
    checks = {check.name: check for check in seen.checks}
    assert checks["team"].is_met and not checks["ended"].is_met and not checks["ended"].can_be_accepted


def test_a_starting_run_has_a_checklist_and_an_unreadable_one_a_fault(folder: Path) -> None:
    run = recorded_run(folder)
    run.store.close()
    run.folder.store.unlink()
    os.utime(run.folder.spec_file)
    seen = read_snapshot(run.folder, VALUES)
    assert seen.fault is None and seen.checks[0].sentence == "the run is starting"
    run.folder.spec_file.write_text("{")
    seen = read_snapshot(run.folder, VALUES)
    assert seen.fault is not None and seen.checks == ()


@pytest.mark.parametrize(
    ("is_blind", "header"),
    [(True, "some on small, blind round"), (False, "some on small, no score yet")],
)
def test_the_header_has_attack_round_score_and_note(folder: Path, is_blind: bool, header: str) -> None:
    run = recorded_run(folder, is_blind=is_blind, pid=os.getpid())
    run.folder.note.write_text("for the camera")
    summary = read_snapshot(run.folder, VALUES).summary
    assert summary is not None
    assert run_header(summary) == (header, "abcd-some · starting · for the camera")
    scored = replace(summary, is_blind=False, guesses=1, recall_at_cap=0.5, recall_interval=(0.25, 0.75), error_cap=100)
    assert run_header(scored)[0] == "some on small, Recall@100 0.500 [0.250, 0.750]"


def test_the_result_is_shown_in_lines() -> None:
    result = {"bundle": "out/a.zip", "sha256": "ab", "bytes": 2_320_498, "files": 19, "pages": 2, "marks": []}
    lines = parse_result(result).lines
    assert lines == ["out/a.zip", "SHA-256 ab", "19 files, description of 2 pages, 2.3 MB, 0 marks"]
    marked = parse_result(result | {"marks": [{"check": "partial", "sentence": "half of it"}]}).lines
    assert marked[2:] == ["19 files, description of 2 pages, 2.3 MB, 1 mark", "accepted: partial – half of it"]
    with pytest.raises(HarnessError, match="did not describe the zip"):
        parse_result({"bundle": 3})


@pytest.mark.parametrize(
    ("key", "text", "error"),
    [
        ("--team", "", None),
        ("--team", "file", None),
        ("--team", "folder", "a directory, not a file"),
        ("--team", "none", "no such file"),
        ("--team", "~nobody-of-this-name/x", "not a valid path"),
        ("--out", "", None),
        ("--out", "new/deeper", None),
        ("--out", "new/deeper/x.zip", None),
        ("--out", "file", "file is a file, not a directory"),
        ("--out", "file/below/x.zip", "file is a file, not a directory"),
        ("--out", "odd.zip", "a directory, not a .zip file"),
    ],
)
def test_an_invalid_path_is_an_error(folder: Path, key: str, text: str, error: str | None) -> None:
    (folder / "file").touch()
    (folder / "folder").mkdir()
    (folder / "odd.zip").mkdir()
    field = next(field for field in FIELDS if field.key == key)
    assert validation_error(field, text) == error


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
def test_a_path_is_completed_with_the_first_matching_name(folder: Path, text: str, completed: str | None) -> None:
    for name in ("team-b.toml", "team-a.toml", ".hidden", "bad", "aa\x1b[31m"):
        (folder / name).touch()
    (folder / "submissions" / "deep").mkdir(parents=True)
    assert complete_path(text) == completed
