"""Snapshots of the screens, so that no layout changes by accident."""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from harness.core.files import file_sha256
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.sweeps.tuning import Setting, Tried
from harness.tui import overview
from harness.tui.pages import leaderboard, tuning
from harness.tui.pages.tuning import TuningView
from harness.tui.saved_state import save_round_choice
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.package import PackageScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.form_fields import FormFields
from tests.functional.machine import PLUGINS, homes
from tests.records import EXAMPLES, change_spec, new_tuning, recorded_audit, recorded_run
from tests.tui.piloting import on_page, open_app, open_screen, title_of, until
from tests.tui.tables import rows_of, table_of

Matcher = Callable[[str, str], None]
NARROW, WIDE = (80, 24), (200, 55)
BOTH_SIZES = pytest.mark.parametrize("size", [NARROW, WIDE])
START = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Iterator[None]:
    """Set homes, a working directory and a time zone, so that no snapshot depends on them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (homes(tmp_path) | {"TZ": "UTC"}).items():
            patch.setenv(name, value)
        patch.chdir(tmp_path)
        patch.setattr(overview, "device_loads", dict)
        # The cursor of an input blinks, and a busy machine takes a picture of either state.
        patch.setattr(Input, "_toggle_cursor", lambda self: None)
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


def recorded_audit_() -> RunFolder:
    """A finished audit with fixed times."""
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
    return audit.folder


async def screenshot(
    screen: Screen[Any], is_ready: Callable[[Pilot[None]], Any], *, size: tuple[int, int], keys: Sequence[str] = ()
) -> str:
    async with open_screen(screen, size=size) as pilot:
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press(*keys)
        return await stable_picture(pilot)


async def stable_picture(pilot: Pilot[None]) -> str:
    """Wait until consecutive screenshots are equal, and return the last."""
    pictures = [""]
    while len(pictures) < 4:
        await pilot.pause(0.1)
        picture = pilot.app.export_screenshot(title="harness")
        pictures = [*pictures, picture] if picture == pictures[-1] else [picture]
    return pictures[-1]


def shows(pilot: Pilot[None], selector: str, words: str) -> bool:
    found = pilot.app.screen.query(selector)
    return bool(found) and words in str(found.first(Static).content)


async def picture_of_page(number: int, is_ready: Callable[[Pilot[None]], Any], size: tuple[int, int]) -> str:
    """Return a picture of a page of the main screen."""
    async with open_app(size=size) as pilot:
        await on_page(pilot, number)
        await until(pilot, lambda: is_ready(pilot))
        return await stable_picture(pilot)


def has_rows(name: str, count: int = 1) -> Callable[[Pilot[None]], bool]:
    return lambda pilot: table_of(pilot, name).row_count >= count


@BOTH_SIZES
async def test_the_page_of_runs(tmp_path: Path, size: tuple[int, int], matches_snapshot: Matcher) -> None:
    for id_, solved in (("abcd-some", 9), ("efgh-other", 12)):
        recorded(tmp_path, id_, solved=solved)
    recorded(tmp_path, "ijkl-blind", solved=0, is_blind=True)

    def is_ready(pilot: Pilot[None]) -> bool:
        return table_of(pilot, "runs").row_count == 3 and shows(pilot, "#facts", "guesses")

    matches_snapshot(f"runs-{size[0]}", await picture_of_page(1, is_ready, size))


async def test_the_card_of_the_first_run(matches_snapshot: Matcher) -> None:
    picture = await picture_of_page(1, lambda pilot: pilot.app.screen.query_one("#first-run").region.area, NARROW)
    matches_snapshot("first-run-80", picture)


async def test_the_page_of_attacks(tmp_path: Path, matches_snapshot: Matcher) -> None:
    # A relative path, so that no picture depends on the place of the repository.
    (tmp_path / "plugins").mkdir()
    shutil.copy(PLUGINS / "draws.py", tmp_path / "plugins")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "find_attacks", lambda folder: (_attack(Path("plugins") / "draws.py"),))

        def is_ready(pilot: Pilot[None]) -> bool:
            return shows(pilot, "#about-text", "trials") and "draws.py" in title_of(pilot, "source")

        matches_snapshot("attacks-80", await picture_of_page(2, is_ready, NARROW))


def _attack(path: Path) -> AttackFile:
    found = next(attack for attack in find_attacks(PLUGINS) if attack.name == "draws")
    return replace(found, path=path, origin="./attacks")


async def test_the_page_of_audits(matches_snapshot: Matcher) -> None:
    recorded_audit_()
    matches_snapshot(
        "audits-80", await picture_of_page(3, lambda pilot: shows(pilot, "#figures-text", "trigram"), NARROW)
    )


async def test_the_page_of_tunings(matches_snapshot: Matcher) -> None:
    folds = ("fold0of2", "fold1of2")
    created = new_tuning(folds, START)
    specs = [SimpleNamespace(round=SimpleNamespace(name=f"demo:{fold}")) for fold in folds]
    settings = tuple(
        (
            number,
            Setting(
                {"top_k": 5, "width": 600},
                tuple(
                    Tried(RunFolder(Path()), cast(AttackSpec, spec), recall / number)
                    for spec, recall in zip(specs, (0.6, 0.4), strict=True)
                ),
            ),
            number == 2,
        )
        for number in (1, 2)
    )
    view = TuningView(created, 3, ("top_k", "width"), settings, {"top_k": 0.75, "width": 0.25})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "read_tunings", lambda: [view])
        matches_snapshot("tuning-80", await picture_of_page(4, has_rows("settings", 2), NARROW))


async def test_the_page_of_the_leaderboard(tmp_path: Path, matches_snapshot: Matcher) -> None:
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "a.zip").touch()
    save_round_choice("demo")
    entry = {
        "bundle": "a.zip",
        "team": "team A",
        "attack": "baseline",
        "place": 1,
        "recall_at_cap": 0.5,
        "recall_interval": [0.4, 0.6],
        "difference": None,
        "ties": False,
        "elapsed_s": 12.0,
        "verified": "reproduced",
        "unranked": None,
    }
    second = entry | {"bundle": "b.zip", "team": "team B", "place": 2, "difference": -0.1, "ties": True}
    answer = {"round": "demo", "error_cap": 100, "entries": [entry, second | {"verified": "not verified"}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaderboard, "run_command", lambda *_, **__: answer)
        matches_snapshot("leaderboard-80", await picture_of_page(5, has_rows("entries", 2), NARROW))


async def test_the_page_of_data(matches_snapshot: Matcher) -> None:
    def is_ready(pilot: Pilot[None]) -> bool:
        rows = rows_of(table_of(pilot, "rounds"))
        return len(rows) == 4 and all("checking" not in cells[2] for cells in rows.values())

    matches_snapshot("data-80", await picture_of_page(6, is_ready, NARROW))


@BOTH_SIZES
async def test_a_run(tmp_path: Path, size: tuple[int, int], matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    svg = await screenshot(RunScreen(folder), has_band, size=size)
    matches_snapshot(f"run-{size[0]}", svg)


def has_band(pilot: Pilot[None]) -> bool:
    screen = pilot.app.screen
    return isinstance(screen, RunScreen) and screen._snapshot is not None and screen._snapshot.band is not None


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 7))
async def test_the_other_plots_of_a_run(tmp_path: Path, number: int, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    svg = await screenshot(RunScreen(folder), has_band, size=(120, 35), keys=["]"] * number)
    matches_snapshot(f"run-plot-{number + 1}", svg)


@pytest.mark.slow
async def test_a_blind_run(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=0, is_blind=True)
    svg = await screenshot(RunScreen(folder), lambda pilot: shows(pilot, "#details-text", "blind"), size=(120, 35))
    matches_snapshot("run-blind", svg)


async def test_an_audit(matches_snapshot: Matcher) -> None:
    screen = AuditScreen(recorded_audit_())
    svg = await screenshot(screen, lambda pilot: shows(pilot, "#progress-text", "1 warning"), size=NARROW)
    matches_snapshot("audit-80", svg)


async def test_a_comparison(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folders = [recorded(tmp_path, id_, solved=solved) for id_, solved in (("abcd-some", 9), ("efgh-other", 12))]
    svg = await screenshot(CompareScreen(folders), lambda pilot: shows(pilot, "#header", "2 runs"), size=NARROW)
    matches_snapshot("compare-80", svg)


async def test_an_example(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    screen = ExampleScreen([folder], range(EXAMPLES), 12)
    svg = await screenshot(screen, has_rows("candidates"), size=NARROW)
    matches_snapshot("example-80", svg)


async def test_the_form_of_a_new_run(matches_snapshot: Matcher) -> None:
    screen = NewRunScreen(_attack(PLUGINS / "draws.py"), attacks_folder=None, round_name="demo")
    svg = await screenshot(screen, lambda pilot: pilot.app.screen.query(FormFields).first().values(), size=NARROW)
    matches_snapshot("new-run-80", svg)


async def test_the_package_of_a_run(tmp_path: Path, matches_snapshot: Matcher) -> None:
    folder = recorded(tmp_path, "abcd-some", solved=9)
    (tmp_path / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    folder.code.mkdir()
    (folder.code / "some.py").touch()
    change_spec(folder, attack={"sha256": file_sha256(folder.code / "some.py")})
    screen = PackageScreen(folder)
    # The check `sandbox` is unmet, and accepted with Space.
    svg = await screenshot(
        screen, lambda pilot: shows(pilot, "#message", "unmet: sandbox"), size=NARROW, keys=["space"]
    )
    matches_snapshot("package-80", svg)


@pytest.mark.parametrize("key", ["question_mark", "ctrl+p", "b"])
async def test_the_dialogs(key: str, matches_snapshot: Matcher) -> None:
    names = {"question_mark": "keys", "ctrl+p": "actions", "b": "round"}
    async with open_app(size=(80, 24)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, ModalScreen))
        matches_snapshot(f"dialog-{names[key]}", await stable_picture(pilot))


async def test_a_question(matches_snapshot: Matcher) -> None:
    svg = await screenshot(ConfirmDialog("Stop this run?"), lambda pilot: True, size=(80, 24))
    matches_snapshot("question", svg)
