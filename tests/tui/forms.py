"""The form of a new run in tests: its fields by key, what they show, and typing into them."""

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Static

from harness.plugins.discovery import find_attacks
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.widgets.form_fields import FieldRow
from tests.tui.piloting import ScreenApp, until

ATTACK = """
class A(Attack[P]):
    name = "some"
    uses_target = False
    def run(self, context): yield from ()
"""
PLAIN = "from harness import Attack, Params as P\n"
PAIR = """
from pydantic import model_validator
from harness import Attack, Field, Params
class P(Params):
    low: int = 1
    high: int = Field(ge=1, description="Not below low.")
    @model_validator(mode="after")
    def _in_order(self):
        if self.high < self.low:
            raise ValueError("[/ high is below low \\x1b[31m")
        return self
"""


def screen_of(attack: str, folder: Path, round_name: str = "demo") -> NewRunScreen:
    found = {file.name: file for file in find_attacks(folder)}
    return NewRunScreen(found[attack], attacks_folder=folder, round_name=round_name)


def written(folder: Path, source: str, attack: str = ATTACK) -> Path:
    path = folder / "some.py"
    path.write_text(source + attack)
    return path


def fields_of(screen: NewRunScreen) -> dict[str, FieldRow]:
    return {row.field.key: row for row in screen.query(FieldRow)}


async def form(pilot: Pilot[None]) -> dict[str, FieldRow]:
    """Wait for the form, and return its rows by key."""
    screen = stage(pilot).shown
    await until(pilot, lambda: screen.has_class("-form"))
    return fields_of(screen)


def stage(pilot: Pilot[None]) -> ScreenApp:
    assert isinstance(pilot.app, ScreenApp)
    return pilot.app


def message_of(row: FieldRow) -> str:
    return str(row.query_one(".error", Static).content)


async def typed(pilot: Pilot[None], row: FieldRow, text: str) -> None:
    row.focus_control()
    await pilot.press("end", "ctrl+u", *text)
    await pilot.pause()
