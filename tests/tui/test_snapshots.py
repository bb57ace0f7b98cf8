"""Snapshots of the screens, so that no layout changes by accident."""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

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
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.package import PackageScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.plot_view import RunPlot
from tests.functional.machine import PLUGINS, homes
from tests.records import EXAMPLES, change_spec, new_tuning, recorded_audit, recorded_run
from tests.tui.piloting import on_page, open_app, open_screen, press, title_of, until
from tests.tui.tables import rows_of, table_of

Matcher = Callable[[str, str], None]
IsReady = Callable[[Pilot[None]], Any]
NARROW, MIDDLE, WIDE = (80, 24), (120, 35), (200, 55)
START = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


@pytest.fixture(autouse=True)
def patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Set homes, a working directory and a time zone, so that no snapshot depends on them."""
    for name, value in (homes(tmp_path) | {"TZ": "UTC"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    # The cursor of an input blinks, and a busy machine takes a picture of either state.
    monkeypatch.setattr(Input, "_toggle_cursor", lambda self: None)
    time.tzset()
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def fix_times(folder: RunFolder, *statements: str) -> None:
    """Run statements of SQL, in which ? is START, and give the run the time START."""
    with contextlib.closing(sqlite3.connect(folder.store)) as db, db:
        for statement in statements:
            db.execute(statement, (START,))
    os.utime(folder.spec_file, (START, START))


def finished_run(id_: str = "abcd-some", *, solved: int = 9, is_blind: bool = False) -> RunFolder:
    """A finished run of 16 examples with fixed times."""
    run = recorded_run(Path.cwd(), id_=id_, created_at=START, is_blind=is_blind, pid=os.getpid())
    with run.store.transaction():
        for second in range(1, 4):
            known = {"solved": None, "wrong": None, "recall": None}
            if not is_blind:
                known = {"solved": solved * second // 4, "wrong": 4 * second, "recall": solved * second // 4 / EXAMPLES}
            run.store.add_point(spent=3.0 * second, guesses=4 * second, rows=4 * second, **known)
    folder = run.finish(range(solved), spent=12.0)
    fix_times(folder, "UPDATE guess SET at = ? + seq")
    folder.log.write_text("loading\nattacking 16 examples\n")
    return folder


CONCLUSION = {
    "question": "Does the model continue the texts as they were written?",
    "answer": "Evidence",
    "evidence": "32 of 64 paragraphs pass, and 16 of 64 of the control",
    "caveat": "",
}


def finished_audit() -> RunFolder:
    """A finished audit with fixed times."""
    audit = recorded_audit(created_at=START, pid=os.getpid())
    audit.plan("complete", 64.0)
    audit.plan("again", 8.0)
    audit.spent(0.0, entry="start")
    audit.spent(24.0, entry="end")
    for number in range(8):
        batch = audit.batch(f"complete/0/{8 * number}", 8.0)
        audit.replies(batch, ["I recall the jitters that came with meeting my new coworkers"] * 8, first=8 * number)
        for name, share in (("trigram", 0.5), ("first 5 words", 0.25)):
            value = share + 0.2 / (number + 1)
            audit.figure(batch, name, value, low=value / 2, high=1.4 * value, of=8 * number + 8)
        audit.end(batch)
    bars = [
        {
            "label": name,
            "group": group,
            "value": value,
            "low": value - 0.1,
            "high": value + 0.1,
            "is_control": number > 0,
        }
        for name, share in (("trigrams", 0.5), ("first 5 words", 0.25))
        for number, (group, value) in enumerate({"corpus": share, "control": share / 2}.items())
    ]
    audit.findings({"conclusion": CONCLUSION, "bar_charts": [{"title": "Passed, by threshold", "bars": bars}]})
    audit.event("worker_warning", sentence="The file empty.txt holds no paragraph of 35 words.")
    audit.event("phase", phase="finished")
    audit.store.close()
    rows = [f"UPDATE audit_{table} SET at = ? + batch * 3" for table in ("reply", "figure")]
    fix_times(audit.folder, *rows, "UPDATE ledger SET at = ? + spent")
    audit.folder.log.write_text("loading\nmeasuring 64 paragraphs\n")
    return audit.folder


def draws_in(path: Path) -> AttackFile:
    """Return the attack draws, as if it were in `path`."""
    return replace(next(file for file in find_attacks(PLUGINS) if file.name == "draws"), path=path, origin="./attacks")


async def stable_picture(pilot: Pilot[None]) -> str:
    """Wait until consecutive screenshots are equal, and return the last."""
    pictures = [""]
    while len(pictures) < 4:
        await pilot.pause(0.1)
        picture = pilot.app.export_screenshot(title="harness")
        pictures = [*pictures, picture] if picture == pictures[-1] else [picture]
    return pictures[-1]


def shows(selector: str, words: str) -> IsReady:
    def is_ready(pilot: Pilot[None]) -> bool:
        found = pilot.app.screen.query(selector)
        return bool(found) and words in str(found.first(Static).content)

    return is_ready


def has_rows(name: str, count: int = 1) -> IsReady:
    return lambda pilot: table_of(pilot, name).row_count >= count


# The screens.


def has_band(pilot: Pilot[None]) -> bool:
    screen = pilot.app.screen
    return isinstance(screen, RunScreen) and screen._snapshot is not None and screen._snapshot.band is not None


def comparison() -> CompareScreen:
    return CompareScreen([finished_run("abcd-some", solved=9), finished_run("efgh-other", solved=12)])


def package() -> PackageScreen:
    """The check `sandbox` is unmet."""
    folder = finished_run()
    Path("team.toml").write_text('[[members]]\nname = "Ada"\n')
    folder.code.mkdir()
    (folder.code / "some.py").touch()
    change_spec(folder, attack={"sha256": file_sha256(folder.code / "some.py")})
    return PackageScreen(folder)


class Shot(NamedTuple):
    """A picture of a screen: how to make it, when it is complete, the size of the terminal, and keys to press."""

    make: Callable[[], Screen[Any]]
    is_ready: IsReady
    size: tuple[int, int] = NARROW
    keys: tuple[str, ...] = ()


SCREENS = {
    "run-80": Shot(lambda: RunScreen(finished_run()), has_band),
    "run-200": Shot(lambda: RunScreen(finished_run()), has_band, WIDE),
    "audit-80": Shot(lambda: AuditScreen(finished_audit()), shows("#progress-text", "1 warning")),
    "compare-80": Shot(comparison, shows("#header", "2 runs")),
    "example-80": Shot(lambda: ExampleScreen([finished_run()], range(EXAMPLES), 12), has_rows("candidates")),
    "new-run-80": Shot(
        lambda: NewRunScreen(draws_in(PLUGINS / "draws.py"), attacks_folder=None, round_name="demo"),
        shows("#help", "budget 10:00"),
    ),
    # Space accepts the check.
    "package-80": Shot(package, shows("#message", "unmet: sandbox"), keys=("space",)),
    "question": Shot(lambda: ConfirmDialog("Stop this run?"), lambda pilot: True),
}
SLOW_SCREENS = {
    **{
        f"run-plot-{number + 1}": Shot(lambda: RunScreen(finished_run()), has_band, MIDDLE, ("]",) * number)
        for number in range(1, len(RunPlot))
    },
    "run-blind": Shot(
        lambda: RunScreen(finished_run(solved=0, is_blind=True)), shows("#details-text", "blind"), MIDDLE
    ),
}


@pytest.mark.parametrize("name", [*SCREENS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_SCREENS)])
async def test_a_screen(name: str, matches_snapshot: Matcher) -> None:
    shot = (SCREENS | SLOW_SCREENS)[name]
    async with open_screen(shot.make(), size=shot.size) as pilot:
        await until(pilot, lambda: shot.is_ready(pilot))
        await pilot.press(*shot.keys)
        matches_snapshot(name, await stable_picture(pilot))


# The pages.


async def picture_of_page(
    number: int, is_ready: IsReady, size: tuple[int, int] = NARROW, *, round_choice: str | None = None
) -> str:
    async with open_app(size=size, round_choice=round_choice) as pilot:
        await on_page(pilot, number)
        await until(pilot, lambda: is_ready(pilot))
        return await stable_picture(pilot)


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_the_page_of_runs(size: tuple[int, int], matches_snapshot: Matcher) -> None:
    for id_, solved in (("abcd-some", 9), ("efgh-other", 12)):
        finished_run(id_, solved=solved)
    finished_run("ijkl-blind", solved=0, is_blind=True)

    def is_ready(pilot: Pilot[None]) -> bool:
        return table_of(pilot, "runs").row_count == 3 and shows("#facts", "guesses")(pilot)

    matches_snapshot(f"runs-{size[0]}", await picture_of_page(1, is_ready, size))


async def test_the_card_of_the_first_run(matches_snapshot: Matcher) -> None:
    picture = await picture_of_page(1, lambda pilot: pilot.app.screen.query_one("#first-run").region.area)
    matches_snapshot("first-run-80", picture)


async def test_the_page_of_attacks(patch: pytest.MonkeyPatch, matches_snapshot: Matcher) -> None:
    # A relative path, so that no picture depends on the place of the repository.
    Path("plugins").mkdir()
    shutil.copy(PLUGINS / "draws.py", "plugins")
    patch.setattr(overview, "find_attacks", lambda folder: (draws_in(Path("plugins") / "draws.py"),))

    def is_ready(pilot: Pilot[None]) -> bool:
        return shows("#about-text", "trials")(pilot) and "draws.py" in title_of(pilot, "source")

    matches_snapshot("attacks-80", await picture_of_page(2, is_ready))


async def test_the_page_of_audits(matches_snapshot: Matcher) -> None:
    finished_audit()
    matches_snapshot("audits-80", await picture_of_page(3, shows("#answer-text", "Evidence")))


async def test_the_page_of_tunings(patch: pytest.MonkeyPatch, matches_snapshot: Matcher) -> None:
    folds = ("fold0of2", "fold1of2")
    specs = [cast(AttackSpec, SimpleNamespace(round=SimpleNamespace(name=f"demo:{fold}"))) for fold in folds]

    def setting(number: int) -> Setting:
        recalls = zip(specs, (0.6, 0.4), strict=True)
        tried = tuple(Tried(RunFolder(Path()), spec, recall / number) for spec, recall in recalls)
        return Setting({"top_k": 5, "width": 600}, tried)

    settings = ((1, setting(1), False), (2, setting(2), True))
    shares = {"top_k": 0.75, "width": 0.25}
    view = TuningView(new_tuning(folds, START), 3, "not running", None, tuple(shares), settings, shares)
    patch.setattr(tuning, "read_tunings", lambda: [view])
    matches_snapshot("tuning-80", await picture_of_page(4, has_rows("settings", 2)))


async def test_the_page_of_the_leaderboard(patch: pytest.MonkeyPatch, matches_snapshot: Matcher) -> None:
    Path("submissions").mkdir()
    Path("submissions/a.zip").touch()
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
        "checks": [{"name": "manifest", "holds": True, "sentence": "19 files as listed"}],
        "unranked": None,
        "curve": {"errors": [1, 10, 200], "recall": [0.1, 0.3, 0.6]},
    }
    second = entry | {"bundle": "b.zip", "team": "team B", "place": 2, "difference": -0.1, "ties": True}
    answer = {"round": "demo", "error_cap": 100, "entries": [entry, second | {"verified": "not verified"}]}
    patch.setattr(leaderboard, "run_command", lambda *_, **__: answer)
    matches_snapshot("leaderboard-80", await picture_of_page(5, has_rows("entries", 2), round_choice="demo"))


async def test_the_page_of_data(matches_snapshot: Matcher) -> None:
    def is_ready(pilot: Pilot[None]) -> bool:
        rows = rows_of(table_of(pilot, "rounds"))
        return len(rows) == 4 and all("checking" not in cells[2] for cells in rows.values())

    matches_snapshot("data-80", await picture_of_page(6, is_ready))


@pytest.mark.parametrize(("key", "name"), [("question_mark", "keys"), ("ctrl+p", "actions"), ("b", "round")])
async def test_the_dialogs(key: str, name: str, matches_snapshot: Matcher) -> None:
    async with open_app(size=NARROW) as pilot:
        await press(pilot, key, then=ModalScreen)
        matches_snapshot(f"dialog-{name}", await stable_picture(pilot))
