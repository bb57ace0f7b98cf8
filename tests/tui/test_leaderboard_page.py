"""The page of the leaderboard: the bundles in ./submissions, ranked on the chosen round."""

import json
import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Switch

from harness.tui.app import HarnessApp
from harness.tui.screens.verify import VerifyScreen
from harness.tui.widgets.form_fields import FieldRow
from tests.functional.machine import Machine
from tests.tui.piloting import SIZES, notifications, on_page, open_app, press, screen_text, text_of, title_of, until
from tests.tui.stored import stored_run
from tests.tui.tables import rows_of, table_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a new directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def verify_in_own_environment(pilot: Pilot[None]) -> None:
    screen = pilot.app.screen
    await until(pilot, lambda: screen.has_class("-form"))
    (row,) = [row for row in screen.query(FieldRow) if row.field.key == "--own-environment"]
    row.query_one(Switch).value = True
    await press(pilot, "ctrl+r", then=lambda: pilot.app.screen is not screen)


@pytest.mark.parametrize("size", SIZES)
async def test_without_bundles_it_says_where_they_come_from(size: tuple[int, int]) -> None:
    async with open_app(size=size) as pilot:
        await on_page(pilot, 5)
        if size[0] >= 80:
            await until(pilot, lambda: "No bundles in ./submissions" in screen_text(pilot.app))


async def test_all_rounds_ask_for_a_round(here: Path) -> None:
    (here / "submissions").mkdir()
    (here / "submissions" / "bad.zip").write_text("no zip")
    async with open_app() as pilot:
        await on_page(pilot, 5)
        await until(pilot, lambda: "b chooses the round" in screen_text(pilot.app))
        for _ in range(2):
            app = pilot.app
            assert isinstance(app, HarnessApp)
            app.action_use_round("demo")
            await until(pilot, lambda: "bad.zip: " in screen_text(pilot.app))
            assert "b chooses the round" not in screen_text(pilot.app)
            app.action_use_round("")
            await until(pilot, lambda: "b chooses the round" in screen_text(pilot.app))
            assert "bad.zip: " not in screen_text(pilot.app)
            # Nothing acts on what was ranked before.
            await pilot.press("r", "v", "enter")
            await pilot.pause()
            assert app.screen is app.main and table_of(pilot, "entries").has_focus


@pytest.mark.slow
async def test_bundles_are_ranked_with_ties_and_the_line_of_the_baseline(
    machine: Machine, here: Path, small_round: str
) -> None:
    folder = machine.folder
    (folder / "description.md").write_text("# What is new\n\nNothing.\n")
    (here / "submissions").mkdir()
    for name, solved in (("half", 32), ("quarter", 16)):
        run = machine.replayed(name, range(solved))
        (folder / "team.toml").write_text(f'name = "team {name}"\n[[members]]\nname = "A"\n')
        machine.run("bundle", "create", run.id, "--out", str(here / "submissions" / f"{name}.zip"))
    (here / "submissions" / "bad.zip").write_text("[/ no zip")
    stored_run(folder, "cccc-baseline-small", range(24), name="baseline")
    async with open_app(round_choice=small_round) as pilot:
        # The round of the bundles, which have its name.
        await on_page(pilot, 5)
        table = table_of(pilot, "entries")
        await until(pilot, lambda: table.row_count == 4)
        # It was collapsed while the bundles were ranked.
        assert table.has_focus
        assert title_of(pilot, "entry-list") == "Leaderboard · small · Recall@100"
        rows = rows_of(table)
        assert list(rows)[:3] == ["half.zip", "reference", "quarter.zip"]
        assert rows["half.zip"][:4] == ["1", "team half", "replay", "0.500"]
        assert rows["reference"] == ["── best run of baseline here: 0.375 ──"]
        table.move_to("quarter.zip")
        await until(pilot, lambda: "■ 2 team quarter" in screen_text(pilot.app))
        assert "● 1 team half" in screen_text(pilot.app) and "cap" in screen_text(pilot.app)
        table.move_to("half.zip")
        await until(pilot, lambda: "■ 2 team quarter" not in screen_text(pilot.app))
        assert rows["bad.zip"][0].startswith("bad.zip: ") and rows["bad.zip"][0].isprintable()
        # Nothing is chosen in advance, and what is shown says how it runs.
        await press(pilot, "v", then=VerifyScreen)
        await until(pilot, lambda: "Sandbox: " in screen_text(pilot.app))
        assert text_of(pilot, "#message") == "missing: own-environment"
        await press(pilot, "ctrl+r", then=lambda: text_of(pilot, "#message") == "1 field to correct.")
        # The page is free while the code runs.
        await verify_in_own_environment(pilot)
        await until(pilot, lambda: rows_of(table)["half.zip"][-1].startswith("running "))
        await press(pilot, "s", then=lambda: "half.zip: the verification was stopped." in notifications(pilot))
        assert not (here / "submissions" / "half.verdict.json").exists()
        await press(pilot, "v", then=VerifyScreen)
        await verify_in_own_environment(pilot)
        await on_page(pilot, 1)
        await until(pilot, lambda: "half.zip: reproduced." in notifications(pilot))
        await on_page(pilot, 5)
        await until(pilot, lambda: rows_of(table)["half.zip"][-1] == "reproduced")
        verdict = json.loads((here / "submissions" / "half.verdict.json").read_text())
        assert verdict["outcome"] == "reproduced"
        # Nothing of this round stays while another one is ranked.
        app = pilot.app
        assert isinstance(app, HarnessApp)
        await until(pilot, lambda: "team half" in text_of(pilot, "#entry-text"))
        app.action_use_round("demo")
        await until(pilot, lambda: "Recall vs. errors · 1 team half" not in screen_text(app))
        assert app.screen.query_one("#entry").has_class("-empty")
        shutil.rmtree(here / "submissions")
        await until(pilot, lambda: "No bundles in" in screen_text(pilot.app))
