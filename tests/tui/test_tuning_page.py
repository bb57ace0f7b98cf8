"""The page of the tunings: the list, and the settings of one."""

import pytest
from textual.pilot import Pilot

from tests.functional.machine import Machine
from tests.tui.piloting import SIZES, on_page, play_app, rows_of, screen_text, table_of, title_of, until


@pytest.mark.parametrize("size", SIZES)
def test_a_home_without_tunings_says_how_to_start_one(size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await on_page(pilot, 4)
        if size[0] >= 80:
            await until(pilot, lambda: "no tunings yet" in screen_text(pilot.app))
            panels = pilot.app.screen.query("#tuning-page Panel")
            await until(pilot, lambda: all(panel.has_class("-empty") for panel in panels))
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())

    play_app(scenario, size=size)


@pytest.mark.slow
def test_a_tuning_is_listed_with_its_settings_best_first(machine: Machine) -> None:
    path = machine.folder / "round.toml"
    path.write_text(path.read_text().replace('clusters = "none"', 'clusters = "computed"'))
    options = ("--limit", "12", "--vary", "trials=1..3", "--set", "pause=0", "--runs", "4")
    result = machine.json("tune", "draws", *options, *machine.plugin())

    async def scenario(pilot: Pilot[None]) -> None:
        await on_page(pilot, 4)
        await until(pilot, lambda: table_of(pilot, "tunings").keys == [result["id"]])
        assert rows_of(table_of(pilot, "tunings"))[result["id"]][1:4] == ["draws", path.stem, "4"]
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

    play_app(scenario)
