"""The state of the Package screen: check states, acceptance, blockers and the command line."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.submit.checklist import Check
from harness.tui.package_state import PackageState, initial_values, package_form, result_lines
from harness.tui.saved_state import save_values
from harness.tui.widgets.form_fields import complete_path
from tests.records import recorded_run

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


def state(*checks: Check) -> PackageState:
    return PackageState(RunFolder(Path("abcd-some")), VALUES, checked_values=VALUES, checks=checks)


def test_a_changed_check_must_be_accepted_again() -> None:
    current = state(LIMITED).with_accepted_toggled("partial")
    assert current.with_checks_of(state(LIMITED)).sign(LIMITED) == "–"
    changed = LIMITED._replace(sentence="--limit left 2 of 3 examples out")
    assert current.with_checks_of(state(changed)).sign(changed) == "✗"
    met = Check("partial", True, "the run is on all 3 examples")
    assert current.with_checks_of(state(met)).with_checks_of(state(LIMITED)).sign(LIMITED) == "✗"


def test_an_edit_blocks_until_the_next_checklist() -> None:
    current = replace(state(MET), values=VALUES | {"--team": "other.toml"})
    assert current.blocker == current.status == "checking …"
    # A checklist that was begun before the edit.
    assert current.with_checks_of(state(MET)).blocker == "checking …"
    assert current.with_checks_of(replace(current, checked_values=current.values)).blocker is None


def test_an_unreadable_run_keeps_its_checklist_and_acceptance(folder: Path) -> None:
    current = state(LIMITED).with_accepted_toggled("partial")
    unreadable = current.with_checks_of(current.check())
    assert unreadable.checks == (LIMITED,) and unreadable.sign(LIMITED) == "–"
    assert unreadable.fault is not None and "spec.json" in unreadable.fault and unreadable.blocker == unreadable.fault
    assert unreadable.with_checks_of(state(LIMITED)).blocker is None


def test_the_command_line_omits_defaults(folder: Path) -> None:
    form, current = package_form(state().folder), state(MET)
    assert form.command_line(VALUES) == ["bundle", "create", "abcd-some"]
    texts = {"--team": " ~/my team.toml ", "--description": "x.md", "--out": "x.zip", "--redact": "true"}
    assert form.command_line(texts) == [
        *("bundle", "create", "abcd-some", "--team", f"{Path.home()}/my team.toml", "--description", "x.md"),
        *("--out", "x.zip", "--redact"),
    ]
    assert current.destination == Path("submissions/abcd-some.zip")
    assert replace(current, values=texts).destination == Path("x.zip")
    assert replace(current, values=VALUES | {"--out": "~/far"}).destination == Path.home() / "far" / "abcd-some.zip"


def test_fields_start_with_existing_files_or_the_saved_values(folder: Path) -> None:
    assert initial_values() == VALUES
    (folder / "team.toml").touch()
    (folder / "submissions").mkdir()
    (folder / "submissions" / "description.md").touch()
    assert initial_values() == VALUES | {"--team": "team.toml", "--description": "submissions/description.md"}
    (folder / "ours.toml").touch()
    save_values("harness bundle create", {"--team": "ours.toml", "--redact": "true"})
    expected = VALUES | {"--team": "ours.toml", "--description": "submissions/description.md", "--redact": "true"}
    assert initial_values() == expected
    (folder / "ours.toml").unlink()
    save_values("harness bundle create", {"--team": "ours.toml", "--out": "new/deeper"})
    assert (initial_values()["--team"], initial_values()["--out"]) == ("team.toml", "new/deeper")


def test_the_checklist_finds_files_for_empty_fields(folder: Path) -> None:
    run = recorded_run(folder, pid=os.getpid())
    checked = PackageState(run.folder, VALUES).check()
    assert "team" in checked.unmet
    (folder / "team.toml").write_text('[[members]]\nname = "[/ Ada \\u001b[31m"\n')
    checked = PackageState(run.folder, VALUES).check()
    assert checked.fault is None
    checks = {check.name: check for check in checked.checks}
    assert checks["team"].is_met and not checks["ended"].is_met and not checks["ended"].can_be_accepted
    missing = replace(checked, values=VALUES | {"--team": "~nobody-of-this-name/x"}).check()
    assert "team" in missing.unmet


def test_a_starting_run_has_a_checklist_and_an_unreadable_one_a_fault(folder: Path) -> None:
    run = recorded_run(folder)
    run.store.close()
    run.folder.store.unlink()
    os.utime(run.folder.spec_file)
    checked = PackageState(run.folder, VALUES).check()
    assert checked.fault is None and checked.checks[0].sentence == "the run is starting"
    run.folder.spec_file.write_text("{")
    checked = PackageState(run.folder, VALUES).check()
    assert checked.fault is not None and checked.checks == ()
    assert checked.header() == (run.folder.id, checked.fault)


@pytest.mark.parametrize(
    ("is_blind", "header"),
    [(True, "some on small, blind round"), (False, "some on small, no score yet")],
)
def test_the_header_has_attack_round_score_and_note(folder: Path, is_blind: bool, header: str) -> None:
    run = recorded_run(folder, is_blind=is_blind, pid=os.getpid())
    run.folder.note.write_text("for the camera")
    checked = PackageState(run.folder, VALUES).check()
    assert checked.header() == (header, "abcd-some · starting · for the camera")
    assert checked.summary is not None
    scored = replace(
        checked.summary, is_blind=False, guesses=1, recall_at_cap=0.5, recall_interval=(0.25, 0.75), error_cap=100
    )
    assert replace(checked, summary=scored).header()[0] == "some on small, Recall@100 0.500 [0.250, 0.750]"


def test_the_result_is_shown_in_lines() -> None:
    result = {"bundle": "out/a.zip", "sha256": "ab", "bytes": 2_320_498, "files": 19, "pages": 2, "marks": []}
    lines = ["out/a.zip", "SHA-256 ab", "19 files, description of 2 pages, 2.3 MB, 0 marks"]
    assert result_lines(result) == lines
    marked = result_lines(result | {"marks": [{"check": "partial", "sentence": "half of it"}]})
    assert marked[2:] == ["19 files, description of 2 pages, 2.3 MB, 1 mark", "accepted: partial – half of it"]


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
