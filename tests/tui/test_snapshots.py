"""Snapshots of the screens, so that no layout changes by accident."""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from harness.core.files import file_sha256
from harness.plugins.discovery import find_attacks
from harness.runs.folder import RunFolder
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.package import PackageScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.form_fields import FormFields
from tests.functional.machine import PLUGINS, homes
from tests.tiers import slow_values
from tests.tui.piloting import play_screen, until
from tests.unit.tui.recorded import EXAMPLES, recorded_run
from tests.unit.tui.recorded_audit import recorded_audit

Matcher = Callable[[str, str], None]
START = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Iterator[None]:
    """Set homes, a working directory and a time zone, so that no snapshot depends on them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (homes(tmp_path) | {"TZ": "UTC"}).items():
            patch.setenv(name, value)
        patch.chdir(tmp_path)
        time.tzset()
        yield
    time.tzset()


def recorded(folder: Path, id_: str, *, solved: int, is_blind: bool = False) -> RunFolder:
    """A finished run of 16 examples with fixed times."""
    run = recorded_run(folder, id_=id_, created_at=START, is_blind=is_blind, pid=os.getpid())
    batch = run.batch("0")
    run.guess(batch, [(example, example < solved, 1.0 - example / 10) for example in range(EXAMPLES)])
    run.event("phase", phase="finished")
    with run.store.transaction():
        run.store.add_ledger("end", 12.0)
        for second in range(1, 5):
            solved_then = None if is_blind else solved * second // 4
            recall = None if solved_then is None else solved_then / EXAMPLES
            run.store.add_point(
                spent=3.0 * second,
                guesses=4 * second,
                rows=4 * second,
                solved=solved_then,
                wrong=None if is_blind else 4 * second,
                recall=recall,
            )
    run.store.close()
    with contextlib.closing(sqlite3.connect(run.folder.store)) as db, db:
        db.execute("UPDATE guess SET at = ? + seq", (START,))
    os.utime(run.folder.spec_file, (START, START))
    run.folder.log.write_text("loading\nattacking 16 examples\n")
    return run.folder


def screenshot(
    screen: Screen[Any], is_ready: Callable[[Pilot[None]], Any], *, size: tuple[int, int], keys: Sequence[str] = ()
) -> str:
    async def scenario(pilot: Pilot[None]) -> str:
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press(*keys)
        await wait_until_stable(pilot)
        return pilot.app.export_screenshot(title="harness")

    return play_screen(screen, scenario, size=size)


async def wait_until_stable(pilot: Pilot[None]) -> None:
    """Wait until two consecutive screenshots are equal."""
    before = ""
    while (now := pilot.app.export_screenshot()) != before:
        before = now
        await pilot.pause(0.2)


def shows(pilot: Pilot[None], selector: str, words: str) -> bool:
    found = pilot.app.screen.query(selector)
    return bool(found) and words in str(found.first(Static).content)


@pytest.mark.parametrize("size", [(80, 24), *slow_values([(160, 40)])])
def test_a_run(tmp_path: Path, size: tuple[int, int], matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    svg = screenshot(RunScreen(folder), lambda pilot: shows(pilot, "#metrics-text", "exact@1"), size=size)
    matches_snapshot(f"run-{size[0]}", svg)


def test_a_blind_run(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=0, is_blind=True)
    svg = screenshot(RunScreen(folder), lambda pilot: shows(pilot, "#metrics-text", "blind"), size=(160, 40))
    matches_snapshot("run-blind", svg)


@pytest.mark.parametrize("size", [(80, 24), *slow_values([(160, 40)])])
def test_an_audit(size: tuple[int, int], matches_snapshot: Matcher) -> None:
    audit = recorded_audit(created_at=START, pid=os.getpid())
    audit.plan("complete", 64.0)
    audit.plan("again", 8.0)
    with audit.store.transaction():
        audit.store.add_ledger("start", 0.0)
        audit.store.add_ledger("end", 24.0)
    for number in range(8):
        batch = audit.batch(f"complete/0/{8 * number}", 8.0)
        audit.replies(batch, ["I recall the jitters that came with meeting my new coworkers"] * 8, first=8 * number)
        for name, share in (("trigram", 0.5), ("first 5 words", 0.25)):
            value = share + 0.2 / (number + 1)
            audit.figure(batch, name, value, low=value / 2, high=1.4 * value, of=8 * number + 8)
        audit.end(batch)
    audit.event("worker_warning", sentence="The file empty.txt holds no paragraph of 35 words.")
    audit.event("phase", phase="finished")
    audit.store.close()
    with contextlib.closing(sqlite3.connect(audit.folder.store)) as db, db:
        for table in ("audit_reply", "audit_figure"):
            db.execute(f"UPDATE {table} SET at = ? + batch * 3", (START,))
        db.execute("UPDATE ledger SET at = ? + spent", (START,))
    os.utime(audit.folder.spec_file, (START, START))
    audit.folder.log.write_text("loading\nmeasuring 64 paragraphs\n")
    screen = AuditScreen(audit.folder)
    svg = screenshot(screen, lambda pilot: shows(pilot, "#progress-text", "1 warning"), size=size)
    matches_snapshot(f"audit-{size[0]}", svg)


def test_a_comparison(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folders = [recorded(tmp_path, id_, solved=solved) for id_, solved in (("abcd-some", 9), ("efgh-other", 12))]
    svg = screenshot(CompareScreen(folders), lambda pilot: shows(pilot, "#header", "2 runs"), size=(160, 40))
    matches_snapshot("compare", svg)


def test_an_example(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    screen = ExampleScreen([folder], range(EXAMPLES), 12)
    svg = screenshot(screen, lambda pilot: shows(pilot, "#example-text", "candidate"), size=(80, 24))
    matches_snapshot("example", svg)


def test_the_form_of_a_new_run(matches_snapshot: Matcher) -> None:
    attack = next(attack for attack in find_attacks(PLUGINS) if attack.name == "draws")
    screen = NewRunScreen(attack, attacks_folder=None, round_name="demo")
    svg = screenshot(screen, lambda pilot: pilot.app.screen.query(FormFields).first().values(), size=(80, 24))
    matches_snapshot("new-run", svg)


@pytest.mark.parametrize("size", [(80, 24), *slow_values([(160, 40)])])
def test_the_package_of_a_run(tmp_path: Path, size: tuple[int, int], matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    (tmp_path / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    folder.code.mkdir()
    (folder.code / "some.py").touch()
    written = folder.attack_spec().model_dump(mode="json")
    written["attack"]["sha256"] = file_sha256(folder.code / "some.py")
    folder.spec_file.write_text(json.dumps(written))
    screen = PackageScreen(folder)
    # The check `sandbox` is unmet, and accepted with Space.
    svg = screenshot(screen, lambda pilot: shows(pilot, "#message", "unmet: sandbox"), size=size, keys=["space"])
    matches_snapshot(f"package-{size[0]}", svg)


def test_a_question(matches_snapshot: Matcher) -> None:
    svg = screenshot(ConfirmDialog("Stop this run?"), lambda pilot: True, size=(80, 24))
    matches_snapshot("question", svg)
