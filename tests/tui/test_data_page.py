"""The page of the data: what each round has and lacks."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.tui.saved_state import save_values
from tests.functional.machine import Machine
from tests.tui.piloting import SIZES, notifications, on_page, open_app, press, screen_text, title_of, until
from tests.tui.stub_command import StubCommand
from tests.tui.tables import rows_of, table_of


@pytest.mark.parametrize("size", SIZES)
async def test_rounds_are_listed_with_their_files(machine: Machine, size: tuple[int, int]) -> None:
    own = str(machine.folder / "round.toml")
    save_values("draws", {"--round": own})
    async with open_app(size=size) as pilot:
        await on_page(pilot, 6)
        rounds = table_of(pilot, "rounds")
        await until(pilot, lambda: own in rounds.keys and rows_of(rounds)[own][2] == "complete")
        rows = rows_of(rounds)
        assert rows["demo"][2] == "complete" and "missing" in rows["satml-dev"][2]
        rounds.move_to(own)
        files = table_of(pilot, "files")
        await until(pilot, lambda: any("prefix-64.npy" in cells[0] for cells in rows_of(files).values()))
        assert {cells[1] for cells in rows_of(files).values()} == {"present"}
        assert title_of(pilot, "file-list") == f"Files of {own}"
    (machine.folder / "state" / "forms.json").unlink()


@pytest.mark.slow
async def test_a_round_that_cannot_be_read_is_a_row_with_the_reason(machine: Machine, tmp_path: Path) -> None:
    gone = str(tmp_path / "[b]gone.toml")
    save_values("draws", {"--round": gone})
    async with open_app() as pilot:
        await on_page(pilot, 6)
        await until(pilot, lambda: len(rows_of(table_of(pilot, "rounds")).get(gone, [])) == 1)
        (row,) = rows_of(table_of(pilot, "rounds"))[gone]
        assert row.startswith(f"{gone}  ") and row.isprintable()
    (machine.folder / "state" / "forms.json").unlink()


@pytest.mark.slow
async def test_fetching_shows_its_progress_and_escape_cancels_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[None]
) -> None:
    await on_page(pilot, 6)
    await until(
        pilot,
        lambda: rows_of(table_of(pilot, "rounds")).get("satml-test", ["", "", "checking …"])[2] != "checking …",
    )
    command = StubCommand(tmp_path / "stub", monkeypatch)
    await press(pilot, "f", then=lambda: command.has("started"))
    await until(pilot, lambda: "fetching, Escape cancels · hashing" in title_of(pilot, "round-list"))
    await press(pilot, "escape", then=lambda: "Not fetched: cancelled." in notifications(pilot))
    await until(pilot, lambda: command.has("interrupted"))
    command.release()
    assert "Rounds" in screen_text(pilot.app)
