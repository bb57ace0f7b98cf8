"""The tables of the screens in tests: their rows, cells and cursors."""

from typing import Any

from textual.pilot import Pilot

from harness.tui.widgets.list_table import ListTable
from tests.tui.piloting import screen_text, until


def table_of(pilot: Pilot[None], name: str) -> ListTable:
    """Return the table with this id on the screen, or on the main screen below it."""
    for screen in reversed(pilot.app.screen_stack):
        for found in screen.query(f"#{name}").results(ListTable):
            return found
    raise AssertionError(f"there is no table #{name}")


def rows_of(table: ListTable) -> dict[str, list[str]]:
    """Return the cells of each row by its key, as text; a heading has one cell."""
    return {row.key: [cell_text(cell) for cell in row.cells] for row in table._rows}


def cell_text(cell: Any) -> str:
    """Return the text of a cell; one that is drawn for a width gets 20 characters."""
    return "".join(text for text, _ in (cell(20) if callable(cell) else cell)).strip()


def drawn_cursor(pilot: Pilot[None], table: ListTable) -> str:
    """Return the line of the screen that has the cursor of the table."""
    region = table.region
    lines = [line[region.x : region.right] for line in screen_text(pilot.app).splitlines()[region.y : region.bottom]]
    (line,) = [line for line in lines if line.startswith("▌")]
    return line


def runs(pilot: Pilot[None]) -> ListTable:
    return table_of(pilot, "runs")


async def go_to(pilot: Pilot[None], id_: str) -> None:
    """Wait until a run is listed, and move the cursor to it."""
    await until(pilot, lambda: id_ in runs(pilot).keys)
    runs(pilot).move_to(id_)


async def listed(pilot: Pilot[None], *ids: str) -> None:
    """Wait until the list of runs has exactly these, in this order."""
    await until(pilot, lambda: runs(pilot).keys == list(ids))
