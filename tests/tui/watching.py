"""A run's screen, played from tests."""

from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from harness.tui.screens.run import RunScreen
from tests.tui.piloting import played, text_of, until


def watched(
    folder: RunFolder, scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (80, 24)
) -> Any:
    """What `scenario` returns, played on the run's screen."""
    return played(RunScreen(folder), scenario, size=size)


async def shown(pilot: Pilot[None]) -> None:
    """Wait for the first snapshot."""
    await until(pilot, lambda: "guesses" in text_of(pilot, "#metrics-text"))
