"""The page of the tunings: the list, and the settings of one."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from textual.widgets import Input

from harness.core.text import NO_VALUE
from harness.plugins.search_space import Span
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.sweeps.tuning import Tried
from harness.tui.pages import tuning
from harness.tui.pages.tuning import TuningPage
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.main import MainScreen
from harness.tui.screens.new_run import NewRunScreen, NewTuningScreen
from harness.tui.widgets.form_fields import FieldRow
from tests.functional.machine import PLUGINS, Machine
from tests.records import new_tuning
from tests.tui.piloting import SIZES, on_page, open_app, press, screen_text, title_of, until
from tests.tui.tables import rows_of, table_of


@pytest.mark.parametrize("size", SIZES)
async def test_a_home_without_tunings_says_how_to_start_one(size: tuple[int, int]) -> None:
    async with open_app(size=size) as pilot:
        await on_page(pilot, 4)
        if size[0] >= 80:
            await until(pilot, lambda: "No tunings yet" in screen_text(pilot.app))
            panels = pilot.app.screen.query("#tuning-page Panel")
            await until(pilot, lambda: all(panel.has_class("-empty") for panel in panels))
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_a_setting_with_a_crashed_fold_comes_last_and_names_it(machine: Machine) -> None:
    """The others were tried on fewer folds or have a lower recall."""
    folds = ("fold0of3", "fold1of3", "fold2of3")
    recalls = {"crashed": (0.9, None, 0.9), "whole": (0.2, 0.2, 0.2), "pruned": (0.1,)}

    def runs_of(_: str) -> list[Tried]:
        return [
            Tried(
                RunFolder(Path()),
                cast(AttackSpec, SimpleNamespace(params={"kind": kind}, round=SimpleNamespace(name=f"demo:{fold}"))),
                recall,
                Status.CRASHED if recall is None else Status.FINISHED,
                "it needs a reference model." if recall is None else "",
            )
            for kind, values in recalls.items()
            for fold, recall in zip(folds, values, strict=False)
        ]

    created = new_tuning(folds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "runs_of", runs_of)
        patch.setattr(tuning, "searched_space", lambda *_: {"kind": Span(choices=tuple(recalls))})
        view = tuning._read_view(created)
        patch.setattr(tuning, "read_tunings", lambda: [view])
        async with open_app(size=(160, 35)) as pilot:
            await on_page(pilot, 4)
            table = table_of(pilot, "settings")
            await until(pilot, lambda: table.row_count == 3)
            rows = list(rows_of(table).values())
            assert [row[3] for row in rows] == ["whole", "pruned", "crashed"]
            assert [row[-1] for row in rows][::2] == ["", "2 of 3 folds; fold1of3 crashed (it needs a reference model)"]
            assert rows[-1][1] == NO_VALUE and view.best == pytest.approx(0.2)


async def test_one_run_is_enough_for_the_scale(machine: Machine) -> None:
    folds = ("fold0of3",)
    spec = cast(AttackSpec, SimpleNamespace(params={"kind": "a"}, round=SimpleNamespace(name="demo:fold0of3")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "runs_of", lambda _: [Tried(RunFolder(Path()), spec, 0.3, Status.FINISHED)])
        patch.setattr(tuning, "searched_space", lambda *_: {"kind": Span(choices=("a",))})
        view = tuning._read_view(new_tuning(folds))
        patch.setattr(tuning, "read_tunings", lambda: [view])
        async with open_app(size=(160, 35)) as pilot:
            await on_page(pilot, 4)
            await until(pilot, lambda: "0.300  ●" in screen_text(pilot.app))


def test_a_tuning_at_work_shows_its_progress_and_eta() -> None:
    def state(ended: int, left: float | None) -> str:
        end_at = None if left is None else time.time() + left
        view = tuning.TuningView(new_tuning(("fold0of5",)), ended, "running", end_at, (), (), {})
        return "".join(text for text, _ in tuning._state(view))

    assert state(2, None) == "━─────── 10%"
    assert re.fullmatch("━━━───── 35% ETA 4:(10|09)", state(7, 250.0))
    assert state(19, -5.0).endswith("95% ETA 0:00")
    assert state(25, None) == "━━━━━━━━ 100%"


@pytest.mark.slow
async def test_a_tuning_is_listed_with_its_settings_best_first(machine: Machine) -> None:
    path = machine.folder / "round.toml"
    path.write_text(path.read_text().replace('clusters = "none"', 'clusters = "computed"'))
    options = ("--limit", "12", "--vary", "trials=1..3", "--set", "pause=0", "--runs", "4")
    result = machine.json("tune", "draws", *options, *machine.plugin())
    async with open_app() as pilot:
        await on_page(pilot, 4)
        await until(pilot, lambda: table_of(pilot, "tunings").keys == [result["id"]])
        assert rows_of(table_of(pilot, "tunings"))[result["id"]][1:4] == ["draws", path.stem, "4/4"]
        settings = table_of(pilot, "settings")
        await until(pilot, lambda: settings.row_count == len(result["settings"]))
        assert result["id"] in title_of(pilot, "setting-list")
        titles = [str(column.title) for column in settings._columns]
        assert "trials" in titles and any("fold0of5" in title for title in titles)
        folds = [place for place, title in enumerate(titles) if "fold" in title]
        # A pruned setting has a recall on fewer folds, and never comes before one that completed more.
        order = [
            (sum(bool(cells[place].strip()) for place in folds), float(cells[1]))
            for cells in rows_of(settings).values()
        ]
        assert order == sorted(order, reverse=True)
        best = next(iter(rows_of(settings).values()))[titles.index("trials")]
        assert best in {str(one["params"]["trials"]) for one in result["settings"]}


@pytest.mark.slow
async def test_a_tuning_starts_from_an_attack_and_is_stopped_and_continued_here(machine: Machine) -> None:
    path = machine.folder / "round.toml"
    path.write_text(path.read_text().replace('clusters = "none"', 'clusters = "computed"'))
    async with open_app(size=(160, 40), attacks_folder=PLUGINS, round_choice=str(path)) as pilot:
        await on_page(pilot, 2)
        attacks = table_of(pilot, "attacks")
        await until(pilot, lambda: str(PLUGINS / "draws.py") in attacks.keys)
        attacks.move_to(str(PLUGINS / "draws.py"))
        await press(pilot, "t", then=NewTuningScreen)
        await until(pilot, lambda: pilot.app.screen.query(FieldRow))
        rows = {row.field.key: row for row in pilot.app.screen.query(FieldRow)}
        assert not rows.keys() & {"--group", "--ray", "--shards"}
        for key, text in (("--vary", "pause=0.5..1"), ("--limit", "12"), ("--runs", "3")):
            rows[key].query_one(Input).value = text
        await press(pilot, "ctrl+r", then=MainScreen)
        tunings, page = table_of(pilot, "tunings"), pilot.app.screen.query_one(TuningPage)
        await until(pilot, lambda: page.has_focus_within and tunings.key_under_cursor)
        id_ = str(tunings.key_under_cursor)

        def state() -> str:
            return rows_of(tunings)[id_][4]

        await until(pilot, lambda: "%" in state())
        assert not page.check_action("change", ("resume", "--detach"))
        await press(pilot, "s", then=ConfirmDialog)
        await press(pilot, "n", then=MainScreen)
        assert "%" in state()
        await press(pilot, "s", then=ConfirmDialog)
        await press(pilot, "y", then=lambda: state() == "not running")
        await press(pilot, "r", then=ConfirmDialog)
        await press(pilot, "y", then=lambda: state() == "finished" and rows_of(tunings)[id_][3] == "3/3")
        # The best setting runs on the whole round.
        await press(pilot, "n", then=NewRunScreen)
        await until(pilot, lambda: pilot.app.screen.query(FieldRow))
        rows = {row.field.key: row for row in pilot.app.screen.query(FieldRow)}
        assert rows["--round"].text == str(path) and rows["--limit"].text == "12"
