"""The panel of guesses: following, searching, and opening an example."""

from textual.pilot import Pilot
from textual.widgets import Static

from harness.runs.folder import RunFolder
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.guess_panel import GuessPanel
from harness.tui.widgets.guess_stream import GuessStream
from tests.tui.piloting import screen_text, text_of, until, watch
from tests.tui.stored import add_guesses
from tests.unit.tui.recorded import Recorded


def test_moving_the_cursor_stops_following_and_f_continues(running: Recorded) -> None:
    add_guesses(running, 60)

    async def scenario(pilot: Pilot[None]) -> None:
        stream = pilot.app.screen.query_one(GuessStream)
        await pilot.press("3")
        await until(pilot, lambda: stream.max_scroll_y > 5 and stream.scroll_y == stream.max_scroll_y)
        stream.focus()
        await pilot.press("up", "up", "up")
        await until(pilot, lambda: not stream.is_following)
        before, count = stream.scroll_y, len(stream._lines)
        add_guesses(running, 30)
        await until(pilot, lambda: f"{count + 30}" in text_of(pilot, "#metrics-text"))
        assert stream.scroll_y == before and len(stream._lines) == count
        await pilot.press("f")
        await until(pilot, lambda: len(stream._lines) == count + 30 and stream.scroll_y == stream.max_scroll_y)

    watch(running.folder, scenario)


def test_a_search_finds_guesses_and_escape_closes_it(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        panel = pilot.app.screen.query_one(GuessPanel)
        await pilot.press("slash", "1", "7", "enter")
        await until(pilot, lambda: "found" in str(panel.border_title))
        assert {line.example for line in panel.stream._lines} == {17}
        await pilot.press("slash", *"[/ no such words", "enter")
        await until(pilot, lambda: "· 0 found" in str(panel.border_title))
        # A new snapshot does not replace the results.
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        snapshot = screen._snapshot
        await until(pilot, lambda: screen._snapshot is not snapshot)
        assert panel.stream._lines == ()
        await pilot.press("f")
        await until(pilot, lambda: not panel.is_searching and len(panel.stream._lines) > 1)
        await pilot.press("slash", "1", "7", "enter")
        await until(pilot, lambda: "found" in str(panel.border_title))
        await pilot.press("escape")
        await until(pilot, lambda: len({line.example for line in panel.stream._lines}) > 1)
        assert str(panel.border_title) == "Guesses" and panel.stream.is_following
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, RunScreen))

    watch(finished, scenario)


def test_enter_opens_the_example_of_the_guess_under_the_cursor(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        stream = pilot.app.screen.query_one(GuessStream)
        await pilot.press("3", "up", "up")
        line = stream.line_under_cursor
        assert line is not None and line.seq == stream._lines[-3].seq
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExampleScreen))
        which = pilot.app.screen.query_one("#which", Static)
        assert f"example {line.example} · {line.example + 1} of 64" in str(which.content)
        await until(pilot, lambda: "1 candidate" in screen_text(pilot.app))
        assert "✗" in screen_text(pilot.app)
        await pilot.press("n", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))

    watch(finished, scenario)


def test_a_click_moves_the_cursor_and_a_double_click_opens_the_example(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        stream = pilot.app.screen.query_one(GuessStream)
        await until(pilot, lambda: stream.max_scroll_y and stream.scroll_y == stream.max_scroll_y)
        top = stream._lines[stream.scroll_offset.y + 1]
        await pilot.click(stream, offset=(5, 1))
        assert stream.line_under_cursor is not None and stream.line_under_cursor.seq == top.seq
        await pilot.click(stream, offset=(5, 1), times=2)
        await until(pilot, lambda: isinstance(pilot.app.screen, ExampleScreen))

    watch(finished, scenario)
