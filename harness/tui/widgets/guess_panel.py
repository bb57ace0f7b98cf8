"""The panel of guesses: the live stream, and a search through all guesses of the run."""

from collections.abc import Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input
from textual.worker import get_current_worker

from harness.analysis.decoded_text import TokenText
from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.tui.guess_search import search_guesses
from harness.tui.run_feed import RunFeed
from harness.tui.snapshot import GuessLine
from harness.tui.widgets.guess_stream import GuessStream

_TITLE = "Guesses"


class GuessPanel(Vertical):
    """Shows the newest guesses or the results of a search."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._feed: RunFeed | None = None
        self._text = TokenText(None)
        self._newest: Sequence[GuessLine] = ()

    def compose(self) -> ComposeResult:
        yield Input(placeholder='example id or text ("12" for the digits)', id="search", compact=True)
        yield GuessStream(id="stream")

    def on_mount(self) -> None:
        self.query_one(Input).display = False

    @property
    def stream(self) -> GuessStream:
        """The widget that shows the lines."""
        return self.query_one(GuessStream)

    @property
    def is_searching(self) -> bool:
        """True while the search field or its results are shown."""
        return bool(self.query_one(Input).display)

    def set_source(self, feed: RunFeed, text: TokenText) -> None:
        """Set the run to search and the decoder of its tokens."""
        self._feed, self._text = feed, text
        self.stream.set_source(text, feed.prefixes, feed.answers)

    def show(self, lines: Sequence[GuessLine]) -> None:
        """Show the newest guesses if the stream follows them."""
        self._newest = lines
        self.stream.show(lines)

    def open_search(self) -> None:
        """Show the search field."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def toggle_follow(self) -> None:
        """Follow the newest guess, which closes a search; or stop following."""
        if self.is_searching or not self.stream.is_following:
            self.close_search()
        else:
            self.stream.is_following = False
            self.border_title = Content(f"{_TITLE} · paused, f follows")

    def close_search(self) -> None:
        """Return to the newest guesses."""
        self.workers.cancel_group(self, "search")
        self.query_one(Input).display = False
        self.border_title = Content(_TITLE)
        self.stream.focus()
        self.stream.is_following = True
        self.stream.show(self._newest)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value or self._feed is None:
            self.close_search()
            return
        self.stream.focus()
        self._search(event.value, self._feed, self._text)

    @work(thread=True, exclusive=True, group="search")
    def _search(self, query: str, feed: RunFeed, text: TokenText) -> None:
        worker = get_current_worker()

        def on_progress(progress: float) -> bool:
            if not worker.is_cancelled:
                self.call_later(self._show_search, query, f"searching: {progress:.0%}")
            return not worker.is_cancelled

        try:
            lines = search_guesses(query, feed, text, on_progress=on_progress)
        except HarnessError as error:
            self.notify(sanitize(str(error)), severity="error", markup=False)
            self.call_later(self._show_search, query, "search failed, Escape shows all")
            return
        if not worker.is_cancelled:
            self.call_later(self._show_search, query, f"{len(lines):,} found, Escape shows all", lines)

    def _show_search(self, query: str, status: str, lines: Sequence[GuessLine] | None = None) -> None:
        if self.is_searching:
            self.border_title = Content(f"{_TITLE} · {sanitize(query)[:40]} · {status}")
            if lines is not None:
                self.stream.show_fixed(lines)
