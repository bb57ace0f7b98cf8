"""The key that opens the form with the values of a run."""

import shutil
from pathlib import Path

import pytest

from harness.core.run_request import RunRequest
from harness.tui.screens.new_run import NewRunScreen
from tests.functional.machine import PLUGINS
from tests.records import recorded_run
from tests.tui.piloting import notifications, on_page, open_app, press, text_of, until
from tests.tui.tables import table_of

pytestmark = pytest.mark.usefixtures("place")


def run_with_own_attacks(place: Path) -> Path:
    """Record a run of an attack in a directory of its own, with options that are not the defaults, and return that."""
    own = place / "own"
    own.mkdir()
    shutil.copy(PLUGINS / "draws.py", own / "some.py")
    run = recorded_run(place).folder
    spec = run.attack_spec()
    options = {"limit": 5, "devices": "cpu:2", "group": "night", "guesses_per_example": 0}
    request = RunRequest(attack="draws", round=spec.request.round, attacks=own, **options)  # type: ignore[arg-type]
    attack = spec.attack.model_copy(update={"name": "draws"})
    run.spec_file.write_text(spec.model_copy(update={"request": request, "attack": attack}).model_dump_json())
    return own


async def test_a_duplicate_is_of_the_attack_and_the_options_of_the_run(place: Path) -> None:
    own = run_with_own_attacks(place)
    async with open_app(size=(200, 50)) as pilot:
        await on_page(pilot, 1)
        await until(pilot, lambda: table_of(pilot, "runs").row_count == 1)
        await press(pilot, "d", then=NewRunScreen)
        await until(pilot, lambda: "--group night" in " ".join(text_of(pilot, "#command Static").split()))
        command = " ".join(text_of(pilot, "#command Static").split())
        for words in ("run draws", "--limit 5", "--devices cpu:2", "--guesses-per-example 0", f"--attacks {own}"):
            assert words in command


async def test_an_attack_whose_directory_is_gone_is_not_replaced_by_another_of_its_name(place: Path) -> None:
    shutil.rmtree(run_with_own_attacks(place))
    async with open_app(size=(120, 35)) as pilot:
        await on_page(pilot, 1)
        await until(pilot, lambda: table_of(pilot, "runs").row_count == 1)
        await press(pilot, "d", then=lambda: "no such directory" in notifications(pilot))
        assert not isinstance(pilot.app.screen, NewRunScreen)
