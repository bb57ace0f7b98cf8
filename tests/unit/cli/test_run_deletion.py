"""`harness runs rm` and `harness runs restore`."""

import os
import time
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.paths import state_home
from harness.runs import trash
from harness.runs.folder import RunFolder, delete_run
from tests.records import change_spec, recorded_run
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_run_records import ended_run, make_tuning


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def age(seconds: float) -> None:
    """Let all deletions be older."""
    for deleted in trash.deleted_records():
        stamp = deleted.deleted_at - int(seconds * 1e9)
        deleted.path.rename(deleted.path.with_name(f"{stamp}-{deleted.name}"))


def test_a_deleted_run_is_restored_as_it_was(harness: CommandLine, home: Path) -> None:
    run, other = recorded_run(home, id_="aaaa-one"), ended_run(home, "bbbb-two")
    run.event("phase", phase="finished")
    # Otherwise the garbage collection closes it at some time, which changes its file.
    run.store.close()
    folder = run.folder
    before = files_in(folder.path)
    assert harness("runs", "rm", folder.id).out == f"{folder.id}\n"
    assert not folder.path.exists() and other.path.exists()
    assert oct((state_home() / "trash").stat().st_mode)[-3:] == "700"
    assert "deleted runs hold" in harness("list", "runs").err
    assert folder.id in harness("list", "deleted").out
    assert harness("runs", "restore", folder.id[:4]).out == f"{folder.id}\n"
    assert files_in(folder.path) | {"lock": b""} == before | {"lock": b""}
    assert "deleted runs hold" not in harness("list", "runs").err
    assert harness("list", "deleted").out == ""


def test_a_deleted_run_is_freed_by_the_first_command_after_a_day(harness: CommandLine, home: Path) -> None:
    first, second = ended_run(home), ended_run(home, "bbbb-two")
    harness("runs", "rm", first.id)
    age(trash.KEPT_SECONDS - 60)
    harness("runs", "rm", second.id)
    assert {one.id for one in trash.deleted_records()} == {first.id, second.id}
    age(120)
    assert [one["id"] for one in harness("list", "deleted", "--json").json["deleted"]] == [second.id]
    assert {one.id for one in trash.deleted_records()} == {second.id}
    assert "unknown deleted run" in harness("runs", "restore", first.id).err


def test_now_frees_the_disk_at_once(harness: CommandLine, home: Path) -> None:
    folders = [ended_run(home, f"{name}-one") for name in ("aaaa", "bbbb", "cccc")]
    harness("runs", "rm", folders[0].id, "--now")
    assert trash.deleted_records() == [] and not folders[0].path.exists()
    for folder in folders[1:]:
        harness("runs", "rm", folder.id)
    assert set(harness("runs", "rm", "--now", "--json").json["removed"]) == {folder.id for folder in folders[1:]}
    assert trash.deleted_records() == []
    assert harness("runs", "rm").code == 2


def test_a_tuning_is_restored_with_its_runs(harness: CommandLine, home: Path) -> None:
    tuning, folder, other = make_tuning(), ended_run(home), ended_run(home, "bbbb-two")
    change_spec(folder, parent=tuning.id)
    harness("runs", "rm", other.id)
    harness("runs", "rm", "tttt")
    assert harness("list", "tunings", "--json").json["tunings"] == []
    assert set(harness("runs", "restore", tuning.id, "--json").json["restored"]) == {folder.id, tuning.id}
    (listed,) = harness("list", "tunings", "--json").json["tunings"]
    assert listed["runs"] == 1 and folder.path.exists() and not other.path.exists()


def test_a_run_is_not_restored_over_another_with_its_id(harness: CommandLine, home: Path) -> None:
    folder = ended_run(home)
    harness("runs", "rm", folder.id)
    ended_run(home)
    done = harness("runs", "restore", folder.id)
    assert done.code == 1 and "has this id again" in done.err and len(trash.restorable()) == 1


def test_a_run_that_was_freed_in_part_cannot_be_restored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = delete_run(ended_run(home), time.time_ns())

    def remove_a_part(path: Path) -> None:
        if path.exists():
            (path / "spec.json").unlink()
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(trash, "remove_tree", remove_a_part)
        with pytest.raises(HarnessError, match="cannot be deleted"):
            trash.free(deleted)
    assert trash.restorable() == [] and len(trash.deleted_records()) == 1
    trash.free_expired()
    assert trash.deleted_records() == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: folder.spec_file.unlink(),
        lambda folder: folder.spec_file.write_text("{"),
        lambda folder: (folder.store.unlink(), folder.store.mkdir()),
        lambda folder: (folder.lock.unlink(missing_ok=True), folder.lock.mkdir()),
        lambda folder: folder.path.chmod(0o500),
        lambda folder: (folder.path / "tags").write_text(""),
    ],
    ids=["no spec", "no JSON", "store is a directory", "lock is a directory", "read-only", "tags is a file"],
)
def test_a_damaged_run_is_deleted_and_restored(harness: CommandLine, home: Path, damage: object) -> None:
    folder = ended_run(home)
    assert callable(damage)
    damage(folder)
    done = harness("runs", "rm", folder.id)
    assert (done.code, done.out) == (0, f"{folder.id}\n") and not folder.path.exists()
    assert harness("runs", "restore", folder.id).code == 0 and folder.path.exists()


@pytest.mark.parametrize("name", ["note.txt", "tags"])
def test_a_damaged_note_or_tag_is_one_sentence(harness: CommandLine, home: Path, name: str) -> None:
    folder = ended_run(home)
    path = folder.path / name
    path.write_bytes(b"\xff") if name == "tags" else path.mkdir()
    command = "note" if name == "note.txt" else "tag"
    for text in ((), ("text",)):
        done = harness("runs", command, folder.id, *text)
        assert done.code == 1 and name in done.err and "internal error" not in done.err


@pytest.mark.parametrize("command", [("rm",), ("rm", "--now"), ("note", "text"), ("tag", "text"), ("restore",)])
def test_a_home_that_cannot_be_written_is_one_sentence(
    harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    folder = recorded_run(home).folder
    if command == ("restore",):
        delete_run(folder, time.time_ns())

    # Root ignores permissions, and a test cannot mount.
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, os.strerror(30))

    for name in ("mkdir", "rename", "open"):
        monkeypatch.setattr(os, name, refuse)
    name, *options = command
    done = harness("runs", name, folder.id, *options)
    assert done.code == 1 and len(done.err.splitlines()) == 1
    assert "Read-only file system" in done.err and "internal error" not in done.err


def test_a_file_in_the_trash_that_nobody_deleted_stays(harness: CommandLine, home: Path) -> None:
    strange = RunFolder.of("x").path.parent.parent / "trash" / "runs" / "mine.txt"
    strange.parent.mkdir(parents=True)
    strange.touch()
    assert harness("list", "deleted").out == "" and strange.exists()
